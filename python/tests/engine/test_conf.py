"""What an nccl.conf sets acts without anybody having exported it: the record of the run has it, and a note says so."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

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
    assert "NCCL_PROTO=LL was not exported: the library or one of its plugins set it" in run["notes"]


def test_what_was_exported_wins_and_needs_no_note(engine: Engine, library: str, tmp_path: Path) -> None:
    run = first_line(engine, library, tmp_path, BUSBW_TEST_CONF="LL", NCCL_PROTO="Simple")
    assert run["environment"]["NCCL_PROTO"] == "Simple"
    assert not any("NCCL_PROTO" in note for note in run["notes"])


def test_what_a_conf_sets_is_recorded_with_its_file_named_relative_or_not(
    engine: Engine, library: str, tmp_path: Path
) -> None:
    (tmp_path / "my.conf").write_text(f"NCCL_PROTO=LL\nNCCL_ALGO=Tree\nNCCL_GRAPH_FILE={tmp_path}/graph.xml\n")
    (tmp_path / "graph.xml").write_text("<graphs/>")
    for number, name in enumerate((str(tmp_path / "my.conf"), os.path.relpath(tmp_path / "my.conf"))):
        (folder := tmp_path / str(number)).mkdir()
        run: dict[str, Any] = dict(
            first_line(engine, library, folder, NCCL_CONF_FILE=name, NCCL_ALGO="Ring", BUSBW_TEST_CONF="LL")
        )
        told = [(each["name"], each["value"], each["line"], each["in_force"]) for each in run["conf"]]
        assert [each["file"] for each in run["conf"]] == [name] * 3
        assert told[:2] == [("NCCL_PROTO", "LL", 1, True), ("NCCL_ALGO", "Tree", 2, False)]
        assert f"NCCL_PROTO=LL was not exported: the library read it from {name}" in run["notes"]
        assert len(run["system"]["file of NCCL_GRAPH_FILE"]) == len(run["system"]["file of NCCL_CONF_FILE"]) == 12
