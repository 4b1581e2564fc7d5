"""How often `busbw watch` names the right rank in jobs that are drawn: a shape, a fault, a rank, a step and a launcher.

    python3 bench/watch/drawn.py --build build --seed 1 [--jobs 60] [--healthy 10]

The ranks are programs in C that are linked to our CPU library (drawn_rank.c). Another seed gives jobs that nobody has
seen. A verdict is right if it is the only one, accuses the rank that has the fault, says a word of its kind, and comes
at most --late seconds after the threshold, or after the fault where the job fails. Of messages that do not match both
sides may be named. Exit code: 1 where a verdict was wrong.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from faults import HANG_AFTER_S, heard, verdicts_of  # noqa: E402

from busbw.base.programs import ask, with_this_package  # noqa: E402

STEPS = 60
LIMIT_S = 90.0
COLLECTIVES = ("data_parallel", "sharded", "mesh", "within", "communicators")
MESSAGES = ("ring", "pipeline", "experts")
SHAPES = (*COLLECTIVES, "roots", *MESSAGES)
DIES = (
    "sigkill", "sigsegv", "sigabrt", "sigbus", "sigfpe", "sigill", "sigterm", "sighup", "sigpipe", "sigusr1", "sigxcpu",
    "sigsys", "sigalrm", "exit0", "exit3", "_exit0", "memory", "thread_exit",
)  # fmt: skip
WAITS = (
    "mutex", "flock", "accept", "child", "system", "pipe", "poll", "semaphore", "sleep", "loop", "yield", "abort",
    "destroy",
)  # fmt: skip
GONE = "ended|exited|another"
STANDS = "did not call|left out|in no call|in none|do not match|abort|destroy|waits"
OTHER_CALLS = {
    "count": (("data_parallel", "mesh", "within", "communicators"), "another count"),
    "type": (("data_parallel", "mesh", "communicators"), "another type"),
    "op": (("data_parallel", "sharded", "mesh", "within"), "another operator"),
    "root": (("roots",), "another root"),
    "skip": (SHAPES, "left out|did not call|another|not match|ended|exited|destroyed|neither sends"),
    "more": (("data_parallel", "sharded", "mesh", "within"), "left out|another|did not call|called #"),
}
HEALTHY = ("none", "half", "stops")
LAUNCHERS = {
    "shell": 'for r in $(seq 0 $((WORLD - 1))); do RANK=$r "$@" & all="$all $!"; done; '
    "for p in $all; do wait $p || c=$?; done; exit $c",
    "wait": 'for r in $(seq 0 $((WORLD - 1))); do RANK=$r "$@" & done; wait',
    "xargs": 'seq 0 $((WORLD - 1)) | xargs -P "$WORLD" -I@ env RANK=@ "$@"',
    "mpirun": 'exec mpirun --allow-run-as-root --oversubscribe -n "$WORLD" "$@"',
}


@dataclass(frozen=True)
class Job:
    """One drawn job, and what its only verdict has to say; "" where nobody may be accused."""

    shape: str
    fault: str
    ranks: int
    faulty: int
    at: int
    launcher: str
    said: str

    def __str__(self) -> str:
        return f"{self.shape} {self.fault} of rank {self.faulty} of {self.ranks} at {self.at} by {self.launcher}"


def drawn(chance: random.Random, *, healthy: bool) -> Job:
    """Faults by kind: a death, a wait, or another call."""
    kind = "healthy" if healthy else chance.choice(("dies", "waits", "stopped", "exec", "other", "other"))
    shapes: Sequence[str] = SHAPES
    if kind == "dies":
        fault, said = chance.choice(DIES), GONE
    elif kind == "waits":
        fault, said = chance.choice(WAITS), STANDS
    elif kind == "other":
        fault = chance.choice(list(OTHER_CALLS))
        shapes, said = OTHER_CALLS[fault]
    else:
        fault = {"healthy": chance.choice(HEALTHY), "stopped": "sigstop", "exec": "exec"}[kind]
        said = {"healthy": "", "stopped": "is stopped", "exec": "exec|another program"}[kind]
    shape = chance.choice(shapes)
    # A mesh has two rows. The last stage of a pipeline sends nothing.
    ranks = chance.choice((4, 6, 8) if shape == "mesh" else (3, 4, 6, 8))
    most = ranks - 1
    faulty = chance.randrange(most if (shape, fault) == ("pipeline", "skip") else ranks)
    return Job(shape, fault, ranks, faulty, chance.randrange(15, 45), chance.choice(list(LAUNCHERS)), said)


def main() -> int:
    """Options as in the text above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--healthy", type=int, default=10)
    parser.add_argument("--late", type=float, default=2.0)
    args = parser.parse_args()
    chance = random.Random(args.seed)
    jobs = [drawn(chance, healthy=number >= args.jobs) for number in range(args.jobs + args.healthy)]
    right = 0
    with tempfile.TemporaryDirectory() as made:
        program = compiled(args.build.resolve(), Path(made))
        for job in jobs:
            why, delay_s = tried(args.build.resolve(), program, job, args.late)
            right += not why
            late = "" if delay_s is None else f", {delay_s:.1f} s"
            print(f"{job}: {'wrong: ' + why if why else 'right'}{late}", flush=True)
    print(f"{right} of {len(jobs)} right, load {os.getloadavg()[0]:.1f}")
    return int(right < len(jobs))


def compiled(build: Path, folder: Path) -> Path:
    program, library = folder / "rank", build / "lib" / "libbusbw_cpu.so"
    source = Path(__file__).with_name("drawn_rank.c")
    words = ["cc", "-O1", "-pthread", "-o", program, source, library, f"-Wl,-rpath,{library.parent}"]
    if (done := ask([str(word) for word in words], 120.0)).returncode != 0:
        raise SystemExit(f"the compiler refused {source}: {done.stderr}")
    return program


def tried(build: Path, program: Path, job: Job, most_s: float) -> tuple[str, float | None]:
    """Why it was wrong, and how long after the fault the verdict came, less the threshold where it hangs."""
    with tempfile.TemporaryDirectory() as meet:
        environ = {
            **with_this_package(os.environ), "BUSBW_ENGINE": str(build / "bin" / "busbw-engine"), "MEET": meet,
            "WORLD": str(job.ranks), "STEPS": str(STEPS), "AT": str(job.at), "FAULTY": str(job.faulty),
        }  # fmt: skip
        options = ["--late", "1000s", "--hang-after", f"{HANG_AFTER_S:g}", "--on-hang", "abort"]
        words = ["bash", "-c", LAUNCHERS[job.launcher], "sh", str(program), job.shape, job.fault]
        said, code = heard([sys.executable, "-m", "busbw", "watch", *options, "--", *words], environ, LIMIT_S)
        pid, happened = (noted(Path(meet) / f"{name}.{job.faulty}") for name in ("pid", "fault"))
    verdicts = verdicts_of(said)
    lines = [line for _, line in verdicts]
    if not job.said:
        return ("" if not lines and code == 0 else f"exit code {code}, {lines or said[-3:]}"), None
    if len(lines) != 1 or not re.search(job.said, lines[0]) or pid is None or not accuses(lines[0], int(pid[0])):
        return f"exit code {code}, {lines or [line for _, line in said[-4:]]}", None
    delay_s = verdicts[0][0] - happened[1] if happened else None
    if delay_s is not None and "no progress" in lines[0]:
        delay_s -= HANG_AFTER_S
    return ("" if delay_s is None or delay_s <= most_s else f"right but late: {lines}"), delay_s


def accuses(line: str, pid: int) -> bool:
    """Whether the process is the first that is named, but for those that wait, or one side of a message."""
    named = [int(number) for number in re.findall(r"pid (\d+)", line.partition(", while rank ")[0])]
    if "waits in send" in line or "waits in recv" in line or "not of one size" in line or "do not match" in line:
        return pid in named[:3]
    return named[:1] == [pid]


def noted(path: Path) -> tuple[float, float] | None:
    """A process's number and the moment."""
    if not path.exists():
        return None
    pid, moment_s = path.read_text().split()
    return float(pid), float(moment_s)


if __name__ == "__main__":
    sys.exit(main())
