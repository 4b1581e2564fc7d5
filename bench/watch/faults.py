"""How often `busbw watch` is right about a job with a fault, and how soon, over our CPU library or NCCL on GPUs.

    python3 bench/watch/faults.py --build build --trials 5 --ranks 3,4,8 --seed 1
    python3 bench/watch/faults.py --build build --trials 1 --ranks 64 --steps 60
    python3 bench/watch/faults.py --build build --trials 1 --ranks 8 --faults pauses --pauses 300
    python3 bench/watch/faults.py --build build --trials 1 --library libnccl.so.2 --ranks 2 --steps 300 --jobs 4

With --library the ranks have a GPU each, and wait for each call. With --jobs so many trials run beside each other.
With --hosts each rank has a watcher of its own, which tell each other; each that speaks has to be right, and one must.

Each fault of python/tests/watch/job.py is tried so many times, at a random step or, where another process does it, at
any moment. A verdict is right if it is the only one, names rank 2 (of two ranks rank 1) and the cause, and the number
of the call where that is the cause. A healthy job and one with a pause of half the threshold must be left alone. So
must `pauses`, which is tried only where it is named: a long job, in which now one rank and now another pauses for half
the threshold. The delay counts from the fault, less the threshold where the job hangs. Exit code: 1 where a verdict was
wrong.
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
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from busbw.base.programs import ask, with_this_package  # noqa: E402

HANG_AFTER_S = 4.0
LIMIT_S = 240.0
LIMIT_ON_GPUS_S = 40.0
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
    "kill": Fault(("ank {faulty} (",), from_outside=True, hangs=False),
    "stop": Fault((HANGS, "rank {faulty} (", "the process is stopped"), from_outside=True),
    "debugger": Fault((HANGS, "rank {faulty} (", "the process is in a debugger"), from_outside=True),
    "memory": Fault(("ank {faulty} (",), hangs=False),
    "exception": Fault(("ank {faulty} (",), hangs=False),
    "exit": Fault(("ank {faulty} (",), hangs=False),
    "count": Fault(("another count: rank {faulty} (",), with_number=True, hangs=False),
    "type": Fault(("another type: rank {faulty} (",), with_number=True, hangs=False),
    "operator": Fault(("another operator: rank {faulty} (",), with_number=True, hangs=False),
    "collective": Fault(("another collective, root: rank {faulty} (",), with_number=True, hangs=False),
    "order": Fault((HANGS, "rank {faulty} (", "has left out #"), with_number=True),
    "skip": Fault((HANGS, "rank {faulty} (", "has left out #"), with_number=True),
    "group": Fault((HANGS, "but rank {faulty} (", "in a group of"), with_number=True),
    "sleep": Fault((HANGS, "rank {faulty} (", "did not call #"), with_number=True),
    "busy": Fault((HANGS, "rank {faulty} (", "did not call #", "Since then it has used "), with_number=True),
    "inside": Fault((HANGS, "in it rank {faulty} (", "computes ("), with_number=True),
    "link": Fault((HANGS, "Connections stand still: rank {faulty} (",), with_number=True),
}  # fmt: skip
ON_GPUS = {
    **{name: FAULTS[name] for name in ("none", "pause", "stop", "order", "skip", "sleep", "busy")},
    # The others wait on the GPU, for ever: nothing but the watcher ends such a job.
    # Under MPS the loss of a client ends the others.
    "kill": Fault(("ank {faulty} (", "without a word"), from_outside=True),
    "memory": Fault((HANGS, "ank {faulty} (", "the process has exited")),
    "exception": Fault((HANGS, "ank {faulty} (", "the process has exited")),
    "exit": Fault((HANGS, "ank {faulty} (", "the process has exited")),
    "count": Fault((HANGS, "another count: rank {faulty} ("), with_number=True),
    "collective": Fault((HANGS, "another collective, root: rank {faulty} ("), with_number=True),
    "debugger": FAULTS["debugger"],
    "group": Fault((HANGS, "but rank {faulty} (", "in a group of"), with_number=True),
    "spin": Fault((HANGS, "rank {faulty} (", "its GPU has not begun it"), with_number=True),
    "spinning": Fault((HANGS, "rank {faulty} (", "its GPU has not begun it"), with_number=True),
}
"""Over NCCL: without what it does not notice, and with a kernel that never ends, in a job that does nothing else and in
one whose steps take 2 ms."""
COUNT_ON_GPUS = 1 << 22
"""Elements of a call, so that ranks with other counts do not end by chance."""


@dataclass(frozen=True)
class Setting:
    """What one trial is, drawn before any of them begins; none begins after `end`."""

    build: Path
    library: Path | None
    name: str
    ranks: int
    steps: int
    after_s: float
    end: float
    hosts: bool = False


@dataclass
class Trial:
    """One job; `why` it was wrong, or ""."""

    why: str
    delay_s: float | None


def main() -> int:
    """Options as in the text above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder of the build")
    parser.add_argument("--trials", type=int, default=5, help="of each fault")
    parser.add_argument("--library", type=Path, help="an NCCL, with a GPU for each rank")
    parser.add_argument("--hosts", action="store_true", help="a watcher for each rank, with a shared folder")
    parser.add_argument("--jobs", type=int, default=1, help="trials beside each other")
    parser.add_argument("--ranks", default="3,4,5,8", help="one of these each time")
    parser.add_argument("--steps", type=int, default=300, help="a job has from 9 to so many")
    parser.add_argument("--faults", help="names of faults; default all")
    parser.add_argument("--pauses", type=int, default=100, help="of a job with many")
    parser.add_argument("--seconds", type=float, default=1e9, help="no trial begins later")
    parser.add_argument("--seed", type=int, default=1, help="of the moments and the numbers of ranks")
    args = parser.parse_args()
    chance = random.Random(args.seed)
    end = time.monotonic() + args.seconds
    usual = [name for name in (ON_GPUS if args.library else FAULTS) if name != "pauses"]
    found: dict[str, list[Trial]] = {name: [] for name in (args.faults.split(",") if args.faults else usual)}
    with ThreadPoolExecutor(args.jobs) as workers:
        under_way = []
        for _ in range(args.trials):
            for name, trials in found.items():
                ranks = int(chance.choice(args.ranks.split(",")))
                steps, after_s = chance.randrange(9, max(10, args.steps)), chance.uniform(0.0, 1.0)
                if name == "pauses":
                    steps = args.pauses * STEPS_A_PAUSE
                place = (args.build.resolve(), args.library, name, ranks)
                setting = Setting(*place, steps, after_s, end, args.hosts)
                under_way.append((trials, setting, workers.submit(tried, setting)))
        for trials, setting, running in under_way:
            if (trial := running.result()) is None:
                continue
            trials.append(trial)
            if trial.why:
                what = f"{setting.name} in {setting.ranks} ranks and {setting.steps} steps"
                print(f"wrong: {what}: {trial.why}", flush=True)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors, ranks {args.ranks}, seed {args.seed}")
    for name, trials in found.items():
        delays = sorted(trial.delay_s for trial in trials if trial.delay_s is not None and not trial.why)
        late = f"; delay median {median(delays):.1f} s, longest {delays[-1]:.1f} s" if delays else ""
        print(f"{name:10} {sum(not trial.why for trial in trials):3} of {len(trials)} right{late}")
    every = [trial for trials in found.values() for trial in trials]
    wrong = sum(bool(trial.why) for trial in every)
    print(f"{len(every) - wrong} right, {wrong} wrong")
    return int(wrong > 0)


def tried(setting: Setting) -> Trial | None:
    """Run the job under the watcher and read what that says, as it comes; None where it is too late to begin."""
    if time.monotonic() > setting.end:
        return None
    build, name, ranks, library = setting.build, setting.name, setting.ranks, setting.library
    fault = (ON_GPUS if library else FAULTS)[name]
    faulty = min(2, ranks - 1)
    # It has to be running still when the moment comes.
    steps = 1_000_000 if fault.from_outside else setting.steps
    with tempfile.TemporaryDirectory() as folder, proxy(name == "link") as proxied:
        environ = {
            **with_this_package(os.environ), **proxied, "BUSBW_ENGINE": str(build / "bin" / "busbw-engine"),
            "PAUSE_S": str(HANG_AFTER_S / 2), "REAL_CPU": str(build / "lib" / "libbusbw_cpu.so"),
            "FAULTY": str(faulty),
        }  # fmt: skip
        if library:
            nccl = library.resolve()
            environ |= {"GPUS": "1", "COUNT": str(COUNT_ON_GPUS)}
        else:
            nccl = made_nccl(build, Path(folder), linked=name in {"link", "inside"})
        if fault.from_outside:
            environ["FAULT_AFTER_S"] = str(setting.after_s)
        limit_s = LIMIT_S + (2 * HANG_AFTER_S * steps / STEPS_A_PAUSE if name == "pauses" else 0.0)
        if library:
            limit_s = LIMIT_ON_GPUS_S
        job = [sys.executable, str(ROOT / "python/tests/watch/job.py"), str(nccl), str(ranks), str(steps), name, folder]
        options = ["--late", "1000s", "--hang-after", f"{HANG_AFTER_S:g}", "--on-hang", "abort"]
        watch = [sys.executable, "-m", "busbw", "watch", *options]
        if setting.hosts:
            share = ["--share", str(Path(folder) / "share"), "--", *job]
            everybody = [[*watch, *share, str(first), str(first + 1)] for first in range(ranks)]
        else:
            everybody = [[*watch, "--", *job]]
        with ThreadPoolExecutor(ranks) as listeners:
            heards = list(listeners.map(lambda words: heard(words, environ, limit_s), everybody))
        begun = Path(folder) / "fault"
        happened = float(begun.read_text()) if begun.exists() else None
    number = f"#{steps * 2 // 3 + 1:,}"
    if setting.hosts:
        fault = on_hosts(fault)
    judgements = [judged(fault, faulty, number, said, code, happened) for said, code in heards]
    if not setting.hosts or not fault.said:
        return next((each for each in judgements if each.why), judgements[0])
    # A host whose rank has ended may have nothing to say.
    spoken = [each for each, (said, _) in zip(judgements, heards, strict=True) if verdicts_of(said)]
    return max(spoken or judgements, key=lambda each: (each.why, each.delay_s or 0.0))


def on_hosts(fault: Fault) -> Fault:
    """A host whose only rank has ended says why its job failed, where the others wait and say so."""
    said = tuple("has exited" if words == "the process has exited" else words for words in fault.said)
    return replace(fault, said=tuple(words for words in said if words != HANGS))


def verdicts_of(said: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """The lines that accuse somebody."""
    return [each for each in said if each[1].startswith(("busbw watch: no progress", "busbw watch: the job"))]


def judged(  # noqa: PLR0913, PLR0917 - all that is known of one trial
    fault: Fault, faulty: int, number: str, said: list[tuple[float, str]], code: int, happened: float | None
) -> Trial:
    """Whether what was said is right, and how late it came."""
    verdicts = verdicts_of(said)
    lines = [line for _, line in verdicts]
    if not fault.said:
        return Trial("" if not lines and code == 0 else f"exit code {code}, {lines}", None)
    wanted = [words.format(faulty=faulty) for words in fault.said]
    if len(lines) != 1 or not all(words in lines[0] for words in wanted):
        return Trial(f"exit code {code}, {lines or said[-5:]}", None)
    if fault.with_number and number not in lines[0]:
        return Trial(f"no {number} in {lines}", None)
    hangs = fault.hangs and lines[0].startswith("busbw watch: no progress")
    delay_s = verdicts[0][0] - happened - (HANG_AFTER_S if hangs else 0) if happened else None
    return Trial("", delay_s)


def heard(words: list[str], environ: dict[str, str], limit_s: float) -> tuple[list[tuple[float, str]], int]:
    """Lines of stderr with the moment when each came, and the exit code."""
    job = subprocess.Popen(
        words, env=environ, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True
    )

    def end() -> None:
        """With the ranks, which would go on for ever."""
        with suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)

    limit = threading.Timer(limit_s, end)
    limit.start()
    assert job.stderr is not None
    try:
        said = [(time.monotonic(), line.rstrip("\n")) for line in job.stderr]
        return said, job.wait(limit_s)
    finally:
        limit.cancel()
        end()
        job.wait()


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
