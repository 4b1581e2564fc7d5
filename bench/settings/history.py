"""Keeps made-up runs and times `busbw history` over them: first without an index, then with one.

python3 bench/settings/history.py [--runs 1000]
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python")]

from busbw.records import Case, End, Library, Record, Run, Tool  # noqa: E402
from busbw.runs import store  # noqa: E402

MOST_S = 2.0
FIRST = datetime(2026, 1, 1, tzinfo=timezone.utc)


def main() -> int:
    """1 where a first look takes longer than two seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rng = random.Random(1)
        for number in range(args.runs):
            keep(Path(folder), number, rng.gauss(1, 0.01) * (1.1 if number > args.runs // 2 else 1.0))
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
        took = []
        for name in ("without an index", "with an index"):
            begun, used = time.monotonic(), os.times()
            done = subprocess.run([sys.executable, "-m", "busbw", "history", "--runs", folder], env=environment,
                                  capture_output=True, text=True, timeout=300, check=False)  # fmt: skip
            took.append(time.monotonic() - begun)
            now = os.times()
            processor = now.children_user + now.children_system - used.children_user - used.children_system
            print(f"{name}: {took[-1]:.2f} s, {processor:.2f} s of processor time, exit code {done.returncode}, "
                  f"{len(done.stdout.splitlines())} lines", flush=True)  # fmt: skip
    return 0 if took[0] <= MOST_S else 1


def keep(folder: Path, number: int, factor: float) -> None:
    """A run of 8 sizes, out of place and in place."""
    name, sizes = f"run{number:05d}", [1 << n for n in range(10, 31, 3)]
    started, library = (FIRST + timedelta(hours=number)).isoformat(), Library("NCCL", version="2.28.9")
    run = Run(name, started, Tool("busbw", "1"), library, machine="ndv5", environment={"NCCL_ALGO": "Ring"})
    cases = [
        Case(name, 2 * at + place, "all_reduce", size, "in_place" if place else "out_of_place", "measured",
             factor * (10 + size / 200e3), type="float", ranks=8)
        for at, size in enumerate(sizes) for place in (0, 1)
    ]  # fmt: skip
    store.add(Record(run, tuple(cases), End(name, "completed", len(cases))), folder)


if __name__ == "__main__":
    sys.exit(main())
