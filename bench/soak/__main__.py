"""Measures, kills, imports and reports in a loop, and says what was left behind: descriptors, processes, files, memory.

usage: python bench/soak [--minutes M] [--seed N] [--engine FILE]

One process does all that the Python half does in itself, and makes and destroys communicators of the CPU library, so
that what either half loses adds up in it. Measurements are processes of their own; half of them are killed. As root it
runs in namespaces of its own, with an empty /tmp and /dev/shm, so that it counts what it left and nothing of others.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import io
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from busbw.cli.main import main as busbw  # noqa: E402

SMALL = ("all_reduce", "-b", "8", "-e", "64K", "-f", "4", "-n", "5", "-w", "1", "--library", "cpu")
WARM_S = 60.0
"""What is loaded and kept for good is there by then."""
MOST_GROWTH_MIB = 16
SETTLE_S = 10.0
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


def ours(mark: str) -> list[int]:
    """Processes that were started from here, whoever their parent is now; the dead that nobody has buried too."""
    found = []
    for each in Path("/proc").iterdir():
        if not each.name.isdigit() or int(each.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if mark.encode() in (each / "environ").read_bytes():
                found.append(int(each.name))
    return found


def held(mark: str) -> Held:
    words = Path("/proc/self/statm").read_text().split()
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    named = {str(path) for folder in ("/dev/shm", "/tmp") for path in Path(folder).glob("*busbw*")}
    return Held(
        descriptors=sum(1 for _ in Path("/proc/self/fd").iterdir()),
        threads=threading.active_count(),
        resident_mib=int(words[1]) * os.sysconf("SC_PAGE_SIZE") >> 20,
        processes=len(ours(mark)),
        files=frozenset(named),
        sockets=Path("/proc/net/unix").read_text().count("@busbw"),
    )


def as_in_a_terminal() -> None:
    """A shell in the background ignores Ctrl-C, and so would all below it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Soak:
    """The things that are done again and again, by name."""

    def __init__(self, folder: Path, engine: Path, seed: int, mark: str) -> None:
        self.folder, self.engine, self.mark = folder, engine, mark
        self.chance = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.bad: list[str] = []
        os.environ.update(BUSBW_RUNS=str(folder / "runs"), BUSBW_ENGINE=str(engine), PYTHONPATH=str(ROOT / "python"))
        self.environment = {**os.environ, "BUSBW_SOAK": mark}
        self.log = folder / "table.log"
        self.record = folder / "kept.jsonl"
        self.cpu = ctypes.CDLL(str(engine.parent.parent / "lib" / "libbusbw_cpu.so"))

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

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "busbw", *words]
        return subprocess.Popen(command, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                start_new_session=True, preexec_fn=as_in_a_terminal)  # noqa: PLW1509 # fmt: skip

    def measure(self) -> None:
        words = self.chance.choice([(*SMALL, "-t", "2"), ("run", "--ranks", "2", *SMALL)])
        code = self.start(*words).wait(300)
        if code != 0:
            self.bad.append(f"a measurement ended with {code}: {words}")

    def kill(self) -> None:
        words = self.chance.choice([(*SMALL, "-N", "500", "-t", "2"), ("run", "--ranks", "2", *SMALL, "-N", "500")])
        process = self.start(*words)
        time.sleep(self.chance.uniform(0.0, 3.0))
        process.send_signal(self.chance.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(SETTLE_S)
        end = time.monotonic() + SETTLE_S
        while ours(self.mark) and time.monotonic() < end:
            time.sleep(0.1)
        if left := ours(self.mark):
            self.bad.append(f"{len(left)} processes lived on {SETTLE_S:g} s after a signal to {words}")
            for each in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
        process.wait()

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
_SETUP = 'ip link set lo up; mount -t tmpfs none /dev/shm && mount -t tmpfs none /tmp && exec "$@"'


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
    args = parser.parse_args()
    print(f"soak: {apart()}", flush=True)
    mark = f"busbw-soak-{os.getpid()}"
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    soak = Soak(folder, args.engine, args.seed, mark)
    start = shown = time.monotonic()
    first: Held | None = None
    while time.monotonic() - start < 60 * args.minutes or first is None:
        soak.once()
        now = time.monotonic()
        if first is None and now - start >= min(WARM_S, 30 * args.minutes):
            first = held(mark)
            print(f"begin: {first}", flush=True)
        elif now - shown >= 60:
            shown = now
            print(f"{(now - start) / 60:5.1f} min: {held(mark)}; {dict(soak.done)}; {len(soak.bad)} bad", flush=True)
    last = held(mark)
    shutil.rmtree(folder, ignore_errors=True)
    new = sorted(last.files - first.files)
    print(f"end:   {last}\n{dict(soak.done)} in {(time.monotonic() - start) / 60:.1f} min; new files: {new}")
    for each in soak.bad[:20]:
        print("BAD", each)
    grown = last.resident_mib - first.resident_mib
    lost = last.descriptors > first.descriptors or last.threads > first.threads or last.sockets > first.sockets
    return int(bool(soak.bad or new or last.processes or lost or grown > MOST_GROWTH_MIB))


if __name__ == "__main__":
    sys.exit(main())
