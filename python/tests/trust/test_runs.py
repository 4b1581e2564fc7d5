"""A hostile folder of runs harms nobody, and no run is replaced or deleted that was not named."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import pytest

from busbw.base.errors import UserError
from busbw.cli.main import main
from busbw.runs import store
from busbw.runs.index import INDEX_NAME, Index
from busbw.runs.lookup import find

RUN = {"schema": 1, "kind": "run", "run": "r", "tool": {"name": "busbw", "version": "1"}}


def keep(root: Path, name: str, *lines: object) -> Path:
    return store.add_lines(name, [json.dumps(line) + "\n" for line in lines], root)


def listed(root: Path) -> list[str]:
    with Index(root) as index:
        return [name for (name,) in index.rows("SELECT run FROM runs ORDER BY run")]


def test_a_run_is_never_replaced_by_another_of_its_id(tmp_path: Path) -> None:
    first, again = keep(tmp_path, "r", RUN), keep(tmp_path, "r", RUN)
    other = keep(tmp_path, "r", {**RUN, "machine": "x"})
    assert first == again != other
    assert "machine" not in first.read_text() and "machine" in other.read_text()
    assert listed(tmp_path) == ["r", "r-2"]


def test_an_empty_word_means_no_run(tmp_path: Path) -> None:
    keep(tmp_path, "only", RUN)
    assert [find(word, tmp_path) for word in ("", " ", "tag:", "o")][:3] == [[], [], []]


def test_an_index_that_is_a_link_leaves_its_victim_alone(tmp_path: Path) -> None:
    victim = tmp_path / "victim.sqlite"
    connection = sqlite3.connect(victim)
    connection.execute("CREATE TABLE precious (x)")
    connection.commit()
    connection.close()
    before = victim.read_bytes()
    for link in (os.symlink, os.link):
        root = tmp_path / link.__name__
        keep(root, "r", RUN)
        link(victim, root / INDEX_NAME)
        assert listed(root) == ["r"]
        assert victim.read_bytes() == before


def test_links_fifos_and_odd_values_hide_no_other_run(tmp_path: Path) -> None:
    keep(tmp_path, "good", RUN)
    for name in ("fifo", "zero"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "fifo" / "record.jsonl")
    (tmp_path / "zero" / "record.jsonl").symlink_to("/dev/zero")
    (tmp_path / "outside").symlink_to("/")
    keep(tmp_path, "huge", RUN, {"kind": "case", "busbw_GBps": 10**30, "ranks": 10**30, "wrong": 10**30})
    odd = tmp_path / "odd"
    odd.mkdir()
    (odd / "record.jsonl").write_text(
        json.dumps({**RUN, "machine": "\ud800", "environment": {"\udfff": "\ud800"}}) + "\n"
    )
    assert listed(tmp_path) == ["good", "huge", "odd"]


def test_only_the_folder_of_a_run_is_deleted(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "record.jsonl").write_text("")
    root = tmp_path / "runs"
    root.mkdir()
    (root / "link").symlink_to(outside)
    for folder in (root / "link", root / "..", root, tmp_path / "missing"):
        with pytest.raises(UserError):
            store.delete(folder)
    assert (outside / "record.jsonl").exists()


@pytest.mark.parametrize("words", [["report"], ["runs", "show"], ["compare", "x"], ["history"]])
def test_a_name_that_is_no_utf_8_is_no_traceback(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUSBW_RUNS", str(tmp_path))
    assert main([*words, "a\udcff.log"]) != 0
    assert "Traceback" not in capsys.readouterr().err
