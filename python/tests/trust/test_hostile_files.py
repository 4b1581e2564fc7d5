"""Foreign files cost at most their bounds: processor time by their size, 500 MB, one sentence, and no waiting."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hostile import HOSTILE, MEASURING

from busbw.base import bounds, files
from busbw.base.errors import UserError
from busbw.cli.main import main
from busbw.doctor.reading.bundle import write_bundle
from busbw.doctor.reading.snapshot import Snapshot, TextFile
from busbw.runs import store
from busbw.runs.index import INDEX_NAME, Index

ROOT = Path(__file__).resolve().parents[3]
MEMORY_MB = 500
SECONDS = 15.0
"""Processor time that a test allows: three times the promise, for machines whose processors are shared."""
RUN = {"schema": 1, "kind": "run", "run": "r", "tool": {"name": "busbw", "version": "1"}}


def cost(words: list[str], folder: Path) -> tuple[int, float, float, str]:
    """Exit code, processor seconds, MB at most and stderr of a busbw."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "BUSBW_RUNS": str(folder / "runs")}
    done = subprocess.run(
        [sys.executable, "-S", "-c", MEASURING, sys.executable, "-m", "busbw", *words],
        env=environment, cwd=folder, capture_output=True, timeout=150, check=True,
    )  # fmt: skip
    code, seconds, megabytes = json.loads(done.stdout)
    return code, seconds, megabytes, done.stderr.decode("utf-8", "replace")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_foreign_file_costs_at_most_its_bounds(name: str, tmp_path: Path) -> None:
    make, words = HOSTILE[name]
    good = tmp_path / "good.jsonl"
    good.write_text(json.dumps(RUN) + "\n")
    path = tmp_path / name
    path.write_bytes(make())
    code, seconds, megabytes, said = cost([str(good) if w == "GOOD" else w for w in words] + [str(path)], tmp_path)
    assert code in {0, 1, 2, 3}, said
    assert "Traceback" not in said
    assert len(said) < 4000
    assert seconds < SECONDS, said
    assert megabytes < MEMORY_MB, said


READERS = (["import"], ["report"], ["topo"], ["doctor"], ["gate", "GOOD", "--thresholds"], ["fleet", "judge"],
           ["baseline", "make"], ["compare", "GOOD"])  # fmt: skip


@pytest.mark.parametrize("kind", ["fifo", "zero", "folder"])
def test_a_pipe_without_a_writer_a_device_and_a_folder_end_in_a_sentence(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(files, "PATIENCE_S", 0.1)
    good, path = tmp_path / "good.jsonl", tmp_path / "foreign"
    good.write_text(json.dumps(RUN) + "\n")
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "zero":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    for words in READERS:
        code = main([str(good) if word == "GOOD" else word for word in words] + [str(path)])
        told = capsys.readouterr()
        assert code in {1, 2}, words
        assert (told.out + told.err).strip(), words


def test_a_pipe_with_a_writer_is_read(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    writer = subprocess.Popen(["sh", "-c", f"sleep 0.3; printf '%s\\n' '{json.dumps(RUN)}' > '{path}'"])
    code, _, _, said = cost(["import", "--dry-run", str(path)], tmp_path)
    writer.wait(10)
    assert code in {0, 1} and "nobody wrote" not in said


def endless() -> None:
    end = time.process_time() + 20
    while time.process_time() < end:
        sum(range(1000))
    raise AssertionError("nothing ended it")


def test_bounds_end_a_reader_that_takes_the_complaint_for_one_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SECONDS", 0.1)
    with pytest.raises(UserError, match="processor time"), bounds.bounded("x", 0):
        try:
            endless()
        except UserError:
            endless()  # the next format


def test_bounds_end_a_reader_that_forgot_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SECONDS", 0.1)
    with pytest.raises(UserError, match="processor time"), bounds.bounded("x", 0):
        endless()
    monkeypatch.undo()
    kept = []
    with pytest.raises(UserError, match="MiB of memory"), bounds.bounded("x", 0):
        while True:
            kept.append(bytearray(32 << 20))
    kept.clear()
    bytearray(64 << 20)  # the limit is gone again


def hostile_index(kind: str, path: Path) -> None:
    if kind == "garbage":
        path.write_bytes(os.urandom(8192))
        return
    if kind == "half a header":
        path.write_bytes(b"SQLite format 3\0" + os.urandom(4096))
        return
    connection = sqlite3.connect(path)
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS run, x, x, x FROM n"
    if kind == "endless view":
        connection.executescript(f"CREATE VIEW files AS {endless}; PRAGMA user_version = 1;")
    elif kind == "other columns":
        connection.executescript("CREATE TABLE files (a); CREATE TABLE runs (b); PRAGMA user_version = 1;")
    elif kind == "trigger":
        for statement in _statements():
            connection.execute(statement)
        connection.execute("CREATE TRIGGER t AFTER INSERT ON files BEGIN DELETE FROM runs; END")
    else:  # as ours, with rows that no record gave, made for another file
        for statement in _statements():
            connection.execute(statement)
        connection.execute("INSERT INTO place VALUES (1)")
        connection.execute("INSERT INTO runs (run, started, outcome) VALUES ('../..', X'FF', CAST(X'FF' AS TEXT))")
        connection.execute("INSERT INTO files VALUES ('../..', 0, 0, 0)")
        connection.execute("INSERT INTO tags VALUES ('../..', 'good')")
    connection.commit()
    connection.close()


def _statements() -> list[str]:
    from busbw.runs import index

    return [each for each in index._TABLES.split(";") if each.strip()]


@pytest.mark.parametrize(
    "kind", ["garbage", "half a header", "endless view", "other columns", "trigger", "rows of another"]
)
def test_a_damaged_or_foreign_index_hides_no_run_and_holds_nobody(kind: str, tmp_path: Path) -> None:
    store.add_lines("r", [json.dumps(RUN) + "\n"], tmp_path)
    hostile_index(kind, tmp_path / INDEX_NAME)
    for _ in range(2):
        with Index(tmp_path) as index:
            assert index.rows("SELECT run FROM runs") == [("r",)]
            assert index.rows("SELECT run FROM tags") == []


def test_a_page_that_is_damaged_later_is_made_again(tmp_path: Path) -> None:
    for number in range(300):
        store.add_lines(f"r{number}", [json.dumps({**RUN, "run": f"r{number}", "machine": "m" * 300}) + "\n"], tmp_path)
    with Index(tmp_path):
        pass
    path = tmp_path / INDEX_NAME
    size = path.stat().st_size
    for at in range(4096 * 2, size, 4096 * 3):
        with path.open("r+b") as file:
            file.seek(at)
            file.write(os.urandom(4096))
    with Index(tmp_path) as index:
        assert len(index.rows("SELECT run, machine FROM runs")) == 300


ODD: list[object] = [10**30, -1, 1.5, True, None, "\ud800", "\x1b[2J", [], [[]], {}, {"a": {}}, "x" * 5000]


def test_records_of_any_types_hide_no_run_and_give_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUSBW_RUNS", str(tmp_path))
    names = (
        "started",
        "tool",
        "library",
        "ranks",
        "machine",
        "environment",
        "tags",
        "launcher",
        "notes",
        "run",
        "kind",
    )
    count = 0
    for name in names:
        for odd in ODD:
            (tmp_path / f"run{count}").mkdir()
            case = {"schema": 1, "kind": "case", "run": "r", "busbw_GBps": odd, "ranks": odd, "collective": odd}
            end = {"schema": 1, "kind": "end", "outcome": odd, "finished": odd}
            lines = [json.dumps(each) for each in ({**RUN, name: odd}, case, end)]
            (tmp_path / f"run{count}" / "record.jsonl").write_text("\n".join(lines) + "\n")
            (tmp_path / f"run{count}" / "labels.json").write_text(json.dumps({"tags": odd, "note": odd}))
            count += 1
    assert main(["runs", "list", "--limit", "1000"]) == 0
    shown = capsys.readouterr().out
    assert all(f"run{number}" in shown for number in range(count))
    assert "\x1b[2J" not in shown
    for number in range(0, count, 7):
        assert main(["runs", "show", f"run{number}"]) in {0, 1, 2}


def test_what_a_bundle_takes_of_a_log_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "x.log"
    log.write_text("".join(" " * n + "- x\n" for n in range(1500)))
    monkeypatch.setattr(bounds, "SECONDS", 0.02)
    monkeypatch.setattr(bounds, "SECONDS_PER_MIB", 0.0)
    with pytest.raises(UserError, match="processor time"):
        write_bundle(Snapshot("here", logs=(TextFile(str(log), None),)), tmp_path / "b.tar.gz")


TABLE = """# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 1 iters: 1 agg iters: 1 validation: 1
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1   TIME  104.86  104.86      0    TIME  104.86  104.86      0
     2097152        524288     float     sum      -1    20.00  104.86  104.86      0    20.00  104.86  104.86      0
"""
CASE = {"schema": 1, "kind": "case", "run": "r", "collective": "all_reduce", "ranks": 2, "placement": "in_place",
        "outcome": "measured", "algbw_GBps": 1.0, "busbw_GBps": 1.0}  # fmt: skip


@pytest.mark.parametrize("time", ["5e-324", "1e-310", "1e300"])
def test_a_time_that_nothing_takes_is_no_traceback(
    time: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUSBW_RUNS", str(tmp_path / "runs"))
    log, record, good = tmp_path / "a.log", tmp_path / "a.jsonl", tmp_path / "good.log"
    log.write_text(TABLE.replace("TIME", time))
    good.write_text(TABLE.replace("TIME", "10.00"))
    cases = [{**CASE, "case": at, "bytes": 8 << at, "time_us": float(time) if at else 1.0} for at in range(3)]
    run = {**RUN, "library": None, "ranks": [], "environment": {}, "started": None}
    record.write_text("".join(json.dumps(line) + "\n" for line in (run, *cases)))
    for given in (log, record):
        for words in (["import", given], ["compare", given, good], ["report", given, "--output", tmp_path / "p.html"]):
            assert main([str(word) for word in words]) in {0, 1}
    assert "Traceback" not in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    "words", [["import"], ["doctor", "--log"], ["doctor", "--collect", "b.tar.gz", "--log"], ["report"]]
)
def test_the_zeros_of_a_sparse_file_give_a_reader_no_time(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bounds, "SECONDS", 0.2)
    allowed: list[float] = []
    measured = bounds._seconds
    monkeypatch.setattr(bounds, "_seconds", lambda size, packed: allowed.append(measured(size, packed=packed)) or 0.2)
    path = tmp_path / "x.log"
    path.write_text(TABLE.replace("TIME", "10.00"))
    os.truncate(path, 10 << 30)
    main([*words, str(path)])
    assert allowed and max(allowed) < 1.0
    assert files.bytes_on_disk(path) < 1 << 20


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}")
    assert files.read_bytes(path, 2, hint="x") == b"{}"
    os.truncate(path, 1 << 40)
    monkeypatch.setattr(files, "read_start", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(UserError, match="larger than 0 MiB; split it"):
        files.read_bytes(path, 1000, hint="split it")
