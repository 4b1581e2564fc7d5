"""Foreign files cost at most their bounds: processor time by their size, 500 MB, one sentence, and no waiting."""

from __future__ import annotations

import gzip
import io
import json
import os
import sqlite3
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.base import bounds, files
from busbw.base.errors import UserError
from busbw.cli.main import main
from busbw.doctor.bundle import write_bundle
from busbw.doctor.snapshot import Snapshot, TextFile
from busbw.runs import store
from busbw.runs.index import INDEX_NAME, Index

ROOT = Path(__file__).resolve().parents[3]
MEMORY_MB = 500
SECONDS = 15.0
"""Processor time that a test allows: three times the promise, for machines whose processors are shared."""
RUN = {"schema": 1, "kind": "run", "run": "r", "tool": {"name": "busbw", "version": "1"}}


# A process starts with the peak of memory of the one that it was forked from: pytest's must not count.
MEASURING = """
import json, os, subprocess, sys, time
popen = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
deadline, pid = time.monotonic() + 120, 0
while not pid:
    pid, status, used = os.wait4(popen.pid, os.WNOHANG)
    if not pid and time.monotonic() > deadline:
        popen.kill()
    time.sleep(0.01)
print(json.dumps([os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""


def cost(words: list[str], folder: Path) -> tuple[int, float, float, str]:
    """Exit code, processor seconds, MB at most and stderr of a busbw."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "BUSBW_RUNS": str(folder / "runs")}
    done = subprocess.run(
        [sys.executable, "-S", "-c", MEASURING, sys.executable, "-m", "busbw", *words],
        env=environment, capture_output=True, timeout=150, check=True,
    )  # fmt: skip
    code, seconds, megabytes = json.loads(done.stdout)
    return code, seconds, megabytes, done.stderr.decode("utf-8", "replace")


def packed(*chunks: bytes, times: int = 1) -> bytes:
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1) as file:
        for _ in range(times):
            for chunk in chunks:
                file.write(chunk)
    return buffer.getvalue()


def archive(name: str, content: bytes, *, pax: dict[str, str] | None = None, first: int = 0) -> bytes:
    """A bundle with one member, after another one of `first` zero bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.PAX_FORMAT, compresslevel=1) as tar:
        if first:
            before = tarfile.TarInfo("first")
            before.size = first
            tar.addfile(before, io.BytesIO(bytes(first)))
        member = tarfile.TarInfo(name)
        member.size, member.pax_headers = len(content), pax or {}
        tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def gpus(count: int) -> bytes:
    each = (
        b'<pci busid="0000:%02x:%02x.0" class="0x030200"><gpu dev="%d" sm="90" rank="%d"/></pci>'
        % (n // 32 % 256, n % 32, n, n)
        for n in range(count)
    )
    return b'<system version="1"><cpu numaid="0" arch="x86_64" vendor="x">' + b"".join(each) + b"</cpu></system>"


def smi(count: int) -> bytes:
    each = (b'<gpu id="0000:%02X:00.0"><product_name>H200</product_name></gpu>' % (n % 256) for n in range(count))
    return b"<nvidia_smi_log><driver_version>1</driver_version>" + b"".join(each) + b"</nvidia_smi_log>"


LINE_200_MB = b'{"schema":"' + b"x" * 200_000_000
HOSTILE: dict[str, tuple[Callable[[], bytes], list[str]]] = {
    "dotted.toml": (lambda: b"a" + b".a" * 200_000 + b" = 1\n", ["gate", "GOOD", "--thresholds"]),
    "inline.toml": (lambda: b"x = " + b"{a.a.a=" * 40_000 + b"1" + b"}" * 40_000, ["gate", "GOOD", "--thresholds"]),
    "headers.toml": (
        lambda: b"".join(b"[a" + b".a" * 60 + b".t%d]\n" % n for n in range(5000)),
        ["gate", "GOOD", "--thresholds"],
    ),
    "two-byte-lines.log.gz": (lambda: packed(b"a\n" * 1_000_000, times=20), ["import", "--dry-run"]),
    "one-line.log.gz": (lambda: packed(b"a" * (1 << 20), times=1024), ["import", "--dry-run"]),
    "records.jsonl.gz": (lambda: packed(LINE_200_MB), ["import", "--dry-run"]),
    "line.jsonl": (lambda: LINE_200_MB, ["import", "--dry-run"]),
    "line.log": (lambda: b"# nThread 1\n" + b"1 " * 100_000_000, ["doctor"]),
    "indented.log": (
        lambda: b"".join(b" " * n + b"- x\n" for n in range(5000)),
        ["doctor", "--collect", "NEW", "--log"],
    ),
    "deep.json": (lambda: b"[" * 5_000_000 + b"]" * 5_000_000, ["import", "--dry-run"]),
    "objects.jsonl": (lambda: b'{"schema":[' + b"{}," * 15_000_000 + b"{}]}\n", ["report"]),
    "number.jsonl": (lambda: b'{"schema":1,"x":' + b"9" * 1_000_000 + b"}\n", ["report"]),
    "tar-bomb.tar.gz": (lambda: archive("snapshot.json", b"{}", first=1 << 30), ["doctor"]),
    "pax.tar.gz": (lambda: archive("snapshot.json", b"{}", pax={"comment": "x" * 200_000_000}), ["doctor"]),
    "objects.tar.gz": (lambda: archive("snapshot.json", b'{"logs":[' + b"{}," * 15_000_000 + b"{}]}"), ["doctor"]),
    "deep.tar.gz": (lambda: archive("snapshot.json", b"[" * 10_000_000), ["doctor"]),
    "15000-gpus.xml": (lambda: gpus(15_000), ["topo"]),
    "15000-gpus-of-smi.xml": (lambda: smi(15_000), ["topo"]),
    "deep.xml": (lambda: b'<system version="1">' + b"<pci>" * 500_000, ["topo"]),
    "attributes.xml": (lambda: b"<system " + b" ".join(b'a%d="1"' % n for n in range(500_000)) + b"/>", ["topo"]),
    "lspci.txt": (lambda: b"0000:01:00.0 3D controller: NVIDIA H200\n" * 200_000, ["topo"]),
}


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
