"""Lines and titles as people's scripts write them, and two logs in one text: facts were written before the first try."""

# ruff: noqa: E501 - the lines are as wide as the tools print them

from __future__ import annotations

import json
from collections.abc import Iterator

from world_corpus import Fact, Shape, fact
from world_tables import OUT
from world_writers import HEADER, SIZES, Job, busbw, nccl_tests, preamble, rows

LARGEST = SIZES[-1]
JOB = Job()
ONE = Fact("all_reduce", 8, 3, 173.71, largest=LARGEST, time=2704.35)
UNITS = ("1 MiB", "16 MiB", "256 MiB")
THREE = list(zip(SIZES, OUT, strict=True))


def script_lines() -> Iterator[Shape]:
    """One line a size, as people's scripts print them."""
    yield Shape(
        "lines-of-keys-and-values",
        "all_reduce on 8 GPUs\n"
        + "".join(
            f"size: {size} B  time: {out[0]} us  algbw: {out[1]} GB/s  busbw: {out[2]} GB/s\n" for size, out in THREE
        ),
        (ONE,),
        "all_reduce.log",
    )
    yield Shape(
        "lines-of-equals",
        "".join(
            f"op=all_reduce world_size=8 bytes={size} time_us={out[0]} algbw_GBps={out[1]} busbw_GBps={out[2]}\n"
            for size, out in THREE
        ),
        (ONE,),
    )
    yield Shape(
        "lines-of-equals-behind-times",
        "".join(
            f"2026-11-23 07:00:0{at} INFO bench: collective=all_gather ranks=16 size=1{unit} busbw=9.{at}GB/s\n"
            for at, unit in enumerate("MG")
        ),
        (Fact("all_gather", 16, 2, 9.1, largest=1 << 30),),
    )
    yield Shape(
        "lines-of-prose",
        "".join(
            f"AllReduce {size >> 20} MB took {float(out[0]) / 1000:.4f} ms, bandwidth {out[2]} GB/s\n"
            for size, out in THREE
        ),
        (),
        says="lines",
    )
    yield Shape(
        "jsonl-of-a-script",
        "".join(
            json.dumps(
                {
                    "op": "all_reduce",
                    "size_mb": size >> 20,
                    "time_ms": float(out[0]) / 1000,
                    "busbw": float(out[2]),
                    "world_size": 8,
                }
            )
            + "\n"
            for size, out in THREE
        ),
        (ONE,),
        "bench.jsonl",
    )
    yield Shape(
        "excel-sep-line",
        "sep=;\nsize;time (us);algbw (GB/s);busbw (GB/s)\n"
        + "".join(f"{size};{out[0]};{out[1]};{out[2]}\n" for size, out in THREE),
        (ONE,),
        "all_reduce.csv",
    )


def titles() -> Iterator[Shape]:
    """Titles and columns that tell nodes and GPUs."""
    head = "| Size | BusBW (GB/s) |\n|---|---|\n"
    body = "".join(f"| {unit} | {out[2]} |\n" for unit, out in zip(UNITS, OUT, strict=True))
    open_ = Fact("all_reduce", None, 3, 173.71, largest=LARGEST)
    yield Shape(
        "title-nodes-of-gpus",
        f"## all_reduce on 2 nodes of 8 GPUs\n\n{head}{body}",
        (Fact("all_reduce", 16, 3, 173.71, largest=LARGEST),),
        "page.md",
    )
    yield Shape(
        "title-nodes-and-gpus-each",
        f"## all_reduce, 2 nodes with 8 GPUs each\n\n{head}{body}",
        (Fact("all_reduce", 16, 3, 173.71, largest=LARGEST),),
        "page.md",
    )
    yield Shape(
        "title-nodes-times-gpus",
        f"## all_reduce 2x8 H100 GPUs\n\n{head}{body}",
        (Fact("all_reduce", 16, 3, 173.71, largest=LARGEST),),
        "page.md",
    )
    yield Shape("title-nodes-and-gpus-open", f"## all_reduce, 2 nodes, 8 GPUs\n\n{head}{body}", (open_,), "page.md")
    yield Shape(
        "title-nodes-and-all-gpus",
        f"## all_reduce, 2 nodes (16 GPUs)\n\n{head}{body}",
        (Fact("all_reduce", 16, 3, 173.71, largest=LARGEST),),
        "page.md",
        says="",
    )
    yield Shape(
        "csv-gpus-beside-nodes",
        "nodes,gpus,size,busbw (GB/s)\n" + "".join(f"2,8,{size},{out[2]}\n" for size, out in THREE),
        (open_,),
        "all_reduce.csv",
        says="each of 2 nodes",
    )
    yield Shape(
        "csv-gpus-beside-nodes-told-by-both",
        "nodes,gpus,size,algbw (GB/s),busbw (GB/s)\n"
        + "".join(f"2,8,{size},{out[1]},{busbw('all_reduce', 16, size):.2f}\n" for size, out in THREE),
        (Fact("all_reduce", 16, 3, 186.11, largest=LARGEST),),
        "all_reduce.csv",
    )
    yield Shape(
        "csv-world-beside-nodes",
        "nodes,world_size,size,busbw (GB/s)\n" + "".join(f"2,16,{size},{out[2]}\n" for size, out in THREE),
        (Fact("all_reduce", 16, 3, 173.71, largest=LARGEST),),
        "all_reduce.csv",
    )


def two_files() -> Iterator[Shape]:
    """Two logs in one text."""
    faster = [
        line.replace("30.5", "29.5").replace("187.8", "180.8").replace("2704.4", "2604.4")
        for line in rows(JOB).splitlines()
    ]
    hunk = "".join(f"-{line}\n" for line in rows(JOB).splitlines()) + "".join(f"+{line}\n" for line in faster)
    head_lines = "".join(f" {line}\n" for line in (preamble(JOB) + HEADER).splitlines())
    yield Shape(
        "diff-of-two-logs",
        f"--- a.log\n+++ b.log\n@@ -1,20 +1,20 @@\n{head_lines}{hunk}",
        (Fact("all_reduce", 8, 3, 173.71, time=2704.4), Fact("all_reduce", 8, 3, 173.71, time=2604.4)),
        "all_reduce.diff",
        says="",
    )
    both = "".join(f"==> node{at}/job.log <==\n{nccl_tests(Job('all_reduce', 8, (f'node{at}',)))}\n" for at in range(2))
    yield Shape("tail-of-two-files", both, (fact(JOB), fact(JOB)))
    grepped = "".join(f"logs/all_reduce_n{at}.out:{line}\n" for line in nccl_tests(JOB).splitlines() for at in range(2))
    yield Shape("grep-of-two-files", grepped, (fact(JOB), fact(JOB)))
    yield Shape(
        "rows-are-gpu-counts-at-one-size",
        "### all_reduce at 1 GiB\n\n| GPUs | Time (ms) | BusBW (GB/s) |\n|---|---|---|\n| 8 | 5.1 | 368.4 |\n| 16 | 5.6 | 359.5 |\n",
        (),
        "page.md",
        says="size",
    )


def told_shapes() -> Iterator[Shape]:
    """All of this file."""
    yield from script_lines()
    yield from titles()
    yield from two_files()
