#!/usr/bin/env python3
"""Writes a log of a given size as a cluster's jobs leave it, to measure how fast it imports.

usage: make_log.py PATH MEGABYTES messages|rows|small|prefixed

messages: jobs of 64 ranks with NCCL_DEBUG=INFO and mpirun's tags, 31 rows each, as most large logs are;
rows: nothing but tables of 31 rows, the worst case;
small: 20,000 tables of 3 rows, whatever MEGABYTES says;
prefixed: one job of 1,440 ranks, each line behind the label of its rank, as `srun -l` writes it.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import TextIO

HEADER = (
    f"#{'out-of-place':>74}{'in-place':>31}          \n",
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw"
    "  #wrong \n",
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)"
    "         \n",
)


def job(stream: TextIO, noise: random.Random, ranks: int, messages: int) -> int:
    """One job's output; returns the characters written."""
    tag = "[1,0]<stdout>:" if messages else ""
    written = 0

    def put(text: str) -> None:
        nonlocal written
        written += stream.write(text)

    put(
        f"{tag}# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 1 iters: 20 "
        "agg iters: 1 validation: 1 graph: 0 unalign: 0\n"
    )
    put(f"{tag}#\n{tag}# Using devices\n")
    for rank in range(ranks):
        put(
            f"{tag}#  Rank {rank:2} Group  0 Pid {1000 + rank:6} on node{rank // 8:06} device {rank % 8:2} "
            f"[0000:{rank % 8:02x}:00] NVIDIA H100 80GB HBM3\n"
        )
    for number in range(messages):
        rank = noise.randrange(ranks)
        put(
            f"[1,{rank}]<stdout>:node{rank // 8:06}:{1000 + rank}:{2000 + rank} [{rank % 8}] NCCL INFO "
            f"Channel {number % 32:02}/0 : {rank}[{rank % 8}] -> {(rank + 1) % ranks}[{(rank + 1) % 8}] "
            "via P2P/CUMEM/read\n"
        )
    for line in HEADER:
        put(tag + line)
    for power in range(3, 34):
        size = 1 << power
        put(tag + row(size, 10 + size / 400e3 * noise.uniform(0.95, 1.05), ranks))
    put(f"{tag}# Out of bounds values : 0 OK\n{tag}# Avg bus bandwidth    : 102.829 \n{tag}#\n")
    return written


def row(size: int, time: float, ranks: int) -> str:
    """A row as nccl-tests prints it."""
    shown = f"{time:7.2f}" if time < 1e4 else f"{time:7.1f}" if time < 1e5 else f"{time:7.0f}"
    algbw = size / time / 1000
    group = f"  {shown}  {algbw:6.2f}  {algbw * 2 * (ranks - 1) / ranks:6.2f}       0"
    return f"{size:12}  {size // 4:12}  {'float':>8}  {'sum':>6}  {-1:6}{group}{group}\n"


def small(stream: TextIO) -> None:
    """20,000 tables of 2 ranks and 3 rows."""
    for number in range(20_000):
        stream.write(
            "# nThread 1 nGpus 2 minBytes 1048576 maxBytes 268435456 step: 16(factor) warmup iters: 1 iters: 20 "
            "agg iters: 1 validation: 1 graph: 0 unalign: 0\n#\n# Using devices\n"
        )
        for rank in range(2):
            name = f"{rank:2} [0000:{rank:02x}:00] NVIDIA H100 80GB HBM3"
            stream.write(f"#  Rank {rank:2} Group  0 Pid {1000 + number:6} on node000001 device {name}\n")
        stream.writelines(HEADER)
        for size in (1 << 20, 1 << 24, 1 << 28):
            stream.write(row(size, 10 + size / 400e3, 2))
        stream.write("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 102.829 \n#\n")


def prefixed(stream: TextIO, noise: random.Random, wanted: int, ranks: int = 1440) -> None:
    """Messages of every rank, with the table of rank 0 between them."""
    table = [*HEADER, *(row(1 << power, 10 + (1 << power) / 400e3, ranks) for power in range(3, 34))]
    written = 0
    while written < wanted:
        for line in table:
            for _ in range(40):
                rank = noise.randrange(1, ranks)
                written += stream.write(f"{rank:4}: libfabric:{1000 + rank}:core:mr: cache of {rank} entries is full\n")
            written += stream.write(f"   0: {line}")
        written += stream.write("   0: # Avg bus bandwidth    : 102.829 \n")


def main() -> int:
    kinds = ("messages", "rows", "small", "prefixed")
    if len(sys.argv) != 4 or sys.argv[3] not in kinds:
        print(__doc__)
        return 2
    wanted, kind = int(float(sys.argv[2]) * 1e6), sys.argv[3]
    noise = random.Random(1)
    with Path(sys.argv[1]).open("w", encoding="utf-8") as stream:
        written = 0
        if kind == "small":
            small(stream)
        elif kind == "prefixed":
            prefixed(stream, noise, wanted)
        else:
            while written < wanted:
                written += job(stream, noise, 64 if kind == "messages" else 8, 20_000 if kind == "messages" else 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
