"""What an nccl.conf sets acts without anybody having exported it: the record of the run has it, and a note says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from harness import Engine


@pytest.fixture
def library(engine: Engine) -> str:
    path = engine.library("busbw_test_recording")
    if not Path(path).exists():
        pytest.skip("the test libraries are not built")
    return str(path)


def first_line(engine: Engine, library: str, folder: Path, **env: str) -> dict[str, dict[str, str]]:
    record = folder / "run.jsonl"
    words = ("-b", "4K", "-e", "4K", "-n", "1", "-w", "0", "-c", "0", "--record", str(record), "--library", library)
    done = engine.run("all_reduce", *words, env={"BUSBW_TEST_CALLS": str(folder / "calls"), **env})
    assert done.code == 0, done.err
    return dict(json.loads(record.read_text().splitlines()[0]))


def test_a_variable_that_the_library_set_is_recorded_with_a_note(engine: Engine, library: str, tmp_path: Path) -> None:
    run = first_line(engine, library, tmp_path, BUSBW_TEST_CONF="LL")
    assert run["environment"]["NCCL_PROTO"] == "LL"
    assert "NCCL_PROTO=LL was not exported: the library read it from an nccl.conf" in run["notes"]


def test_what_was_exported_wins_and_needs_no_note(engine: Engine, library: str, tmp_path: Path) -> None:
    run = first_line(engine, library, tmp_path, BUSBW_TEST_CONF="LL", NCCL_PROTO="Simple")
    assert run["environment"]["NCCL_PROTO"] == "Simple"
    assert not any("NCCL_PROTO" in note for note in run["notes"])
