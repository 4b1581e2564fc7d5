"""What is no folder of recordings is said in one sentence, with the verb that reads it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from made_recordings import Made, Row, write

from busbw.base.errors import UserError
from busbw.importers import load
from busbw.watch.given import recordings_in

TRACE = {"schema": "1.1.1-chakra.0.0.4", "pid": 7, "start_ts": 1, "nodes": []}


def test_a_trace_in_one_long_line_is_told_by_its_kind_too(tmp_path: Path) -> None:
    trace = tmp_path / "et_0.json"
    trace.write_text(json.dumps({**TRACE, "nodes": [{"id": each} for each in range(10_000)]}))
    with pytest.raises(UserError, match=r"64 Ki characters was left out; it seems to be a Chakra execution trace"):
        load(trace)


def test_a_folder_with_recordings_has_them(tmp_path: Path) -> None:
    path = write(tmp_path, 0, [Row(0, 2)], [Made(0)])
    (tmp_path / "et_0.json").write_text(json.dumps(TRACE))
    assert recordings_in(tmp_path) == [path]
    with pytest.raises(UserError, match="is one recording; name its folder"):
        recordings_in(path)


def test_where_traces_lie_the_verb_that_reads_them_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no recording; `busbw watch --output \S+ -- PROGRAM` makes them"):
        recordings_in(tmp_path)
    trace = tmp_path / "et_0.json"
    trace.write_text(json.dumps(TRACE))
    with pytest.raises(UserError, match=r"holds no recording; of execution traces `busbw import \S+ --recordings"):
        recordings_in(tmp_path)
    with pytest.raises(UserError, match=r"is no folder of recordings; .* are read by `busbw doctor \S+et_0.json`"):
        recordings_in(trace)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["replay"], "is no folder of recordings; of execution traces `busbw import"),
        (["watch", "--read"], "is no folder of recordings; of execution traces `busbw import"),
        (["experiment", "--vary", "BUSBW_CPU_ALGO=auto,staged", "--replay"], "is no folder of recordings"),
        (["doctor"], "is an execution trace of PyTorch, which has calls and no errors; `busbw import"),
        (["import"], "it seems to be a Chakra execution trace"),
    ],
)
def test_a_trace_of_one_line_is_one_sentence_wherever_it_is_given(tmp_path: Path, words: list[str], said: str) -> None:
    trace = tmp_path / "et_0.json"
    trace.write_text(json.dumps(TRACE))
    command = [sys.executable, "-m", "busbw", *words, str(trace)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    (line,) = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    assert said in line
