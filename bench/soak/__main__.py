"""Measures, kills, imports and reports in a loop, and says what was left behind: descriptors, processes, files, memory.

usage: python bench/soak [--minutes M] [--seed N] [--engine FILE] [--slack TIMES] [--only LAUNCHER ...]

One process does all that the Python half does in itself, and makes and destroys communicators of the CPU library, so
that what either half loses adds up in it. Measurements are processes of their own; half of them are killed, in the ways
of tools/kill_trials: under each launcher of this machine in turn, at a random moment, a random signal to a random
process. As root it runs in namespaces of its own, with an empty /tmp and /dev/shm, so that it counts what it left and
nothing of others.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib.machinery
import importlib.util
import io
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tools")]

from kill_launchers import PROBE_SIZES, SIZES, Launcher, installed, slurm  # noqa: E402

from busbw.cli.main import main as busbw  # noqa: E402


def kill_trials() -> ModuleType:
    """The tool of that name, which has no suffix."""
    path = str(ROOT / "tools" / "kill_trials")
    loader = importlib.machinery.SourceFileLoader("kill_trials", path)
    spec = importlib.util.spec_from_file_location("kill_trials", path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["kill_trials"] = module
    loader.exec_module(module)
    return module


trials = kill_trials()

WARM_S = 60.0
"""What is loaded and kept for good is there by then."""
MOST_GROWTH_MIB = 16
MOST_S = 300.0
MARK = f"{trials.MARK}={os.getpid()}.".encode()
"""In the environment of every process of a trial."""
_COLUMNS = "time algbw busbw #wrong"
HEAD = f"# nThread 1 nGpus 2 minBytes 8 maxBytes 8\n# size  count  type  redop  root  {_COLUMNS}  {_COLUMNS}\n"
ROW = "{:>9.0f}  1048576  float  sum  -1  {t:8.2f}  1.00  1.00  0  {t:8.2f}  1.00  1.00  0\n"


@dataclass(frozen=True)
class Held:
    """What this machine and this process hold at one moment."""

    descriptors: int
    threads: int
    resident_mib: int
    processes: int
    files: frozenset[str]
    sockets: int

    def __str__(self) -> str:
        return (
            f"{self.descriptors} descriptors, {self.threads} threads, {self.resident_mib} MiB, {self.processes} "
            f"processes of ours, {len(self.files)} files in /dev/shm and /tmp, {self.sockets} sockets"
        )


def ours() -> list[int]:
    """Processes that were started from here, whoever their parent is now; the dead that nobody has buried too."""
    found = []
    for each in Path("/proc").iterdir():
        if not each.name.isdigit() or int(each.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if MARK in (each / "environ").read_bytes():
                found.append(int(each.name))
    return found


def held() -> Held:
    words = Path("/proc/self/statm").read_text().split()
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    named = {str(path) for folder in ("/dev/shm", "/tmp") for path in Path(folder).glob("*busbw*")}
    return Held(
        descriptors=sum(1 for _ in Path("/proc/self/fd").iterdir()),
        threads=threading.active_count(),
        resident_mib=int(words[1]) * os.sysconf("SC_PAGE_SIZE") >> 20,
        processes=len(ours()),
        files=frozenset(named),
        sockets=Path("/proc/net/unix").read_text().count("@busbw"),
    )


class Soak:
    """The things that are done again and again, by name."""

    def __init__(self, folder: Path, engine: Path, seed: int, slack: float) -> None:
        self.folder, self.engine = folder, engine
        self.chance = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.bad: list[str] = []
        os.environ.update(BUSBW_RUNS=str(folder / "runs"), BUSBW_ENGINE=str(engine), PYTHONPATH=str(ROOT / "python"))
        self.configuration: str | None = None
        self.launchers: list[Launcher] = []
        self.tally = trials.Tally(slack=slack)
        self.log = folder / "table.log"
        self.record = folder / "kept.jsonl"
        self.cpu = ctypes.CDLL(str(engine.parent.parent / "lib" / "libbusbw_cpu.so"))

    def begin(self, configuration: str | None, only: list[str]) -> None:
        """Which launchers are tried: those of this machine."""
        self.configuration = configuration
        there = [each for each in installed(self.engine, configuration) if each.by_default]
        for launcher in there:
            if only and launcher.name not in only:
                continue
            if trials.works(launcher, self.folder, self.engine, configuration):
                self.launchers.append(launcher)
            else:
                self.bad.append(f"{launcher.name} does not measure even where nobody kills it")
        print(f"launchers: {', '.join(each.name for each in self.launchers)}", flush=True)

    def told(self, *words: str, codes: tuple[int, ...] = (0,)) -> None:
        """busbw in this process."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                code = busbw(list(words))
            except SystemExit as end:
                code = int(end.code or 0)
        if code not in codes:
            self.bad.append(f"busbw {' '.join(words)} ended with {code}: {said.getvalue()[-300:]}")

    def trial(self, launcher: Launcher) -> object:
        number = sum(self.done[name] for name in ("measure", "kill"))
        hit = self.chance.choice(trials.HITS)
        plan = trials.Plan(launcher, hit, trials.when(self.chance, 3.0), self.chance.random())
        return trials.Trial(number, plan, self.folder, self.engine, self.configuration)

    def forget(self, trial: object) -> None:
        """What the trial itself wrote."""
        for path in self.folder.glob(f"{trial.mark.partition('.')[2]}.*"):  # type: ignore[attr-defined]
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def measure(self) -> None:
        launcher = self.launchers[self.done["measure"] % len(self.launchers)]
        line = launcher.line.replace(SIZES, PROBE_SIZES).replace("--no-record", "")
        trial = self.trial(Launcher(launcher.name, line))
        trial.environment["BUSBW_RUNS"] = os.environ["BUSBW_RUNS"]  # type: ignore[attr-defined]
        code = trial.start().wait(MOST_S)  # type: ignore[attr-defined]
        if code != 0:
            said = trial.output.read_text(errors="replace")[-300:]  # type: ignore[attr-defined]
            self.bad.append(f"a measurement by {launcher.name} ended with {code}: {said}")
        self.forget(trial)

    def kill(self) -> None:
        trial = self.trial(self.launchers[self.done["kill"] % len(self.launchers)])
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            trials.attempt(trial, self.tally)
        if said.getvalue():
            self.bad.append(said.getvalue()[:600])
        self.forget(trial)

    def imports(self) -> None:
        rows = "".join(ROW.format(4.0 * 2**n, t=self.chance.uniform(5, 500)) for n in range(1, 25))
        self.log.write_text(HEAD + rows)
        self.told("import", str(self.log))
        self.record.unlink(missing_ok=True)
        self.told("import", str(self.log), "--output", str(self.record))

    def reports(self) -> None:
        self.told("report", str(self.record), "--format", self.chance.choice(["md", "text", "html", "csv"]),
                  "--output", str(self.folder / "report.out"))  # fmt: skip
        self.told("compare", str(self.record), str(self.record), "--allow-different")
        self.told("runs", "list")
        self.told("history", codes=(0, 1))
        self.told("doctor", "--log", str(self.log), codes=(0, 1, 3))

    def prune(self) -> None:
        """What was measured is deleted, so that a longer soak does not only have more to list."""
        # A measurement that was killed before its first line leaves an empty folder, which is no run.
        runs = sorted(each.parent.name for each in (self.folder / "runs").glob("[!.]*/record.jsonl"))
        if len(runs) > 20:
            self.told("runs", "delete", *runs[:-10], "--yes")

    def communicators(self) -> None:
        cpu = self.cpu
        comms = (ctypes.c_void_p * 2)()
        memory = ctypes.c_void_p()
        codes = [cpu.ncclCommInitAll(comms, 2, None), cpu.ncclMemAlloc(ctypes.byref(memory), ctypes.c_size_t(1 << 20)),
                 cpu.ncclMemFree(memory)]  # fmt: skip
        codes += [cpu.ncclCommDestroy(ctypes.c_void_p(each)) for each in comms]
        if any(codes):
            self.bad.append(f"the CPU library answered {codes}")

    def once(self) -> None:
        for name in ("imports", "reports", "communicators", "measure", "kill", "prune"):
            getattr(self, name)()
            self.done[name] += 1


APART = "BUSBW_SOAK_APART"
# Slurm looks names up only where an address is not 127.0.0.1, and Open MPI wants it on an interface of its own.
_NETWORK = (
    "ip link set lo up; ip link add v0 type veth peer name v1; ip address add 192.0.2.1/24 dev v0; "
    "ip link set v0 up; ip link set v1 up; "
)
_SETUP = f'{_NETWORK}mount -t tmpfs none /dev/shm && mount -t tmpfs none /tmp && exec "$@"'


def apart() -> str:
    """Begin again in namespaces of its own; returns only where that has happened or cannot be, and says which."""
    if os.environ.get(APART):
        return "in namespaces of its own"
    if any(part.is_relative_to("/tmp") for part in (ROOT, Path(sys.executable))):
        return "beside others: a file of it lies in /tmp"
    unshare = ["unshare", "--mount", "--net", "--ipc", "--pid", "--fork", "--mount-proc", "--kill-child"]
    try:
        if (
            subprocess.run([*unshare, "sh", "-c", _SETUP, "sh", "true"], capture_output=True, check=False).returncode
            == 0
        ):
            os.environ[APART] = "1"
            os.execvp(unshare[0], [*unshare, "sh", "-c", _SETUP, "sh", sys.executable, *sys.argv])
    except OSError:
        pass
    return "beside others: namespaces need root and unshare"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", type=Path, default=ROOT / "build" / "bin" / "busbw-engine")
    parser.add_argument("--slack", type=float, default=1.0, help="times the limits of kill_trials, for loaded machines")
    parser.add_argument("--only", nargs="*", default=[], help="launchers to try")
    args = parser.parse_args()
    print(f"soak: {apart()}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    soak = Soak(folder, args.engine, args.seed, args.slack)
    with slurm(not args.only or "slurm" in args.only) as configuration:
        soak.begin(configuration, args.only)
        first, last, minutes = loop(soak, args.minutes)
    shutil.rmtree(folder, ignore_errors=True)
    new = sorted(last.files - first.files)
    print(f"end:   {last}\n{dict(soak.done)} in {minutes:.1f} min; new files: {new}")
    trials.summary(soak.tally)
    for each in soak.bad[:20]:
        print("BAD", each)
    grown = last.resident_mib - first.resident_mib
    lost = last.descriptors > first.descriptors or last.threads > first.threads or last.sockets > first.sockets
    return int(bool(soak.bad or new or last.processes or lost or grown > MOST_GROWTH_MIB))


def loop(soak: Soak, minutes: float) -> tuple[Held, Held, float]:
    """What is held at the beginning and at the end, and how long that was."""
    start = shown = time.monotonic()
    first: Held | None = None
    while time.monotonic() - start < 60 * minutes or first is None:
        soak.once()
        now = time.monotonic()
        if first is None and now - start >= min(WARM_S, 30 * minutes):
            first = held()
            print(f"begin: {first}", flush=True)
        elif now - shown >= 60:
            shown = now
            print(f"{(now - start) / 60:5.1f} min: {held()}; {dict(soak.done)}; {len(soak.bad)} bad", flush=True)
    return first, held(), (time.monotonic() - start) / 60


if __name__ == "__main__":
    sys.exit(main())
