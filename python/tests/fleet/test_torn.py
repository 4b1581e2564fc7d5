"""What a kill, a full disk or a second coordinator does to the file of results."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.fleet.run import _end_torn_line

HEAD = '{"busbw_fleet": 1, "nodes": ["n1", "n2", "n3"], "inside": ["nvlink"], "repeats": 8}\n'
RESULT = '{"round": 0, "kind": "inside", "channel": "nvlink", "nodes": ["n1"], "samples": [40, 41, 40]}\n'


@pytest.fixture
def program(tmp_path: Path) -> Path:
    found = tmp_path / "measure"
    found.write_text('#!/bin/sh\nfor at in 1 2 3 4 5 6 7 8; do echo 40.0$at; done > "$BUSBW_FLEET_SAMPLES"\n')
    found.chmod(0o755)
    return found


@pytest.mark.parametrize("torn", ['{"round": 0, "kin', "\0\0\0", '{"round": 0, "kind": "inside", "nodes": ["n\xe9'])
def test_a_fleet_goes_on_after_a_torn_line_and_its_file_is_whole(tmp_path: Path, program: Path, torn: str) -> None:
    file = tmp_path / "results.jsonl"
    file.write_text(HEAD + RESULT + torn)
    words = ["fleet", "run", str(file), "--launcher", "local", "--program", str(program), "--no-record"]
    assert main(words) == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(lines) > 4
    assert [line["nodes"] for line in lines if line.get("round") == 0].count(["n1"]) == 1
    assert main(["fleet", "judge", str(file)]) == 0


def test_a_last_line_that_only_lacks_its_end_stays(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    file.write_text(HEAD + RESULT.rstrip("\n"))
    _end_torn_line(file)
    assert file.read_text() == HEAD + RESULT


def test_a_second_coordinator_is_refused(tmp_path: Path, program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "results.jsonl"
    file.write_text(HEAD)
    with file.open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        words = ["fleet", "run", str(file), "--launcher", "local", "--program", str(program), "--no-record"]
        assert main(words) == 2
    assert "another busbw measures into" in capsys.readouterr().err
    assert file.read_text() == HEAD


def test_a_second_watcher_of_a_folder_is_refused(
    tmp_path: Path, program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "turns"
    folder.mkdir()
    words = ["fleet", "watch", str(folder), "--hosts", "n[1-3]", "--rails", "1", "--turns", "1", "--launcher", "local",
             "--no-record", "--program", str(program)]  # fmt: skip
    other = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert main(words) == 2
        assert "another busbw measures into" in capsys.readouterr().err
        assert not list(folder.iterdir())
    finally:
        os.close(other)
    assert main(words) == 0
    assert list(folder.glob("turn-*.jsonl"))


def test_watch_into_a_file(tmp_path: Path, program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "turns").write_text("")
    words = ["fleet", "watch", str(tmp_path / "turns"), "--hosts", "n[1-3]", "--launcher", "local", "--program"]
    assert main([*words, str(program)]) == 2
    assert "is no folder" in capsys.readouterr().err


def test_a_turn_that_a_kill_left_torn_ends_no_watch(
    tmp_path: Path, program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "turns"
    folder.mkdir()
    (folder / "turn-20260101T000000Z.jsonl").write_text('{"busbw_fleet": 1, "nod')
    (folder / "turn-20260101T000100Z.jsonl").write_text("")
    (folder / "turn-20260101T000100Z.jsonl.work").mkdir()
    (folder / "turn-20260101T000100Z.jsonl.work" / "0.out").write_text("40\n")
    words = ["fleet", "watch", str(folder), "--hosts", "n[1-3]", "--rails", "1", "--turns", "1", "--launcher", "local",
             "--no-record", "--program", str(program)]  # fmt: skip
    assert main(words) == 0
    assert "an earlier turn is left out" in capsys.readouterr().err
    assert not list(folder.glob("*.work"))
