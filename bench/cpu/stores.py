#!/usr/bin/env python3
"""Stores through the cache or around it, and the library's own choice: all-reduce of floats by 2 processes.

Ways alternate; each round is told apart by how long a cache line takes between the two processors, before and after it.
Rounds in which a virtual machine's processors moved meanwhile are left out, and counted.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "bench" / "cpu"
OUT = ROOT / "bench" / "out"
WAYS = ("cached", "streaming", "auto")
FAR_NS = 250

Times = dict[tuple[str, int], list[float]]


def build() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    library = ROOT / "build" / "lib"
    include = [f"-I{ROOT}", f"-I{ROOT / 'include'}", f"-I{HERE}"]
    for command in (
        ["cmake", "-S", ROOT, "-B", ROOT / "build", "-DCMAKE_BUILD_TYPE=Release"],
        ["cmake", "--build", ROOT / "build", "--target", "busbw_cpu"],
        ["c++", "-std=c++20", "-O2", *include, HERE / "busbw_sweep.cc", "-o", OUT / "busbw_sweep", f"-L{library}",
         "-lbusbw_cpu", f"-Wl,-rpath,{library}", "-pthread"],
        ["c++", "-std=c++20", "-O2", HERE / "line_trip.cc", "-o", OUT / "line_trip", "-pthread"],
    ):  # fmt: skip
        subprocess.run([str(part) for part in command], check=True, stdout=sys.stderr)


def line_trip() -> float:
    return float(subprocess.run([OUT / "line_trip"], capture_output=True, text=True, check=True).stdout)


def sweep(way: str, low: int, high: int) -> dict[int, float]:
    environment = {**os.environ, "BUSBW_CPU_STORES": way}
    command = [str(OUT / "busbw_sweep"), str(low), str(high)]
    text = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300).stdout
    return {int(size): float(us) for size, us in (line.split() for line in text.splitlines())}


def measure(rounds: int, low: int, high: int) -> tuple[dict[str, Times], int]:
    kept: dict[str, Times] = {"near": {}, "far": {}}
    moved = 0
    for _ in range(rounds):
        before = line_trip()
        times = {way: sweep(way, low, high) for way in WAYS}
        after = line_trip()
        if (before > FAR_NS) != (after > FAR_NS):
            moved += 1
            continue
        for way, by_size in times.items():
            for size, us in by_size.items():
                kept["far" if after > FAR_NS else "near"].setdefault((way, size), []).append(us)
    return kept, moved


def table(name: str, times: Times) -> str:
    sizes = sorted({size for _, size in times})
    count = len(times[WAYS[0], sizes[0]])
    lines = [f"Lines {name}: {count} rounds, median us", "", "| bytes | " + " | ".join(WAYS) + " |", "|--:" * 4 + "|"]
    for size in sizes:
        lines.append(f"| {size} | " + " | ".join(f"{statistics.median(times[way, size]):.3g}" for way in WAYS) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--min-bytes", type=int, default=2048)
    parser.add_argument("--max-bytes", type=int, default=4 << 20)
    arguments = parser.parse_args()
    build()
    kept, moved = measure(arguments.rounds, arguments.min_bytes, arguments.max_bytes)
    for name, times in kept.items():
        print(table(name, times) if times else f"Lines {name}: no round\n")
    print(f"{moved} of {arguments.rounds} rounds left out: the processors moved meanwhile")
    return 0


if __name__ == "__main__":
    sys.exit(main())
