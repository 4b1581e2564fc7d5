"""Ends with those that started us: which processes above this one are waiting for it, and whether they still live.

The engine's half is engine/platform/lifeline.h; both follow the same rule. Linux only: elsewhere nobody is watched.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from busbw.base.errors import UserError

VARIABLE = "BUSBW_PARENT"
"""`BOOT/PIDNAMESPACE/PID.START,...`: on whose behalf the processes below run."""

LONGEST = 16
FOREGROUND = ("mpirun", "mpiexec", "orterun", "prterun", "torchrun", "python", "pt_", "busbw")
"""What a person starts in a shell and waits for, as the kernel names it."""
DAEMONS = (
    "slurmstepd", "slurmd", "orted", "prted", "prte", "hydra", "pmi", "sge_", "shepherd", "flux", "pbs_", "condor",
    "pals", "apinit", "sshd", "systemd", "tini", "dumb-init", "docker-init", "containerd", "conmon", "crond", "cron",
    "atd", "screen", "SCREEN", "tmux", "dtach", "supervisord", "init", "catatonit", "raylet", "kubelet", "runc", "crun",
    "s6-",
)  # fmt: skip
"""What never had a shell above, or was made to outlive it: daemons that start ranks, and what adopts programs."""
_LAUNCHER_S, _WRAPPER_S = 600.0, 10.0

LOOK_EVERY_S = 0.5
ENDED = 130
"""The exit code of a process that ends because those above it have: as after Ctrl-C."""


class Stat(NamedTuple):
    """A living process: its parent, its session, and its start in clock ticks after boot."""

    parent: int
    session: int
    start: int


def _read(path: str) -> bytes:
    # Not by pathlib: every command comes by here, and pathlib takes as long to import as all of this.
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read()


_PF_EXITING, _PF_SIGNALED, _SIGKILL = 0x4, 0x400, 1 << 8
_MOST_THREADS = 4096


def thread_lives(fields: list[bytes]) -> bool:
    """What /proc/PID/task/TID/stat says from the state on; one that was killed and still ends does not live."""
    return (
        fields[0] not in (b"Z", b"X")
        and not int(fields[6]) & (_PF_EXITING | _PF_SIGNALED)
        and not int(fields[28]) & _SIGKILL
    )


def _is_over(pid: int, fields: list[bytes]) -> bool:
    """Whether a process has ended: where its first thread has, another may live on (include/busbw/other_threads.h)."""
    if fields[0] != b"Z":
        return fields[0] == b"X"
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task")[:_MOST_THREADS]:  # noqa: PTH208
            with suppress(OSError, ValueError, IndexError):
                if thread_lives(_read(f"/proc/{pid}/task/{thread}/stat").rpartition(b")")[2].split()):
                    return False
    return True


def stat_of(pid: int) -> Stat | None:
    """What /proc/PID/stat says; None where there is no such process or it is a zombie."""
    try:
        fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        return None if _is_over(pid, fields) else Stat(int(fields[1]), int(fields[3]), int(fields[19]))
    except (OSError, ValueError, IndexError):
        return None


def has_ended(pid: int, start: int) -> bool:
    """Whether the process that began then has ended; without a free descriptor the kernel knows who lives."""
    try:
        fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        return _is_over(pid, fields) or int(fields[19]) != start
    except (OSError, ValueError, IndexError):
        pass
    with suppress(PermissionError):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
    return False


def ignores_hangup(pid: int) -> bool:
    """Whether the process was told to outlive its terminal, as by nohup."""
    with suppress(OSError, ValueError):
        for line in _read(f"/proc/{pid}/status").splitlines():
            if line.startswith(b"SigIgn:"):
                return bool(int(line[7:], 16) >> (signal.SIGHUP - 1) & 1)
    return False


def _command(pid: int) -> str:
    """The name of a process, at most 15 characters."""
    with suppress(OSError):
        return _read(f"/proc/{pid}/comm").decode(errors="replace").strip()
    return ""


def had_a_shell(command: str, ours: bool, head_start: float) -> bool:
    """Whether a process whose parent and leader of its session have both gone lost them to a kill while it started.

    A daemon looks alike, but has a known name, is another user's or began more than `head_start` seconds before us.
    """
    if command.startswith(FOREGROUND):
        return head_start < _LAUNCHER_S
    return (ours or command in {"sudo", "su"}) and not command.startswith(DAEMONS) and head_start < _WRAPPER_S


def _is_ours(pid: int) -> bool:
    with suppress(OSError):
        return os.stat(f"/proc/{pid}").st_uid == os.geteuid()  # noqa: PTH116
    return False


def _head_start(pid: int) -> float:
    theirs, ours = stat_of(pid), stat_of(os.getpid())
    return (ours.start - theirs.start) / os.sysconf("SC_CLK_TCK") if theirs and ours else 0.0


def _is_adopted() -> bool:
    """Whether this rank's parent adopts orphans: nobody above is of the session that this one was born in."""
    session, parent = os.getsid(0), os.getppid()
    above = stat_of(parent)
    if session <= 0 or above is None:
        return False
    if session == os.getpid():
        return parent == 1 and not _command(1).startswith(FOREGROUND)
    for _ in range(LONGEST):
        if above is None or above.session == session:
            break
        above = stat_of(above.parent) if above.parent else None
    return above is None


def _place() -> str:
    """Where process numbers mean what they mean here; empty where that cannot be told."""
    try:
        boot = _read("/proc/sys/kernel/random/boot_id").decode("ascii").strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115
    except OSError:
        return ""


def named(environ: Mapping[str, str]) -> list[tuple[int, int]]:
    """The processes that BUSBW_PARENT names, by number and start; none where it was written elsewhere."""
    place, _, listed = environ.get(VARIABLE, "").rpartition("/")
    if not place or place != _place():
        return []
    try:
        pairs = [entry.partition(".") for entry in listed.split(",")[:LONGEST]]
        return [(int(pid), int(start)) for pid, _, start in pairs]
    except ValueError:
        return []


def setting(environ: Mapping[str, str]) -> dict[str, str]:
    """What a child's environment gets, so that it ends with us and with those on whose behalf we run."""
    here, me = _place(), stat_of(os.getpid())
    if not here or me is None:
        return {}
    pairs = [*begin(environ).watched.items(), (os.getpid(), me.start)]
    return {VARIABLE: f"{here}/{','.join(f'{pid}.{start}' for pid, start in pairs)}"}


class Lifeline:
    """Those above this process that wait for it: its ancestors up to the leader of their session."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.watched: dict[int, int] = dict(named(environ))
        self._orphaned: int | None = None  # who had ended before it could be watched
        self._of_rank = False
        if ignores_hangup(os.getpid()):
            return
        if not self.watched and os.getsid(0) != os.getpid():
            self._climb(os.getppid())
        for pid in list(self.watched):
            self._climb(pid)

    def _climb(self, pid: int) -> int:
        """Watch this one and those above it in its session; the topmost of them."""
        first, below = stat_of(pid), 0
        for _ in range(LONGEST):
            found = stat_of(pid) if pid > 1 else None
            if found is None or first is None or found.session != first.session:
                break
            self.watched[pid] = found.start
            if pid == found.session or ignores_hangup(pid):
                return pid
            below, pid = pid, found.parent
        # Its shell was killed while it started. A launcher that is a daemon by nature (slurmstepd) always looks so.
        session = first.session if first else 0
        alone = below and session > 1 and stat_of(session) is None
        if alone and had_a_shell(_command(below), _is_ours(below), _head_start(below)):
            self._orphaned = session
        return below

    def add_launcher(self) -> None:
        """For a rank: watch its launcher too, which may have given it a session of its own, as torchrun does."""
        self._of_rank = True
        top = self._climb(os.getppid())
        found = stat_of(top) if top else None
        # Hydra's proxy has a session of its own; on the host of its mpiexec that one is right above it.
        if found is not None and _command(top).startswith("hydra") and _command(found.parent).startswith(FOREGROUND):
            self._climb(found.parent)

        if _is_adopted():
            self._orphaned = os.getppid()

    def gone(self) -> int | None:
        """The number of one that has ended, or None."""
        if self._orphaned is not None and self._of_rank:
            return self._orphaned
        for pid, start in self.watched.items():
            if has_ended(pid, start):
                return pid
        return None


_first: dict[int, Lifeline] = {}


def begin(environ: Mapping[str, str]) -> Lifeline:
    """Look now, once for each process, whom to watch: later it might have ended already."""
    me = os.getpid()
    if me not in _first:
        _first[me] = Lifeline(environ)
    return _first[me]


def is_orphan() -> bool:
    """Whether those who started this process ended before it could watch them, and it was not told to outlive them."""
    session, parent = os.getsid(0), stat_of(os.getppid())
    if parent is not None and parent.session == session:
        return False
    alone = session > 1 and session != os.getpid() and stat_of(session) is None
    # Where /proc tells nothing of us either, no descriptor is left.
    return alone and stat_of(os.getpid()) is not None and not ignores_hangup(os.getpid())


def refuse_orphans() -> None:
    """End where those who started this process have ended, unless it was told to outlive them."""
    if begin(os.environ).gone() is not None or is_orphan():
        raise UserError("the shell or program that started this measurement has ended; start it under nohup")


def hold(environ: Mapping[str, str], end: Callable[[int], object] = os._exit) -> None:
    """End this process within a second of those above it: for ranks that are written in Python."""
    line, parent = begin(environ), os.getppid()
    if not ignores_hangup(os.getpid()):
        line.add_launcher()

    def watch() -> None:
        while line.gone() is None and os.getppid() == parent:
            time.sleep(LOOK_EVERY_S)
        end(ENDED)

    import threading

    threading.Thread(target=watch, name="busbw lifeline", daemon=True).start()


PR_SET_PDEATHSIG, PR_GET_PDEATHSIG = 1, 2
_TAKEN = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCONT, signal.SIGCHLD, signal.SIGPROF)


def ends_with_parent(number: int = signal.SIGKILL) -> Callable[[], None]:
    """What a new child does to itself, before it becomes another program: the signal comes when we are gone.

    The kernel sends it when the thread that started the child ends, so that thread has to wait for the child.
    """
    prctl, parent = _prctl(), os.getpid()  # before the fork, where locks are still sound

    def prepare() -> None:
        if prctl is not None:
            prctl(PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # gone before it could be asked for
            os._exit(1)

    return prepare


def end_with(parent: int) -> None:
    """In a worker of a pool: end with the process that this one works for; Ctrl-C is that one's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prctl = _prctl()
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if stat_of(parent) is None and prctl is not None:
        os._exit(1)


def end_with_shell() -> None:
    """When the shell above has ended, unwind and exit with 130; who starts ranks takes SIGCONT over, to end them first.

    No thread looks: the kernel wakes us when our parent's thread ends, which need not be its process.
    """
    prctl = _prctl()
    if prctl is None or threading_beside():
        return

    def look(_number: int, _frame: object) -> None:
        # Also one whose shell was killed before it could be watched: what a verb imports may take seconds.
        if begin(os.environ).gone() is not None or is_orphan():
            raise SystemExit(ENDED)

    signal.signal(signal.SIGCONT, look)
    _ask_for_signal_of_parent(prctl)
    look(0, None)


def outlive_shell() -> None:
    """From here on the end of those above is no reason to end: what they were asked to run begins."""
    refuse_orphans()
    if _prctl() is not None and not threading_beside():
        signal.signal(signal.SIGCONT, signal.SIG_DFL)


def _ask_for_signal_of_parent(prctl: Callable[..., int]) -> None:
    """Be woken when our parent's thread ends. What the parent itself asked for (unshare --kill-child) stays.

    A parent outside of this PID namespace cannot be watched by its number: there the signal itself ends us.
    """
    import ctypes

    asked_for = ctypes.c_int(0)
    if prctl(PR_GET_PDEATHSIG, ctypes.byref(asked_for)) == 0 and asked_for.value not in (0, signal.SIGCONT):
        return
    outside = os.getppid() == 0 and not ignores_hangup(os.getpid())
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM if outside else signal.SIGCONT)


def take_signals() -> None:
    """Unblock what whoever started us may have blocked: nothing could end us. Process 1 gets no default action."""
    if threading_beside():
        return
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _TAKEN)
    if os.getpid() != 1:
        return

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, end)


def threading_beside() -> bool:
    """Whether this is not the main thread, where signals cannot be handled."""
    import threading

    return threading.current_thread() is not threading.main_thread()


def _prctl() -> Callable[..., int] | None:
    import ctypes

    found: Callable[..., int] | None = getattr(ctypes.CDLL(None), "prctl", None)
    return found
