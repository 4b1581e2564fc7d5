"""How often `busbw watch` is right about jobs of PyTorch with faults as users write them.

    python3 bench/watch/torch_faults.py --build build --torch-python PYTHON [JOB ...]
    python3 bench/watch/torch_faults.py --build build --torch-python PYTHON --library libnccl.so.2 [JOB ...]

The first way works in host memory, over our CPU library and a process group of our own (nccl_group.py); the second one
on GPUs, over PyTorch's NCCL backend. `one_gpu.py ... torch` runs all of them on one GPU that the ranks share. The jobs
are those of torch_jobs.py. What must be said was written down before any was tried, but that `evaluates` is no fault:
PyTorch leaves the next broadcast out where a forward pass without gradients made one. A verdict is right if it
is the only one and names the rank and the cause. Exit code: 1 where one was wrong.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from faults import heard, made_nccl, verdicts_of  # noqa: E402

from busbw.base.programs import with_this_package  # noqa: E402

HANG_AFTER_S = 8.0
LIMIT_S = 75.0


def who(rank: int) -> str:
    """A rank by its number in the job, wherever it is in a communicator."""
    return rf"[Rr]ank ({rank} \([^()]*\)|\d+ \([^()]*, rank {rank} of the job\))"


def another(what: str, rank: int) -> str:
    """A call that is not alike on all ranks."""
    return rf"another [a-z, ]*{what}[a-z, ]*: {who(rank)}"


LEFT = who(1) + r"[^.]*(destroyed|aborted|exited|ended|did not call|called #|left out)"
SAID: dict[str, str] = {
    "uneven": another("count", 1),
    "skips": LEFT,
    "fsdp": another("count", 1),
    "unused": who(1) + r"[^.]*(exited|ended|is gone|called #|aborted|destroyed)",
    "objects": "",
    "shapes": another("count", 1),
    "barrier": another("count", 0),
    "checkpoint": "",
    "loader": who(1) + " did not call #",
    "swallowed": another("collective", 1),
    "tensor": another("count", 1),
    "graph": another("count", 1),
    "evaluates": "",
    "accumulates": another("count", 1),
    "handles": "",
    "experts": who(1),
    "pipeline": who(2),
    "order": who(1) + "[^.]*(left out|did not call)",
}
"""As a regular expression of the only verdict; "" where nobody may be accused."""


def main() -> int:
    """Options as in the text above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", metavar="JOB", default=list(SAID), help=", ".join(SAID))
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="folder of the build")
    parser.add_argument("--library", type=Path, help="an NCCL; default our CPU library")
    parser.add_argument("--torch-python", default=sys.executable, help="a Python with torch")
    parser.add_argument("--ranks", type=int, default=3)
    args = parser.parse_args()
    if unknown := set(args.jobs) - set(SAID):
        parser.error(f"no job: {', '.join(sorted(unknown))}")
    right = 0
    for name in args.jobs:
        why, verdict = tried(args, name)
        right += not why
        print(f"{name:12} {'wrong: ' + why if why else 'right: ' + (verdict or 'nothing was said')}", flush=True)
    print(f"{right} right, {len(args.jobs) - right} wrong, load {os.getloadavg()[0]:.1f}")
    return int(right < len(args.jobs))


def tried(args: argparse.Namespace, name: str) -> tuple[str, str]:
    """Why it was wrong, and the verdict."""
    build = args.build.resolve()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        job = [args.torch_python, str(ROOT / "bench/watch/torch_job.py"), name, made, "--ranks", str(args.ranks),
               "--pause", str(0.4 * HANG_AFTER_S)]  # fmt: skip
        options = ["--late", "1000s", "--hang-after", f"{HANG_AFTER_S:g}", "--on-hang", "abort"]
        if args.library:
            options += ["--nccl", str(args.library.resolve())]
        else:
            job += ["--nccl", str(made_nccl(build, folder, linked=False))]
        environ = {**with_this_package(os.environ), "BUSBW_ENGINE": str(build / "bin" / "busbw-engine")}
        said, code = heard([sys.executable, "-m", "busbw", "watch", *options, "--", *job], environ, LIMIT_S)
    lines = [line for _, line in verdicts_of(said)]
    told = " | ".join(lines)
    if not SAID[name]:
        fine = not lines and code == 0
        return ("" if fine else f"exit code {code}, {told or last_of(said)}"), told
    if len(lines) != 1 or not re.search(SAID[name], lines[0]):
        return f"exit code {code}, {told or last_of(said)}", told
    return "", told


def last_of(said: list[tuple[float, str]]) -> str:
    """The last words of a job of which nothing was said."""
    return " | ".join(line[:200] for _, line in said[-5:])


if __name__ == "__main__":
    sys.exit(main())
