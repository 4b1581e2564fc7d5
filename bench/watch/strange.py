"""How often `busbw watch` is right about faults of the kind that programs have, over our CPU library.

    python3 bench/watch/strange.py --build build [--faults lock,io] [--trials 1] [--ranks 4]

The jobs are those of strange_job.py and stranger_job.py, and of parallel_job.py, program_job.py and user_job.py, which
have eight ranks. --faults parallel stands for every second of parallel_job.py, held-out for the others; so do programs
and programs-held-out, users and users-held-out, plain
and plain-held-out, which are those of plain_job.py. What must be said was written down before any was tried: who,
and why (but for four in which the rank stood at the begin of a sentence, with a capital). A verdict is right if it is
the only one, and the delay counts as in faults.py. Exit code: 1 where a verdict was wrong.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from faults import HANG_AFTER_S, heard, made_nccl, verdicts_of  # noqa: E402
from parallel_said import HELD_OUT, PARALLEL  # noqa: E402
from plain_said import PLAIN, PLAIN_HELD_OUT  # noqa: E402
from program_said import HELD_OUT as PROGRAMS_HELD_OUT  # noqa: E402
from program_said import PROGRAMS  # noqa: E402
from stranger_said import MORE  # noqa: E402
from user_said import USERS, USERS_HELD_OUT  # noqa: E402

from busbw.base.programs import with_this_package  # noqa: E402

STEPS = 60
LIMIT_S = 90.0
LATE = r"rank 2 \(.*did not call #41"
GONE = r"ank 2 \(.*(has ended|has exited|is gone)"
SAID: dict[str, str] = {
    **MORE,
    **PARALLEL,
    **PROGRAMS,
    **USERS,
    **PLAIN,
    "lock": LATE,
    "io": LATE,
    "handler": LATE,
    "queue": LATE,
    "child": LATE,
    "gil": LATE,
    "segv": LATE + r".*it has used ",
    "exec": r"rank 2 \(.*(another program|has become|exec)",
    "uneven": r"ank 2 \(.*(destroyed|ended) ",
    "abort": r"ank 2 \(.*abort",
    "reinit": LATE + r".*(init|communicator)",
    "exit0": GONE,
    "returns": GONE,
    "op": r"another operator: rank 2 \(",
    "empty": r"another count: rank 2 \(",
    "place": "",
    "full": LATE,
    "wrapped": r"rank 2 \(.*did not call #20,?001",
    "ring": r"rank [012] \(.*rank [012] \(",
    "receive": r"(ank 1 \(.*rank 2 \(|ank 2 \(.*rank 1 \()",
    "peer": r"rank 2 \(",
    "norecv": r"rank 2 \(",
    "root": r"another root: rank 2 \(",
    "nosplit": r"ank 2 \(.*(split|communicator)",
    "nocolour": r"ank 2 \(",
    "colour": r"rank 2 \(",
    "crossed": r"rank 2 \(.*(left out|did not call) #41",
    "idle": "",
    "sigterm": GONE,
    "thread": LATE,
    "extra": r"ank 2 \(.*(left out|did not call|another order)",
    "fewer": r"ank 2 \(.*(destroyed|exited|ended|did not call)",
    "part": r"ank 0 \(.*did not call #2,.*of [0-9]+ ranks",
    "wrongid": r"ank 2 \(.*ncclCommInitRank",
    "initexit": r"ank 2 \(.*(exited|ended)",
    "initstop": r"ank 2 \(.*stopped",
    "stops": "",
    "twodie": r"ank [12] \(.*(has ended|has exited|is gone|ended without)",
    "allstop": r"ank [123] \(.*stopped",
    "unwatched": "",
}
"""As a regular expression of the verdict; "" where nobody may be accused."""


def main() -> int:
    """Options as in the text above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--faults", default=",".join(SAID))
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=4)
    args = parser.parse_args()
    right = wrong = 0
    several = {
        "parallel": [name for name in PARALLEL if name not in HELD_OUT],
        "held-out": list(HELD_OUT),
        "programs": [name for name in PROGRAMS if name not in PROGRAMS_HELD_OUT],
        "programs-held-out": list(PROGRAMS_HELD_OUT),
        "users": [name for name in USERS if name not in USERS_HELD_OUT],
        "users-held-out": list(USERS_HELD_OUT),
        "plain": [name for name in PLAIN if name not in PLAIN_HELD_OUT],
        "plain-held-out": list(PLAIN_HELD_OUT),
    }
    for name in [each for word in args.faults.split(",") for each in several.get(word, [word])]:
        for _ in range(args.trials):
            why, delay_s = (unwatched if name == "unwatched" else tried)(args.build.resolve(), name, args.ranks)
            right, wrong = right + (not why), wrong + bool(why)
            late = "" if delay_s is None else f", {delay_s:.1f} s after the fault"
            print(f"{name:10} {'wrong' if why else 'right'}{late}{': ' + why if why else ''}", flush=True)
    print(f"{right} right, {wrong} wrong, load {os.getloadavg()[0]:.1f}")
    return int(wrong > 0)


def words_of(build: Path, name: str, ranks: int, folder: Path) -> tuple[list[str], list[str]]:
    """Options of the watcher, and the job."""
    nccl = made_nccl(build, folder, linked=False)
    ranks = max(ranks, 8) if name in {**PARALLEL, **PROGRAMS, **USERS} else ranks
    steps = 30_000 if name == "wrapped" else 2_000 if name == "unwatched" else STEPS
    job = [
        sys.executable,
        str(ROOT / "bench/watch" / job_of(name)),
        str(nccl),
        str(ranks),
        str(steps),
        name,
        str(folder),
    ]
    options = ["--late", "1000s", "--hang-after", f"{HANG_AFTER_S:g}", "--on-hang", "abort"]
    if name == "writeslong":
        options = options[:2]
    if name in {"wrapped", "seldom"} or name.startswith(("token", "ep")):
        options += ["--calls", "1024"]
    return options, job


def job_of(name: str) -> str:
    """The program that knows this fault."""
    if name in {**USERS, **PLAIN}:
        return "user_job.py" if name in USERS else "plain_job.py"
    if name in PROGRAMS:
        return "program_job.py"
    return "parallel_job.py" if name in PARALLEL else "stranger_job.py" if name in MORE else "strange_job.py"


def environ_of(build: Path) -> dict[str, str]:
    return {
        **with_this_package(os.environ), "BUSBW_ENGINE": str(build / "bin" / "busbw-engine"),
        "PAUSE_S": str(1.5 * HANG_AFTER_S),
    }  # fmt: skip


def tried(build: Path, name: str, ranks: int) -> tuple[str, float | None]:
    """Why it was wrong, and how long after the fault the verdict came, less the threshold where it hangs."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        options, job = words_of(build, name, ranks, folder)
        watch = [sys.executable, "-m", "busbw", "watch", *options, "--", *job]
        if name == "full":
            # A file system of its own that is too small for the rings, and goes with the process.
            small = folder / "small"
            small.mkdir()
            line = f'mount -t tmpfs -o size=5m none "{small}" && exec "$@"'
            watch[4:4] = ["--output", str(small)]
            watch = ["unshare", "--mount", "sh", "-c", line, "sh", *watch]
        said, code = heard(watch, environ_of(build), LIMIT_S)
        begun = folder / "fault"
        happened = float(begun.read_text()) if begun.exists() else None
    verdicts = verdicts_of(said)
    if not SAID[name]:
        return ("" if not verdicts and code == 0 else f"exit code {code}, {verdicts or said[-3:]}"), None
    lines = [line for _, line in verdicts]
    delay_s = verdicts[0][0] - happened if verdicts and happened else None
    if delay_s is not None and any("no progress" in line for line in lines):
        # Where other ranks go on, a wait has to be ten times as long.
        delay_s -= HANG_AFTER_S * (10 if name == "servelock" else 1)
    if len(lines) != 1 or not re.search(SAID[name], lines[0]):
        return f"exit code {code}, {lines or [line for _, line in said[-4:]]}", delay_s
    return ("" if delay_s is None or delay_s <= 2.0 else f"right but late: {lines}"), delay_s


def unwatched(build: Path, name: str, ranks: int) -> tuple[str, None]:
    """The watcher is killed; the job must end as if nothing had happened."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        options, job = words_of(build, name, ranks, folder)
        watcher = subprocess.Popen([sys.executable, "-m", "busbw", "watch", *options, "--", *job],
                                   env=environ_of(build), start_new_session=True)  # fmt: skip
        time.sleep(3.0)
        os.kill(watcher.pid, signal.SIGKILL)
        watcher.wait()
        end = time.monotonic() + 60.0
        through = [folder / f"through {rank}" for rank in range(ranks)]
        while time.monotonic() < end and not all(each.exists() for each in through):
            time.sleep(0.1)
        missing = [each.name for each in through if not each.exists()]
    return (f"not there: {missing}" if missing else ""), None


if __name__ == "__main__":
    sys.exit(main())
