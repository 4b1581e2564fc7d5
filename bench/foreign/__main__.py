"""Times what reads foreign files on files of every shape: python bench/foreign [--only NAME ...] [--half tuned]."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from shapes import is_set_aside, names, write

from busbw.base.programs import with_this_package

SECONDS, MEBIBYTES = 5.0, 477  # 500 MB
COMMANDS = {
    "doctor": ("doctor",),
    "import": ("import",),
    "report": ("report",),
    "topo": ("topo",),
    "runs": ("runs", "import"),
}


def cost(command: tuple[str, ...], path: Path, folder: Path) -> tuple[float, float, int, str]:
    """(seconds of processor time, MiB, exit code, the end of what it said)."""
    environment = {**with_this_package(os.environ), "BUSBW_RUNS": str(folder / "runs")}
    with subprocess.Popen(
        [sys.executable, "-m", "busbw", *command, str(path)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment, cwd=folder,
    ) as child:  # fmt: skip
        assert child.stderr is not None
        said = child.stderr.read().decode("utf-8", "replace")
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, child.returncode, said


def main() -> int:
    """Print a line for each file and command that is over a bound, and how many are within."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=float, default=16 * 1.048576)
    parser.add_argument("--commands", nargs="*", default=["doctor", "import"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--half", choices=("tuned", "aside"))
    parser.add_argument("--all", action="store_true", help="a line for each, not only for those over a bound")
    args = parser.parse_args()
    chosen = args.only or [
        each for each in names() if args.half is None or is_set_aside(each) == (args.half == "aside")
    ]
    within = total = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            path = Path(folder) / f"{name}.log"
            # In a process of its own: what this one has held counts for its children.
            writer = multiprocessing.Process(target=write, args=(name, path, int(args.megabytes * 1e6), args.seed))
            writer.start()
            writer.join()
            for command in args.commands:
                seconds, mebibytes, code, said = cost(tuple(command.split()), path, Path(folder))
                fits = seconds <= SECONDS and mebibytes <= MEBIBYTES and "Traceback" not in said
                within, total = within + fits, total + 1
                if args.all or not fits:
                    print(f"{name:20} {command:8} {seconds:5.1f} s {mebibytes:5.0f} MiB, exit code {code}", flush=True)
            path.unlink()
    print(f"{within} of {total} within {SECONDS:.0f} s of processor time and 500 MB; load {os.getloadavg()[0]:.1f}")
    return 0 if within == total else 1


if __name__ == "__main__":
    sys.exit(main())
