"""Makes 10,000 runs of 60 cases and measures how long `busbw runs` takes to list them and to answer a group-by.

    python3 bench/runs/runs.py [--runs 10000] [--folder DIR]

Every time is that of a whole process, start of Python included, the median of five; the first index is timed once.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "python"))

from busbw.base.programs import ask, with_this_package  # noqa: E402
from busbw.records import Case, End, Library, Rank, Record, Run, Tool  # noqa: E402
from busbw.runs import store  # noqa: E402

GROUP_BY = """SELECT library_version, collective, bytes, count(*), avg(busbw_GBps)
FROM cases JOIN runs USING (run) GROUP BY 1, 2, 3"""


def make(number: int, rng: random.Random) -> Record:
    """A run of 30 sizes in two placements, with five batches each."""
    name = f"20260101T{number // 3600:02d}{number // 60 % 60:02d}{number % 60:02d}Z-node{number % 64:02d}-{number:06x}"
    cases = []
    for position in range(60):
        size = 8 << position // 2
        elapsed = (10 + size / 200e3) * rng.gauss(1, 0.02)
        batches = (tuple(round(elapsed * rng.gauss(1, 0.02), 3) for _ in range(5)),)
        cases.append(
            Case(name, position, "all_reduce", size, ("out_of_place", "in_place")[position % 2], "measured", elapsed,
                 size / elapsed / 1e3, size / elapsed / 1e3 * 1.75, type="float", op="sum", ranks=8, wrong=0,
                 batches_us=batches)
        )  # fmt: skip
    started = f"2026-01-01T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z"
    library = Library("NCCL", version=f"2.{20 + number % 9}.1")
    ranks = tuple(Rank(rank, f"node{number % 64:02d}") for rank in range(8))
    return Record(Run(name, started, Tool("busbw", "0.1.0"), library, ranks), tuple(cases), End(name, "completed", 60))


def timed(words: list[str], folder: Path) -> float:
    environment = {**with_this_package(os.environ), "BUSBW_RUNS": str(folder)}
    begin = time.perf_counter()
    done = ask([sys.executable, "-m", "busbw", "runs", *words], 3600.0, environment=environment)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, help="keep the runs here (they are made only where it is empty)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        rng = random.Random(1)
        for number in range(0 if folder.exists() and any(folder.iterdir()) else args.runs):
            store.add(make(number, rng), folder)
        print(f"{args.runs} runs of 60 cases, Python {platform.python_version()}, {os.cpu_count()} processors")
        print(f"first index           {timed(['index'], folder):6.2f} s")
        for name, words in (("list newest 50", []), ("list all", ["--limit", "0"]), ("group-by", ["sql", GROUP_BY])):
            print(f"{name:<20}  {statistics.median(timed(words, folder) for _ in range(5)):6.2f} s")


if __name__ == "__main__":
    main()
