"""Stands in for the engine with our GPU library: times by size that the forced algorithm would take on made-up GPUs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

MODEL = {"nccl": (9.0, 350e3), "direct/ll": (3.0, 30e3), "direct/simple": (5.5, 240e3), "direct/copy": (15.0, 500e3)}
"""Latency in microseconds and bytes per microsecond."""

CRASHES = "direct/simple@128x512"


def option(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


def case(number: int, size: int) -> dict[str, object]:
    use = os.environ["BUSBW_ALGORITHM"]
    kernel, _, shape = use.partition("@")
    assert (kernel == "direct/copy") == ("-R" in sys.argv)
    if kernel == "direct/ll" and size > 65536:  # what it cannot do goes to NCCL
        kernel, use = "nccl", "nccl: the message is longer than the kernel's scratch takes"
    latency, rate = MODEL[kernel]
    time_us = (latency + size / rate) * (1.2 if shape else 1.0)
    return {
        "schema": 1, "kind": "case", "run": "r", "case": number, "collective": sys.argv[1], "type": "float",
        "op": "sum", "ranks": 2, "bytes": size, "placement": "out_of_place", "outcome": "measured", "time_us": time_us,
        "algbw_GBps": 1.0, "busbw_GBps": 1.0, "algorithm": "nccl: BUSBW_ALGORITHM says so" if use == "nccl" else use,
    }  # fmt: skip


def main() -> int:
    if os.environ.get("BUSBW_RANK", "0") != "0":
        return 0
    if os.environ["BUSBW_ALGORITHM"] == CRASHES:
        print("no such kernel: it failed", file=sys.stderr)
        return 3
    assert os.environ["BUSBW_TABLE"] == "/dev/null"
    device = {"kind": "gpu", "index": 0, "name": "Made-up GPU"}
    run = {"schema": 1, "kind": "run", "run": "r", "started": None, "tool": {"name": "busbw", "version": "0"},
           "library": None, "ranks": [{"rank": 0, "host": "h", "device": device}], "environment": {}}  # fmt: skip
    first, last = int(option("-b")), int(option("-e"))
    sizes = [first << i for i in range(40) if first << i <= last]
    end = {"schema": 1, "kind": "end", "run": "r", "outcome": "completed", "cases": len(sizes)}
    lines = [run, *(case(i, size) for i, size in enumerate(sizes)), end]
    Path(option("--record")).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
