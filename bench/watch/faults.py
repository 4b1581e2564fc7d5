"""How often `busbw watch` is right about a job with a fault: faults at random moments over our CPU library.

    python3 bench/watch/faults.py --build build --seconds 240 --seed 1

Each round runs every fault of python/tests/watch/job.py once, with 3 to 8 ranks and at a random step. A verdict is
right if it is the only one, names rank 2 and the cause, and the number of the call where that is the cause. A healthy
job and one with a pause must be left alone. Exit code: 1 where a verdict was wrong.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from busbw.base.programs import ask, with_this_package  # noqa: E402

HANG_AFTER_S = 4
# What the verdict has to say, and whether it has to name the call.
FAULTS: dict[str, tuple[str, bool] | None] = {
    "none": None,
    "pause": None,
    "stop": ("the process is stopped", False),
    "sleep": ("did not call #", True),
    "order": ("has left out #", True),
    "skip": ("has left out #", True),
    "kill": ("the job failed. Rank 2 (", False),
    "exit": ("the job failed. Rank 2 (", False),
    "count": ("another count: rank 2 (", True),
    "type": ("another type: rank 2 (", True),
    "operator": ("another operator: rank 2 (", True),
    "collective": ("another collective, root: rank 2 (", True),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="folder of the build")
    parser.add_argument("--seconds", type=float, default=240, help="no run begins later")
    parser.add_argument("--seed", type=int, default=1, help="of the moments and the numbers of ranks")
    args = parser.parse_args()
    chance = random.Random(args.seed)
    build, end = Path(args.build).resolve(), time.monotonic() + args.seconds
    right = wrong = 0
    while time.monotonic() < end:
        for fault in FAULTS:
            if time.monotonic() > end:
                break
            ranks, steps = chance.choice((3, 4, 5, 8)), chance.randrange(9, 400)
            why = judged(build, fault, ranks, steps)
            right, wrong = right + (not why), wrong + bool(why)
            if why:
                print(f"wrong: {fault} in {ranks} ranks and {steps} steps: {why}", flush=True)
    print(f"{right} right, {wrong} wrong")
    return int(wrong > 0)


def judged(build: Path, fault: str, ranks: int, steps: int) -> str:
    """Why the verdict is wrong, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        nccl = Path(folder) / "libnccl.so.2"
        shutil.copy(build / "lib" / "libbusbw_cpu.so", nccl)
        job = [
            sys.executable,
            str(ROOT / "python/tests/watch/job.py"),
            str(nccl),
            str(ranks),
            str(steps),
            fault,
            folder,
        ]
        options = ["--hang-after", str(HANG_AFTER_S), "--on-hang", "abort"]
        environ = {**with_this_package(os.environ), "BUSBW_ENGINE": str(build / "bin" / "busbw-engine")}
        done = ask([sys.executable, "-m", "busbw", "watch", *options, "--", *job], 300.0, environment=environ)
    said = [
        line
        for line in done.stderr.splitlines()
        if line.startswith(("busbw watch: no progress", "busbw watch: the job"))
    ]
    wanted = FAULTS[fault]
    if wanted is None:
        return "" if not said and done.returncode == 0 else f"exit code {done.returncode}, {said}"
    words, with_number = wanted
    if len(said) != 1 or words not in said[0] or "ank 2 (" not in said[0]:
        return f"exit code {done.returncode}, {said}"
    number = f"#{steps * 2 // 3 + 1:,}"
    return "" if not with_number or number in said[0] else f"no {number} in {said[0]}"


if __name__ == "__main__":
    sys.exit(main())
