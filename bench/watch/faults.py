"""How often `busbw watch` is right about a job with a fault, and how soon, over our CPU library.

    python3 bench/watch/faults.py --build build --trials 5 --ranks 3,4,8 --seed 1
    python3 bench/watch/faults.py --build build --trials 1 --ranks 64 --steps 60
    python3 bench/watch/faults.py --build build --trials 1 --ranks 8 --faults pauses --pauses 300

Each fault of python/tests/watch/job.py is tried so many times, at a random step or, where another process does it, at
any moment. A verdict is right if it is the only one, names rank 2 and the cause, and the number of the call where that
is the cause. A healthy job and one with a pause of half the threshold must be left alone. So must `pauses`, which is
tried only where it is named: a long job, in which now one rank and now another pauses for half the threshold. The
delay counts from the fault, less the threshold where the job hangs. Exit code: 1 where a verdict was wrong.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from busbw.base.programs import ask, with_this_package  # noqa: E402

HANG_AFTER_S = 4.0
LIMIT_S = 240.0
STEPS_A_PAUSE = 50
"""Of python/tests/watch/job.py."""
HANGS = f"no progress for {HANG_AFTER_S:g} s. "


@dataclass(frozen=True)
class Fault:
    """What the verdict has to say, whether it has to name the call, and who brings the fault about.

    Where the job does not hang it has failed, or hangs for a while: ranks without a peer may need long under load.
    """

    said: tuple[str, ...] = ()
    with_number: bool = False
    from_outside: bool = False
    hangs: bool = True


FAULTS = {
    "none": Fault(),
    "pause": Fault(),
    "pauses": Fault(),
    "kill": Fault(("ank 2 (",), from_outside=True, hangs=False),
    "stop": Fault((HANGS, "rank 2 (", "the process is stopped"), from_outside=True),
    "debugger": Fault((HANGS, "rank 2 (", "the process is in a debugger"), from_outside=True),
    "memory": Fault(("ank 2 (",), hangs=False),
    "exception": Fault(("ank 2 (",), hangs=False),
    "exit": Fault(("ank 2 (",), hangs=False),
    "count": Fault(("another count: rank 2 (",), with_number=True, hangs=False),
    "type": Fault(("another type: rank 2 (",), with_number=True, hangs=False),
    "operator": Fault(("another operator: rank 2 (",), with_number=True, hangs=False),
    "collective": Fault(("another collective, root: rank 2 (",), with_number=True, hangs=False),
    "order": Fault((HANGS, "rank 2 (", "has left out #"), with_number=True),
    "skip": Fault((HANGS, "rank 2 (", "has left out #"), with_number=True),
    "group": Fault((HANGS, "but rank 2 (", "in a group of"), with_number=True),
    "sleep": Fault((HANGS, "rank 2 (", "did not call #"), with_number=True),
    "busy": Fault((HANGS, "rank 2 (", "did not call #", "Since then it has used "), with_number=True),
    "inside": Fault((HANGS, "in it rank 2 (", "computes ("), with_number=True),
    "link": Fault((HANGS, "Connections stand still: rank 2 (",), with_number=True),
}  # fmt: skip


@dataclass
class Trial:
    """One job; `why` it was wrong, or ""."""

    why: str
    delay_s: float | None


def main() -> int:
    """Options as in the text above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="folder of the build")
    parser.add_argument("--trials", type=int, default=5, help="of each fault")
    parser.add_argument("--ranks", default="3,4,5,8", help="one of these each time")
    parser.add_argument("--steps", type=int, default=300, help="a job has from 9 to so many")
    parser.add_argument(
        "--faults", default=",".join(name for name in FAULTS if name != "pauses"), help="names of faults"
    )
    parser.add_argument("--pauses", type=int, default=100, help="of a job with many")
    parser.add_argument("--seconds", type=float, default=1e9, help="no trial begins later")
    parser.add_argument("--seed", type=int, default=1, help="of the moments and the numbers of ranks")
    args = parser.parse_args()
    chance = random.Random(args.seed)
    build, end = Path(args.build).resolve(), time.monotonic() + args.seconds
    found: dict[str, list[Trial]] = {name: [] for name in args.faults.split(",")}
    for _ in range(args.trials):
        for name, trials in found.items():
            ranks = int(chance.choice(args.ranks.split(",")))
            steps, after_s = chance.randrange(9, max(10, args.steps)), chance.uniform(0.0, 1.0)
            if name == "pauses":
                steps = args.pauses * STEPS_A_PAUSE
            if time.monotonic() < end:
                trials.append(tried(build, name, ranks, steps, after_s))
                if trials[-1].why:
                    print(f"wrong: {name} in {ranks} ranks and {steps} steps: {trials[-1].why}", flush=True)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors, ranks {args.ranks}, seed {args.seed}")
    for name, trials in found.items():
        delays = sorted(trial.delay_s for trial in trials if trial.delay_s is not None and not trial.why)
        late = f"; delay median {median(delays):.1f} s, longest {delays[-1]:.1f} s" if delays else ""
        print(f"{name:10} {sum(not trial.why for trial in trials):3} of {len(trials)} right{late}")
    every = [trial for trials in found.values() for trial in trials]
    wrong = sum(bool(trial.why) for trial in every)
    print(f"{len(every) - wrong} right, {wrong} wrong")
    return int(wrong > 0)


def tried(build: Path, name: str, ranks: int, steps: int, after_s: float) -> Trial:
    """Run the job under the watcher and read what that says, as it comes."""
    fault = FAULTS[name]
    if fault.from_outside:
        # It has to be running still when the moment comes.
        steps = 1_000_000
    with tempfile.TemporaryDirectory() as folder, proxy(name == "link") as proxied:
        nccl = made_nccl(build, Path(folder), linked=name in {"link", "inside"})
        environ = {
            **with_this_package(os.environ), **proxied, "BUSBW_ENGINE": str(build / "bin" / "busbw-engine"),
            "PAUSE_S": str(HANG_AFTER_S / 2), "REAL_CPU": str(build / "lib" / "libbusbw_cpu.so"),
        }  # fmt: skip
        if fault.from_outside:
            environ["FAULT_AFTER_S"] = str(after_s)
        limit_s = LIMIT_S + (2 * HANG_AFTER_S * steps / STEPS_A_PAUSE if name == "pauses" else 0.0)
        job = [sys.executable, str(ROOT / "python/tests/watch/job.py"), str(nccl), str(ranks), str(steps), name, folder]
        options = ["--late", "1000s", "--hang-after", f"{HANG_AFTER_S:g}", "--on-hang", "abort"]
        said, code = heard([sys.executable, "-m", "busbw", "watch", *options, "--", *job], environ, limit_s)
        begun = Path(folder) / "fault"
        happened = float(begun.read_text()) if begun.exists() else None
    verdicts = [
        (at, line) for at, line in said if line.startswith(("busbw watch: no progress", "busbw watch: the job"))
    ]
    lines = [line for _, line in verdicts]
    if not fault.said:
        return Trial("" if not lines and code == 0 else f"exit code {code}, {lines}", None)
    if len(lines) != 1 or not all(words in lines[0] for words in fault.said):
        return Trial(f"exit code {code}, {lines or said[-5:]}", None)
    number = f"#{steps * 2 // 3 + 1:,}"
    if fault.with_number and number not in lines[0]:
        return Trial(f"no {number} in {lines}", None)
    delay_s = verdicts[0][0] - happened - (HANG_AFTER_S if fault.hangs else 0) if happened else None
    return Trial("", delay_s)


def heard(words: list[str], environ: dict[str, str], limit_s: float) -> tuple[list[tuple[float, str]], int]:
    """Lines of stderr with the moment when each came, and the exit code."""
    job = subprocess.Popen(words, env=environ, stderr=subprocess.PIPE, text=True, errors="replace")
    limit = threading.Timer(limit_s, job.kill)
    limit.start()
    assert job.stderr is not None
    try:
        said = [(time.monotonic(), line.rstrip("\n")) for line in job.stderr]
        return said, job.wait(limit_s)
    finally:
        limit.cancel()
        job.kill()


def made_nccl(build: Path, folder: Path, *, linked: bool) -> Path:
    """What stands for NCCL: our CPU library, or that behind one with faults of its own."""
    nccl, cpu = folder / "libnccl.so.2", build / "lib" / "libbusbw_cpu.so"
    if not linked:
        shutil.copy(cpu, nccl)
        return nccl
    source = str(Path(__file__).with_name("linked_nccl.c"))
    words = ["cc", "-shared", "-fPIC", "-O1", "-o", str(nccl), source, "-ldl"]
    done = ask(words, 120.0)
    if done.returncode != 0:
        raise SystemExit(f"the compiler refused {source}: {done.stderr}")
    return nccl


@contextmanager
def proxy(wanted: bool) -> Iterator[dict[str, str]]:
    """A process that sends back what it gets, and its number, so that it can be stopped."""
    if not wanted:
        yield {}
        return
    door = socket.create_server(("127.0.0.1", 0), backlog=128)
    pid = os.fork()
    if pid == 0:
        try:
            while True:
                threading.Thread(target=_echo, args=(door.accept()[0],), daemon=True).start()
        finally:
            os._exit(0)
    try:
        yield {"LINK_PORT": str(door.getsockname()[1]), "PROXY": str(pid)}
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        door.close()


def _echo(link: socket.socket) -> None:
    while data := link.recv(1 << 16):
        link.sendall(data)


if __name__ == "__main__":
    sys.exit(main())
