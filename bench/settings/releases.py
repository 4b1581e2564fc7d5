"""Plants a slowdown in one of many releases of a stand-in for NCCL, and counts how often `busbw bisect` names it."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python")]

from busbw.base.lifeline import ends_with_parent  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--count", type=int, default=14, help="releases")
    parser.add_argument("--trials", type=int, default=20, help="planted slowdowns")
    parser.add_argument("--us", type=float, default=20000.0, help="what a call takes more in every release")
    parser.add_argument(
        "--percent", type=float, default=30.0, help="how much longer that takes from the planted one on"
    )
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    chance, right = random.Random(args.seed), 0
    for number in range(args.trials):
        at = chance.randrange(1, args.count)
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            named, code, steps = _bisected(args, Path(folder), at)
        right += named == [_version(at)]
        print(f"{number + 1}: planted {_version(at)}, named {', '.join(named) or 'none'} in {steps} steps, "
              f"{time.monotonic() - began:.0f} s, exit code {code}", flush=True)  # fmt: skip
    print(f"{right} of {args.trials} named, load average {os.getloadavg()[1]:.1f} of {os.cpu_count()} processors")
    return 0 if right == args.trials else 1


def _version(number: int) -> str:
    return f"2.{20 + number}.3"


def _bisected(args: argparse.Namespace, folder: Path, at: int) -> tuple[list[str], int, int]:
    for number in range(args.count):
        library = folder / f"libnccl.so.{_version(number)}"
        shutil.copy(args.build / "lib" / "libbusbw_test_tuned_nccl.so", library)
        us = args.us * (1 + args.percent / 100 * (number >= at))
        with library.open("a") as stream:
            stream.write(f"\nbusbw-test-release {20003 + 100 * number} {us} 1 1e9\n")
    command = [
        sys.executable, "-m", "busbw", "bisect", "--libraries", f"{_version(0)}..{_version(args.count - 1)}",
        "--from-folder", str(folder), "--ranks", "2", "--runs", str(folder / "runs"), "--json", "--",
        "all_reduce", "-b", "4K", "-e", "4K", "-n", "5", "-w", "1",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"),
                   "BUSBW_ENGINE": str(args.build / "bin" / "busbw-engine")}  # fmt: skip
    # However this process ends, SIGTERM ends the child, which ends its own children.
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          preexec_fn=ends_with_parent(signal.SIGTERM), check=False)  # fmt: skip
    found = json.loads(done.stdout) if done.stdout else {"changes": [], "steps": []}
    return [change["at"] for change in found["changes"]], done.returncode, len(found["steps"])


if __name__ == "__main__":
    sys.exit(main())
