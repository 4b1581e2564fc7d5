"""More files that strangers might leave: packers, exports of profilers and services, giant or cut tables."""

# ruff: noqa: E501 - the lines are as wide as programs print them

from __future__ import annotations

import base64
import bz2
import csv
import gzip
import io
import json
import lzma
import pickle
import random
import sqlite3
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

MIB = 1 << 20
WORDS = [
    "rank",
    "node",
    "comm",
    "socket",
    "timeout",
    "error",
    "ring",
    "tree",
    "send",
    "recv",
    "proxy",
    "wait",
    "busbw",
    "size",
    "time_us",
    "failed",
    "link",
    "port",
]
ROW = b"     1048576        262144     float     sum      -1    10.00  104.86  104.86      0    10.00  104.86  104.86      0\n"


def words(r: random.Random, count: int) -> str:
    """Words and numbers as a program's own lines have them."""
    return " ".join([r.choice(WORDS) if r.random() < 0.5 else f"{r.getrandbits(28):x}z" for _ in range(count)])


def lines(make: Callable[[random.Random, int], str], count: int, seed: int = 7) -> bytes:
    """So many lines."""
    r = random.Random(seed)
    return "".join([make(r, at) + "\n" for at in range(count)]).encode("utf-8", "surrogatepass")


def tarred(members: int, content: Callable[[int], bytes], how: str = "w:gz") -> bytes:
    """An archive of so many logs."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=how) as tar:  # type: ignore[call-overload]
        for at in range(members):
            data = content(at)
            member = tarfile.TarInfo(f"logs/rank-{at}.log")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def zipped(members: int, content: bytes) -> bytes:
    """The same as a zip."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for at in range(members):
            archive.writestr(f"rank-{at}.log", content)
    return buffer.getvalue()


def warn(r: random.Random, at: int) -> str:
    return f"n{at % 64}:{at}:{at} [{at % 8}] misc/socket.cc:{at % 999} NCCL WARN {words(r, 6)}"


def flight(entries: int) -> bytes:
    """PyTorch's flight recorder, as JSON."""
    r = random.Random(3)
    each = [
        {"record_id": at, "pg_id": at % 9, "collective_seq_id": at, "p2p_seq_id": 0, "op_id": at,
         "profiling_name": r.choice(["nccl:all_reduce", "nccl:all_gather", f"nccl:{words(r, 1)}"]),
         "time_created_ns": at * 1000, "input_sizes": [[r.randrange(1 << 20)]], "output_sizes": [[at]],
         "input_dtypes": ["Float"], "output_dtypes": ["Float"], "state": r.choice(["completed", "scheduled"]),
         "retired": False, "timeout_ms": 600000, "is_p2p": False,
         "frames": [{"name": words(r, 1), "filename": "a.py", "line": at}]}
        for at in range(entries)
    ]  # fmt: skip
    return json.dumps(
        {"version": "2.4", "pg_config": {"0": {"name": "0", "ranks": "[0, 1]"}}, "entries": each}
    ).encode()


def kineto(events: int) -> bytes:
    """A trace of PyTorch's profiler."""
    r = random.Random(4)
    each = [
        {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", "pid": at % 8,
         "tid": 7, "ts": at * 10.5, "dur": r.random() * 1000, "args": {"Collective name": "allreduce", "dtype": "Float",
         "In msg nelems": r.randrange(1 << 20), "Out msg nelems": 1, "Group size": 8, "stream": at % 99}}
        for at in range(events)
    ]  # fmt: skip
    return json.dumps(
        {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 0}, "traceEvents": each}
    ).encode()


def chakra(nodes: int) -> bytes:
    """An execution trace."""
    each = [
        {"id": at, "name": "record_param_comms", "ctrl_deps": max(0, at - 1), "inputs": {"values": [at, "x"], "shapes": [[at]],
         "types": ["Tensor(float)"]}, "outputs": {"values": [], "shapes": [], "types": []},
         "attrs": [{"name": "collective_name", "type": "string", "value": "allreduce"}, {"name": "seq", "value": at}]}
        for at in range(nodes)
    ]  # fmt: skip
    return json.dumps({"schema": "1.1.0-chakra.0.0.4", "pid": 1, "nodes": each}).encode()


def database() -> bytes:
    """What nsys exports: a database."""
    with sqlite3.connect(":memory:") as base:
        base.execute("CREATE TABLE NVTX_EVENTS (start INT, text TEXT)")
        base.executemany(
            "INSERT INTO NVTX_EVENTS VALUES (?, ?)", ((at, f"ncclAllReduce {at}") for at in range(200_000))
        )
        return base.serialize() if hasattr(base, "serialize") else b"SQLite format 3\0" + bytes(4096)


class _Acts:
    """Unpickled it would run a command."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        import os

        return os.system, ("touch unpickled",)


def csv_of(columns: int, rows: int) -> bytes:
    """A table that is wide."""
    text = io.StringIO()
    out = csv.writer(text)
    out.writerow(["collective", "size", "time_us", "busbw", *[f"c{at}" for at in range(columns)]])
    for at in range(rows):
        out.writerow(["all_reduce", 1 << at % 30, 10 + at, 5.5, *range(columns)])
    return text.getvalue().encode()


def named_csv(rows: int) -> bytes:
    """A table of results, one line each."""
    return b"collective,size,ranks,time_us,algbw\n" + lines(
        lambda r, at: f"all_reduce,{1 << at % 28},8,{20 + at % 50}.25,{(1 << at % 28) / (20.25 + at % 50) / 1e3:.3f}",
        rows,
    )


def named_json(rows: int, named: bool = True) -> bytes:
    """The same as one document."""
    name = {"collective": "all_reduce"} if named else {"label": "x"}
    return json.dumps([
        {**name, "ranks": 8, "size": 1 << at % 28, "time_us": 20.25 + at % 50, "algbw": (1 << at % 28) / (20.25 + at % 50) / 1e3}
        for at in range(rows)
    ]).encode()  # fmt: skip


def runs_of(cases: int, note: int = 0) -> bytes:
    """A record of ours with many cases, or with a giant field."""
    run = {"schema": 1, "kind": "run", "run": "r", "started": None, "tool": {"name": "busbw", "version": "1"},
           "library": None, "ranks": [], "environment": {}, "notes": ["x" * note]}  # fmt: skip
    case = {"schema": 1, "kind": "case", "run": "r", "collective": "all_reduce", "outcome": "measured",
            "placement": None, "ranks": 8}  # fmt: skip
    return b"".join([json.dumps(run).encode(), b"\n", *[
        json.dumps({**case, "case": at, "bytes": size, "time_us": 5.5, "algbw_GBps": size / 5.5e3,
                    "busbw_GBps": size / 5.5e3 * 1.75}).encode() + b"\n"
        for at, size in enumerate(range(1024, 1024 + 4 * cases, 4))
    ]])  # fmt: skip


def many_records(count: int) -> Callable[[Path], object]:
    """A folder of runs with so many records."""

    def made(path: Path) -> None:
        path.mkdir()
        for at in range(count):
            folder = path / f"20260101-{at:06}"
            folder.mkdir()
            (folder / "record.jsonl").write_bytes(runs_of(1).replace(b'"r"', f'"20260101-{at:06}"'.encode()))

    return made


def large_records(path: Path) -> None:
    """A folder of runs with so many cases that no index holds them all."""
    path.mkdir()
    record = runs_of(60_000)
    for at in range(20):
        (path / f"20260101-{at:06}").mkdir()
        (path / f"20260101-{at:06}" / "record.jsonl").write_bytes(record.replace(b'"r"', b'"20260101-%06d"' % at))


def many_logs(count: int, size: int) -> Callable[[Path], object]:
    """A folder of logs that all differ."""

    def made(path: Path) -> None:
        path.mkdir()
        for at in range(count):
            (path / f"rank{at}.log").write_bytes(lines(warn, size // 80, seed=at))

    return made


def system(depth: int, width: int) -> bytes:
    """NCCL's topology with deep bridges and many of them."""
    inner = b'<pci busid="0000:%02x:00.0" class="0x060400">'
    one = b"".join(inner % (at % 256) for at in range(depth)) + b"</pci>" * depth
    return b'<system version="1"><cpu numaid="0" arch="x86_64" vendor="x">' + one * width + b"</cpu></system>"


def stamps(r: random.Random, at: int) -> str:
    form = (
        f"2026-11-29T03:{at % 60:02}:{at % 59:02}.{at % 999:03}Z", f"[29/Nov/2026:03:{at % 60:02}:00 +0000]", f"{1764385200 + at}.{at % 999}",
        f"Nov 29 03:{at % 60:02}:00 host{at % 7}", f"I1129 03:{at % 60:02}:00.{at % 999999:06} {at} a.cc:{at % 99}]", f"03:{at % 60:02}:00,{at % 999:03}",
        f"20261129 03{at % 60:02}00", f"[{at}.{at % 999999:06}]", f"Sun Nov 29 03:{at % 60:02}:00 UTC 2026", f"[rank{at % 64}]:W1129",
    )  # fmt: skip
    return f"{r.choice(form)} {words(r, 6)}"


GZ_LINE = b"h:1:1 [0] NCCL INFO Channel 00/32 : 0 1 2 3 4 5 6 7\n"
LOG, SHORT = lines(warn, 2000), lines(warn, 190)

FRESH: dict[str, Callable[[], bytes]] = {
    "repeated-members.log.gz": lambda: gzip.compress(GZ_LINE * 20_000, 9) * 450,
    "different-members.log.gz": lambda: b"".join(gzip.compress(lines(warn, 400, seed=at), 1) for at in range(700)),
    "empty-members.log.gz": lambda: gzip.compress(b"", 9) * 500_000,
    "450-mb.log.gz": lambda: gzip.compress(SHORT * 29_000, 6),
    "repeated.log.bz2": lambda: bz2.compress(SHORT * 100, 9) * 70,
    "different.log.bz2": lambda: bz2.compress(lines(warn, 400_000), 9),
    "streams.log.bz2": lambda: bz2.compress(LOG, 9) * 700,
    "different.log.xz": lambda: lzma.compress(lines(warn, 400_000), preset=0),
    "streams.log.xz": lambda: lzma.compress(LOG, preset=1) * 900,
    "tiny-logs.tar.gz": lambda: tarred(40_000, lambda at: b"n:%d NCCL WARN failed\n" % at),
    "large-logs.tar.gz": lambda: tarred(40, lambda at: SHORT * 600),
    "logs.tar": lambda: tarred(300, lambda at: lines(warn, 400, seed=at), "w"),
    "logs.tar.xz": lambda: tarred(100, lambda at: lines(warn, 100, seed=at), "w:xz"),
    "logs.zip": lambda: zipped(500, LOG),
    "nested.tar.gz": lambda: tarred(3, lambda at: tarred(3, lambda at: tarred(3, lambda at: SHORT * 200))),
    "one-warning.log": lambda: b"n1:7:7 [0] misc/socket.cc:452 NCCL WARN Connect failed : Connection refused\n" * 1_000_000,
    "one-warning-numbered.log": lambda: lines(lambda r, at: f"n{at}:7:7 [0] misc/socket.cc:452 NCCL WARN Connect to 10.0.{at % 256}.{at % 251}<{at}> failed : Connection refused", 300_000),
    "coloured.log": lambda: lines(lambda r, at: f"\x1b[3{at % 8}m\x1b[1m{words(r, 5)}\x1b[0m\x1b[K {words(r, 3)}\x1b]8;;x\x07", 200_000),
    "stamps.log": lambda: lines(stamps, 300_000),
    "one-line-of-32-mb.log": lambda: b"NCCL WARN " + lines(lambda r, at: words(r, 20), 240_000).replace(b"\n", b" "),
    "json-strings.json": lambda: json.dumps({"message": lines(warn, 200_000).decode()}).encode(),
    "flight.json": lambda: flight(60_000),
    "kineto.json": lambda: kineto(60_000),
    "chakra.json": lambda: chakra(60_000),
    "perfetto.json": lambda: b"[" + b",\n".join(b'{"ph":"X","name":"a%d","ts":%d,"dur":3,"pid":1,"tid":1}' % (at, at) for at in range(400_000)) + b"]",
    "nsys.sqlite": database,
    "nsys-stats.csv": lambda: b"Time (%),Total Time (ns),Instances,Avg (ns),Name\n" + lines(lambda r, at: f"{r.random():.1f},{r.randrange(10**9)},{at},{r.random()},\"ncclDevKernel_{words(r, 1)}(x, y)\"", 300_000),
    "wandb.jsonl": lambda: lines(lambda r, at: json.dumps({"_step": at, "_timestamp": 1.7e9 + at, "loss": r.random(), "comm/busbw": r.random(), "comm/size_bytes": at, words(r, 1): at}), 130_000),
    "tensorboard.tfevents": lambda: b"".join(struct.pack("<Q", 40) + b"\x8a" * 44 for _ in range(300_000)),
    "page.html": lambda: b"<!doctype html><html><body><table>" + b"".join(b"<tr><td>%d<td>float<td>%d.5<td>1.5<td>busbw</tr>\n" % (at, at) for at in range(300_000)),
    "page-of-one-line.html": lambda: b"<html><pre>" + b"<span class=x>size busbw 1.5</span><br>" * 400_000,
    "utf-16-warnings.log": lambda: lines(warn, 110_000).decode().encode("utf-16"),
    "utf-16-table.csv": lambda: named_csv(200_000).decode().encode("utf-16"),
    "columns-100000.csv": lambda: csv_of(100_000, 20),
    "open-quote.csv": lambda: b'collective,size,time_us,busbw\n"all_reduce,' + named_csv(400_000),
    "open-quotes.csv": lambda: b'collective,size,time_us,busbw\n' + b'all_reduce,"8,1,1\n' * 800_000,
    "table-440000.csv": lambda: named_csv(440_000),
    "table-230000.json": lambda: named_json(230_000),
    "table-nameless.json": lambda: named_json(230_000, named=False),
    "table.jsonl": lambda: named_json(200_000)[1:-1].replace(b"}, {", b"}\n{"),
    "table.md": lambda: b"## all_reduce\n| size | time (us) | algbw (GB/s) | busbw (GB/s) |\n|---|---|---|---|\n" + lines(lambda r, at: f"| {1 << at % 28} | {at % 97}.5 | 1.5 | 2.625 |", 400_000),
    "32-mb.yaml": lambda: b"results:\n" + lines(lambda r, at: f"  - {words(r, 1)}:\n      size: {at}\n      busbw: {r.random():.4f}", 500_000),
    "manifest.yaml": lambda: lines(lambda r, at: f"{'  ' * (at % 9)}- {words(r, 1)}: {words(r, 3)}", 700_000),
    "learned-prefixes.log": lambda: b"".join(b"job%d worker=%d | " % (at % 977, at % 64) + (b"#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n" if at % 31 == 0 else ROW) for at in range(130_000)),
    "osu.log": lambda: b"# OSU MPI Allreduce Latency Test v7.2\n# Size Avg Latency(us)\n1 2.5\n2 2.6\n4 2.7\n\n" * 180_000,
    "nccl-tests-tables.log": lambda: (b"# nThread 1 nGpus 8 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n#\n#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n" + ROW + b"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 104.86\n#\n") * 70_000,
    "one-table.log": lambda: b"# nThread 1 nGpus 8 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n#\n#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n" + ROW * 500_000,
    "giant-field.jsonl": lambda: runs_of(10, note=60 * MIB),
    "cases-100000.jsonl": lambda: runs_of(100_000),
    "cases-600000.jsonl": lambda: runs_of(600_000),
    "sizes-600000.osu.log": lambda: b"# OSU MPI Allreduce Latency Test v7.2\n# Size Avg Latency(us)\n" + b"".join(b"%d %d.25\n" % (4 * at, 2 + at // 1000) for at in range(1, 600_001)),
    "results-160000.json": lambda: json.dumps({"version": 3, "start_time": "", "args": ["./all_reduce_perf"], "env": [], "nccl_version": 22809, "config": {"nthreads": 1, "ngpus": 8}, "results": [
        {"size": 4 * at, "count": at, "type": "float", "redop": "sum", "root": -1, "out_of_place": {"time": 5.5, "alg_bw": 4 * at / 5.5e3, "bus_bw": 7 * at / 5.5e3, "nwrong": 0}} for at in range(1, 160_001)]}).encode(),
    "kernels.jsonl": lambda: b"".join(b'{"name":"allreduce","kernel":1,"ranks":8,"ranksPerNode":8,"algBw":%.3f,"busBw":%.3f,"size":%d,"time":5.5,"target":"latency"}\n' % (size / 5.5e3, size / 5.5e3 * 1.75, size) for size in range(1024, 1_201_024, 4)),
    "bridges.xml": lambda: system(40, 4000),
    "nested.xml": lambda: system(200_000, 1),
    "smi-comments.xml": lambda: b"<nvidia_smi_log>" + b"<!-- <gpu id='0'> -->" * 1_000_000 + b"</nvidia_smi_log>",
    "nccl.conf": lambda: b"".join(b"NCCL_%s_%d=%d\n" % (b"X" * 30, at, at) for at in range(1_100_000)),
    "same-name.conf": lambda: b"NCCL_P2P_DISABLE=1\n" * 2_700_000,
    "flight.pickle": lambda: pickle.dumps({"entries": [_Acts()], "more": list(range(300_000))}),
    "many-ranks.log": lambda: lines(lambda r, at: f"n{at}:{at}:{at} [0] NCCL INFO comm 0x{at % 3000:x} rank {at} nranks 250000 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x{at % 3000 + 4096:x} - Init START", 140_000),
    "python-tracebacks.log": lambda: b'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\n  File "b.py", line 2, in g\n' * 140_000,
    "carriage-returns.log": lambda: lines(lambda r, at: f"\r{at % 100}%|{'#' * (at % 50)}| {at}/999 [00:{at % 60}<00:01, {r.random():.2f}it/s]", 250_000).replace(b"\n", b""),
    "base64.eml": lambda: b"From: a@b\nContent-Transfer-Encoding: base64\n\n" + base64.encodebytes(lines(warn, 150_000)),
    "kubernetes.jsonl": lambda: lines(lambda r, at: json.dumps({"log": warn(r, at) + "\n", "kubernetes": {"pod_name": f"p{at % 5000}"}, "time": at}), 100_000),
    "cloud.csv": lambda: b"timestamp,message\n" + lines(lambda r, at: f'{at},"{warn(r, at)}"', 160_000),
    "dmesg.log": lambda: lines(lambda r, at: f"[{at}.{at % 999999:06}] NVRM: Xid (PCI:0000:{at % 256:02x}:00): {at % 150}, pid={at}, {words(r, 4)}", 180_000),
    "trillion-ranks.log": lambda: lines(lambda r, at: f"#   Rank {10**12 + at} Group 0 Pid {at} on h device {at} [0x{at:x}] GPU {words(r, 1)}", 200_000),
}  # fmt: skip
"""Files of about 16 to 40 MB, or packed ones that unpack to as much as hundreds."""
FOLDERS: dict[str, Callable[[Path], object]] = {
    "runs-of-100000": many_records(100_000),
    "runs-of-20-large": large_records,
    "logs-of-300-ranks": many_logs(300, 300_000),
}
