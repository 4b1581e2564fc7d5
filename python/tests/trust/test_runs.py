"""A hostile folder of runs harms nobody, and no run is replaced or deleted that was not named."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest
from test_secrets import TABLE

from busbw.base.errors import UserError
from busbw.cli.main import main
from busbw.runs import index as index_module
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


def test_a_folder_that_is_a_link_is_no_run(tmp_path: Path) -> None:
    keep(tmp_path / "runs", "r", RUN)
    keep(tmp_path / "elsewhere", "other", RUN)
    (tmp_path / "runs" / "linked").symlink_to(tmp_path / "elsewhere" / "other")
    assert listed(tmp_path / "runs") == ["r"]
    assert [name for name, _, _ in store.record_states(tmp_path / "runs")] == ["r"]


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


def test_a_log_whose_name_is_no_utf_8_is_kept_and_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUSBW_RUNS", str(tmp_path / "runs"))
    log = tmp_path / "a\udcff.log"
    log.write_text(TABLE)
    assert main(["import", str(log)]) == 0
    assert main(["import", str(log), "--output", str(tmp_path / "out.jsonl")]) == 0
    assert main(["runs"]) == 0
    said = capsys.readouterr()
    assert "Traceback" not in said.err and len(list((tmp_path / "runs").glob("*/record.jsonl"))) == 1


def test_only_a_folder_is_deleted_and_no_link_to_one(tmp_path: Path) -> None:
    root, outside = tmp_path / "runs", tmp_path / "outside"
    keep(outside, "r", RUN)
    root.mkdir()
    (root / "r").symlink_to(outside / "r")
    with pytest.raises(UserError, match="is no run's folder"):
        store.delete(root / "r")
    assert (root / "r").is_symlink() and (outside / "r" / "record.jsonl").exists()


def test_a_record_that_is_a_link_is_no_run(tmp_path: Path) -> None:
    record = keep(tmp_path / "outside", "r", RUN)
    (tmp_path / "runs" / "r").mkdir(parents=True)
    (tmp_path / "runs" / "r" / "record.jsonl").symlink_to(record)
    assert listed(tmp_path / "runs") == []


def test_a_run_is_not_kept_where_a_link_of_its_name_leads(tmp_path: Path) -> None:
    root, outside = tmp_path / "runs", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "r").symlink_to(outside)
    kept = keep(root, "r", RUN)
    assert kept == root / "r-2" / "record.jsonl" and kept.is_file()
    assert not any(outside.iterdir())


def false_index(root: Path) -> Path:
    """An index of one run, and then another run: who opens it would write into it."""
    keep(root, "first", RUN)
    assert listed(root) == ["first"]
    keep(root, "second", RUN)
    return root / INDEX_NAME


def test_an_index_that_has_a_second_name_is_left_alone(tmp_path: Path) -> None:
    index = false_index(tmp_path)
    os.link(index, tmp_path / "victim")
    before = index.read_bytes()
    assert listed(tmp_path) == ["first", "second"]
    assert index.read_bytes() == before


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_an_index_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    index = false_index(tmp_path)
    os.chown(index, 12345, -1)
    before = index.read_bytes()
    assert listed(tmp_path) == ["first", "second"]
    assert index.read_bytes() == before


def test_an_index_that_came_from_elsewhere_is_not_believed(tmp_path: Path) -> None:
    keep(tmp_path, "only", RUN)
    assert listed(tmp_path) == ["only"]
    copy = tmp_path / "copy"
    copy.write_bytes((tmp_path / INDEX_NAME).read_bytes())
    with sqlite3.connect(copy) as connection:
        connection.execute("UPDATE runs SET note = 'false'")
    connection.close()
    copy.replace(tmp_path / INDEX_NAME)
    with Index(tmp_path) as index:
        assert index.rows("SELECT note FROM runs") == [("",)]


def test_an_update_that_fails_leaves_the_index_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = false_index(tmp_path)
    keep(tmp_path, "third", RUN)
    entered = index_module._enter

    def enter(connection: sqlite3.Connection, name: str, *more: Any) -> None:
        if name == "third":
            raise KeyboardInterrupt
        entered(connection, name, *more)

    monkeypatch.setattr(index_module, "_enter", enter)
    with pytest.raises(KeyboardInterrupt):
        Index(tmp_path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT run FROM files").fetchall() == [("first",)]
    connection.close()


@pytest.mark.parametrize("words", [["report"], ["runs", "show"], ["compare", "x"], ["history"]])
def test_a_name_that_is_no_utf_8_is_no_traceback(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUSBW_RUNS", str(tmp_path))
    assert main([*words, "a\udcff.log"]) != 0
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("import", "{log}", "--output", "{device}"),
        ("report", "{log}", "--format", "html", "--output", "{device}"),
        ("baseline", "make", "{log}", "--output", "{device}"),
        ("history", "--page", "{device}"),
    ],
)
def test_no_output_takes_the_place_of_a_device(words: tuple[str, ...], tmp_path: Path) -> None:
    """Root's `--output /dev/null` would put a file there for the whole machine."""
    log, device = tmp_path / "a.log", tmp_path / "null"
    log.write_text(TABLE)
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, Path("/dev/null").stat().st_rdev)
    except PermissionError:
        pytest.skip("only root makes devices")
    runs = tmp_path / "runs"
    keep(runs, "r", RUN)
    extra = ["--runs", str(runs)] if words[0] == "history" else []
    assert main([word.format(log=log, device=device) for word in words] + extra) == 0
    assert stat.S_ISCHR(device.stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.log", "null", "runs"]


def test_one_command_enters_so_many_runs_the_newest_first_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(index_module, "MOST_ENTERED", 3)
    for at in range(8):
        os.utime(keep(tmp_path, f"r{at}", {"schema": 1, "kind": "run", "run": f"r{at}"}), (at, at))
    assert listed(tmp_path) == ["r5", "r6", "r7"]
    assert "5 older runs are not in the index yet" in capsys.readouterr().err
    assert len(listed(tmp_path)) == 6
    main(["runs", "index", "--runs", str(tmp_path)])
    capsys.readouterr()
    assert len(listed(tmp_path)) == 8
    assert not capsys.readouterr().err
