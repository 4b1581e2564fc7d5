"""Runs are folders: what was written stays, whoever kills the writer; the index says what the folders say."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from busbw.base.errors import UserError
from busbw.cli.main import main
from busbw.records import Case, End, Library, Rank, Record, Run, Tool, read_record, record_lines, save_records
from busbw.runs import index as index_module
from busbw.runs import lookup, plain, store
from busbw.runs.index import INDEX_NAME, Index
from busbw.runs.plain import read_lines
from busbw.runs.query import Filter, list_runs, parse_since

REPOSITORY = Path(__file__).resolve().parents[3]


def make(name: str = "run-1", *, started: str = "2026-01-02T03:04:05Z", collective: str = "all_reduce") -> Record:
    cases = tuple(
        Case(name, i, collective, 8 << i, "in_place", "measured", 10.0, 1.0, float(i), ranks=2)  # type: ignore[arg-type]
        for i in range(4)
    )
    run = Run(
        name, started, Tool("busbw", "0.1"), Library("NCCL", version="2.28.9"), (Rank(0, "node1"), Rank(1, "node2"))
    )
    return Record(run, cases, End(name, "completed", 4))


@pytest.fixture
def root(runs_of_this_test: Path) -> Path:
    return runs_of_this_test


def names(root: Path, chosen: Filter = Filter()) -> list[str]:  # noqa: B008
    with Index(root) as index:
        return [each.run for each in list_runs(index, chosen)]


def test_a_run_is_kept_as_it_is_and_found_again(root: Path) -> None:
    path = store.add(make())
    assert path == root / "run-1" / "record.jsonl"
    assert read_record(path) == make()
    assert store.add(make()) == path
    assert names(root) == ["run-1"]


@pytest.mark.parametrize("name", ["../../etc/x", ".hidden", "a/b", "x" * 300, "\x1b[31m", "a b"])
def test_a_hostile_id_stays_inside_the_folder_of_runs(name: str, root: Path) -> None:
    path = store.add(make(name))
    assert path.parent.parent == root
    assert not path.parent.name.startswith(".")
    assert len(names(root)) == 1


def test_an_id_without_a_letter_is_refused(root: Path) -> None:
    with pytest.raises(UserError, match="cannot name"):
        store.add(make("../.."))


def test_a_run_is_found_by_a_unique_start_and_by_tag(root: Path) -> None:
    one, two = store.add(make("alpha-1")), store.add(make("alpha-2"))
    store.write_labels(two.parent, store.Labels(("good",)))
    assert lookup.find("alpha-1", root) == [one]
    assert lookup.find("good", root) == lookup.find("tag:good", root) == [two]
    with pytest.raises(UserError, match="2 runs start with 'alpha'"):
        lookup.find("alpha", root)
    assert lookup.find("beta", root) == []
    assert lookup.find("../runs/alpha-1", root) == []


def test_the_index_follows_what_happens_to_the_folders(root: Path) -> None:
    path = store.add(make("a"))
    store.add(make("b", started="2026-01-03T00:00:00Z"))
    assert names(root) == ["b", "a"]
    store.write_labels(path.parent, store.Labels(("good",)))
    assert names(root, Filter(tag=["good"])) == ["a"]
    save_records([make("a", collective="all_gather")], path)
    assert names(root, Filter(collective="gather")) == ["a"]
    store.delete(path.parent)
    assert names(root) == ["b"]
    with Index(root) as index:
        assert index.changed.read == 0, "nothing changed since"
        assert index.rows("SELECT count(*) FROM cases") == [(4,)]


@pytest.mark.parametrize("damage", [b"", b"not a database at all, but long enough to be looked at" * 100])
def test_a_damaged_index_is_made_again(damage: bytes, root: Path) -> None:
    store.add(make())
    assert names(root) == ["run-1"]
    (root / INDEX_NAME).write_bytes(damage)
    assert names(root) == ["run-1"]


def test_an_index_of_another_layout_is_made_again(root: Path) -> None:
    store.add(make())
    with Index(root) as index:
        index.connection.execute("PRAGMA user_version = 999")
    assert names(root) == ["run-1"]


def test_filters_by_library_host_and_time(root: Path) -> None:
    store.add(make("old", started="2025-01-01T00:00:00+02:00"))
    store.add(make("new"))
    assert names(root, Filter(library="2.28", host="NODE2")) == ["new", "old"]
    assert names(root, Filter(since=parse_since("2026-01-01"))) == ["new"]
    assert names(root, Filter(since=parse_since("2024-12-31T23:00"))) == ["new"], "02:00 east is 22:00 before"
    assert names(root, Filter(library="rccl")) == []


def test_times_are_read_as_dates_or_ages() -> None:
    now = datetime(2026, 1, 31, tzinfo=timezone.utc)
    assert parse_since("7d", now) == now - timedelta(days=7)
    assert parse_since("2026-01-31T00:00:00Z") == now
    with pytest.raises(ValueError, match="no time"):
        parse_since("yesterday")


def test_a_run_cut_off_in_mid_line_is_listed_with_its_finished_cases(root: Path) -> None:
    path = store.add(make())
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]) + lines[3][:20])
    with Index(root) as index:
        (run,) = list_runs(index, Filter())
    assert (run.outcome, run.cases) == ("unfinished", 2)


def test_a_record_of_garbage_is_listed_as_unreadable(root: Path) -> None:
    (root / "bad").mkdir(parents=True)
    (root / "bad" / "record.jsonl").write_bytes(b"\xff\xfe\n")
    (root / "odd").mkdir()
    (root / "odd" / "record.jsonl").write_text('{"kind":"case","bytes":1e999,"busbw_GBps":"x","ranks":{"a":[1]}}\n')
    with Index(root) as index:
        found = {each.run: each.outcome for each in list_runs(index, Filter())}
    assert found == {"bad": "unreadable", "odd": "unreadable"}


WRITER = """
import sys
import threading
from pathlib import Path
from busbw.records import Case, Library, Run, Tool, to_json
path = Path(sys.argv[1]); path.parent.mkdir(parents=True)
with path.open("w") as stream:
    stream.write(to_json(Run(path.parent.name, "2026-01-01T00:00:00Z", Tool("busbw"), Library("NCCL"))) + "\\n")
    for i in range(10**9):
        line = to_json(Case(path.parent.name, i, "all_reduce", 8, "in_place", "measured", 1.0, 1.0, 1.0)) + "\\n"
        stream.write(line); stream.flush()
        print(i, flush=True)
"""


def test_a_writer_killed_in_mid_write_loses_no_finished_case(root: Path) -> None:
    path = root / "killed" / "record.jsonl"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "python")}
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, env=environment) as writer:
        assert writer.stdout is not None
        finished = -1
        while finished < 200:
            finished = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
        finished = max([finished, *map(int, writer.stdout.read().split())])
    record = read_record(path)
    assert [case.case for case in record.cases][: finished + 1] == list(range(finished + 1))
    assert record.end is None
    with Index(root) as index:
        (run,) = list_runs(index, Filter())
    assert run.outcome == "unfinished" and run.cases >= finished + 1


ADDER = """
import sys
import threading
sys.path.insert(0, sys.argv[2])
from test_store import make
from busbw.runs import index as index_module
from busbw.runs import store
from busbw.runs.index import Index
from pathlib import Path
root = Path(sys.argv[3])
for i in range(15):
    store.add(make(f"w{sys.argv[1]}-{i}"), root)
    with Index(root) as index:
        index.rows("SELECT count(*) FROM runs")
"""


def test_concurrent_writers_and_readers_lose_nothing(root: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "python")}
    here = str(Path(__file__).parent)
    writers = [
        subprocess.Popen([sys.executable, "-c", ADDER, str(i), here, str(root)], env=environment) for i in range(4)
    ]
    deadline = time.monotonic() + 120
    assert [writer.wait(max(1, deadline - time.monotonic())) for writer in writers] == [0] * 4
    assert len(names(root)) == 60
    with Index(root) as index:
        assert index.rows("SELECT count(*) FROM cases") == [(240,)]


def test_a_growing_record_is_seen_to_grow(root: Path) -> None:
    path = root / "growing" / "record.jsonl"
    path.parent.mkdir(parents=True)
    lines = list(record_lines(replace(make("growing"), end=None)))
    for count in range(1, len(lines) + 1):
        path.write_text("".join(lines[:count]))
        with Index(root) as index:
            assert index.rows("SELECT cases FROM runs") == [(count - 1,)]


def test_sql_reads_and_nothing_else(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store.add(make())
    assert main(["runs", "sql", "SELECT run, max(busbw_GBps) AS peak FROM cases GROUP BY run"]) == 0
    assert capsys.readouterr().out == "run    peak\nrun-1     3\n"
    outside = tmp_path / "other.sqlite"
    for query in (
        "DELETE FROM runs", "DROP TABLE runs", f"ATTACH '{outside}' AS other", "PRAGMA query_only = OFF",
        "SELECT 1; DELETE FROM runs", "SELECT nothing FROM nowhere", "", "UPDATE runs SET run = 'x'",
        "SELECT load_extension('x')",
    ):  # fmt: skip
        assert main(["runs", "sql", query]) == 2, query
        assert capsys.readouterr().err.startswith("busbw: ")
    assert not outside.exists()
    assert names(root) == ["run-1"]


def test_the_list_fits_80_columns(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store.add(make("20260102T030405Z-a-host-with-a-rather-long-name-0a1b2c"))
    path = store.add(make("short"))
    store.write_labels(
        path.parent, store.Labels(("a-very-long-tag-that-will-not-fit-anywhere-at-all", "second"), "note")
    )
    assert main(["runs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["run", "ranks", "cases", "GB/s", "collective", "remarks"]
    assert len(lines) == 3 and max(map(len, lines)) <= 80


def test_tags_are_added_removed_and_checked(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = store.add(make())
    assert main(["runs", "tag", "run-1", "good", "fast", "--note", "fine"]) == 0
    assert store.read_labels(path.parent) == store.Labels(("good", "fast"), "fine")
    assert main(["runs", "tag", "good", "fast", "--remove"]) == 0
    assert store.read_labels(path.parent) == store.Labels(("good",), "fine")
    assert main(["runs", "tag", "run-1", "no spaces"]) == 1
    assert main(["runs", "tag", "run-1", "absent", "--remove"]) == 1
    assert main(["runs", "tag", "run-1"]) == 2
    assert main(["runs", "show", "run-1"]) == 0
    assert "note         fine" in capsys.readouterr().out


def test_deleting_asks_or_is_told_yes(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = store.add(make())
    assert main(["runs", "delete", "run-1"]) == 2
    assert "--yes" in capsys.readouterr().err
    assert path.exists()
    assert main(["runs", "delete", "run-1", "--yes"]) == 0
    assert not path.parent.exists()
    assert main(["runs", "delete", "run-1", "--yes"]) == 2


def test_a_folder_that_a_killed_run_left_empty_can_be_deleted(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    beside = root.parent / "beside"
    for folder in (root / "killed", beside):
        folder.mkdir(parents=True)
    (root / "link").symlink_to(beside)
    assert main(["runs", "delete", "killed"]) == 2
    assert main(["runs", "delete", "link", "--yes"]) == main(["runs", "delete", f"../{beside.name}", "--yes"]) == 2
    assert (root / "killed").is_dir() and beside.is_dir() and (root / "link").is_symlink()
    assert main(["runs", "delete", "killed", "--yes"]) == 0
    assert not (root / "killed").exists()
    assert "deleted killed" in capsys.readouterr().out


def test_no_runs_is_no_error(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs"]) == 0
    assert "no runs in" in capsys.readouterr().err
    assert main(["runs", "sql", "SELECT count(*) FROM runs"]) == 0


def test_somebody_elses_runs_are_indexed_in_memory(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a folder that cannot be written: root may write everywhere, so the refusal is made here."""
    store.add(make())
    real = sqlite3.connect

    def connect(path: str | Path, *words: object, **named: object) -> sqlite3.Connection:
        if path != ":memory:":
            raise sqlite3.OperationalError("unable to open database file")
        return real(path)

    monkeypatch.setattr(sqlite3, "connect", connect)
    assert names(root) == ["run-1"]
    assert not (root / INDEX_NAME).exists()


def test_an_index_that_another_process_holds_is_made_in_memory(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.add(make("a"))
    assert names(root) == ["a"]
    monkeypatch.setattr("busbw.runs.index._WAIT_S", 0.1)
    holder = sqlite3.connect(root / INDEX_NAME, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    store.add(make("b"))
    assert sorted(names(root)) == ["a", "b"]
    holder.close()


def test_a_tag_finds_runs_whose_record_has_it_and_runs_that_got_it_later(root: Path) -> None:
    imported = make("imported")
    store.add(replace(imported, run=replace(imported.run, tags=("driver-570",))), root)
    store.add(make("measured"), root)
    store.write_labels(root / "measured", store.Labels(("driver-570",)))
    store.add(make("other"), root)
    names = [path.parent.name for path in lookup.find("tag:driver-570", root)]
    assert names == ["imported", "measured"]


def test_a_query_without_end_ends_in_a_sentence(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(index_module, "MAX_QUERY_SECONDS", 0.05)
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c"
    assert main(["runs", "sql", endless]) == 1
    assert "took more than" in capsys.readouterr().err


def test_ctrl_c_ends_a_query(root: Path) -> None:
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c"
    with Index(root) as index:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            index.select(endless)


@pytest.mark.parametrize("data", [
    b"", b"\n", b"{}", b'{"kind": "run"}\n', b'{"kind": "run"}\n{"kind"', b' {"a": 1} \r\n{"b": 2}\n',
    b'{"a": 1}\n\n{}\n',
    b'{"a":\n1}\n', b'{"a": 1}{"b": 2}\n', b'[1]\n{}\n', b'{"a": NaN}\n', b'\xef\xbb\xbf{"a": 1}\n',
    b'{"a": "\xff"}\n',
    b"[" * 60_000 + b"\n", b'{"a": 1}\x00\n', '{"\u00e9": "\u2028"}\n'.encode(), b'{"a": "\\ud800"}\n',
])  # fmt: skip
def test_a_small_record_is_read_as_a_large_one_is(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    path.write_bytes(data)
    assert repr(read_lines(path, len(data))) == repr(read_lines(path, plain.SMALL + 1))
