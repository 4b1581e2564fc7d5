"""What the recorder costs the host: processor time of a call and of a graph's launch, with it and without, in turn.

    python3 bench/watch/recorder_cost.py --build build

The program calls an NCCL and a CUDA without a GPU (library/tests/record), so that next to nothing but the recorder is
left. Each figure is the median of the differences between neighbouring starts, with their range.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tempfile
from pathlib import Path
from statistics import median

ROUNDS = {
    "a call, eager": ("calls", "400000"),
    "a call, every 100th timed": ("calls", "400000"),
    "a launch of a graph of 1 call": ("launches", "400000", "1"),
    "a launch of a graph of 10 calls": ("launches", "60000", "10"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="folder of the build")
    parser.add_argument("--starts", type=int, default=9, help="pairs of starts of each figure")
    args = parser.parse_args()
    build = Path(args.build).resolve()
    for what, words in ROUNDS.items():
        plain, more = [], []
        for turn in range(args.starts):
            pair = {}
            for recorded in (turn % 2 == 0, turn % 2 != 0):
                pair[recorded] = once(build, words, recorded=recorded, times="100" if "timed" in what else "none")
            plain.append(pair[False])
            more.append(pair[True] - pair[False])
        low, high = min(more), max(more)
        print(f"{what}: {median(plain):.0f} ns without, {median(more):.0f} ns more with it ({low:.0f} to {high:.0f})")
    return 0


def once(build: Path, words: tuple[str, ...], *, recorded: bool, times: str) -> float:
    """Processor time in ns that the program prints."""
    with tempfile.TemporaryDirectory(prefix="busbw-cost-") as folder:
        environ = dict(os.environ)
        if recorded:
            environ |= {"LD_PRELOAD": str(build / "lib" / "libbusbw_record.so"), "BUSBW_RECORD_DIR": folder,
                        "BUSBW_RECORD_TIMES": times}  # fmt: skip
        done = subprocess.run([build / "bin" / "busbw_test_gpu_user", *words], env=environ, capture_output=True,
                              text=True, timeout=300, check=True)  # fmt: skip
    found = re.search(r"([0-9.]+) ns a", done.stdout)
    assert found, done.stdout
    return float(found[1])


if __name__ == "__main__":
    raise SystemExit(main())
