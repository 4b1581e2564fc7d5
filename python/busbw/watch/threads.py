"""What the threads of a process of this host do at the moment, as /proc says: in which call of the kernel, on what."""

from __future__ import annotations

import os
import platform
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from busbw.watch.links import connection_of

MAX_THREADS = 256
_MAX_CHILDREN = 4
_X86 = {
    "read": 0, "write": 1, "poll": 7, "ioctl": 16, "readv": 19, "writev": 20, "select": 23, "pause": 34,
    "nanosleep": 35, "connect": 42, "accept": 43, "sendto": 44, "recvfrom": 45, "sendmsg": 46, "recvmsg": 47,
    "vfork": 58, "wait4": 61, "semop": 65, "msgrcv": 70, "fcntl": 72, "flock": 73, "fsync": 74, "rt_sigtimedwait": 128,
    "rt_sigsuspend": 130, "futex": 202, "semtimedop": 220, "clock_nanosleep": 230, "epoll_wait": 232, "waitid": 247,
    "openat": 257, "pselect6": 270, "ppoll": 271, "epoll_pwait": 281, "accept4": 288,
}  # fmt: skip
_ARM = {
    "epoll_pwait": 22, "fcntl": 25, "ioctl": 29, "flock": 32, "openat": 56, "read": 63, "write": 64, "readv": 65,
    "writev": 66, "pselect6": 72, "ppoll": 73, "fsync": 82, "waitid": 95, "futex": 98, "nanosleep": 101,
    "clock_nanosleep": 115, "rt_sigsuspend": 133, "rt_sigtimedwait": 137, "msgrcv": 188, "semtimedop": 192,
    "accept": 202, "connect": 203, "sendto": 206, "recvfrom": 207, "sendmsg": 211, "recvmsg": 212, "accept4": 242,
    "wait4": 260,
}  # fmt: skip
_NAMES = {number: name for name, number in (_ARM if platform.machine() == "aarch64" else _X86).items()}
_ON_A_FILE = frozenset({
    "read", "write", "readv", "writev", "ioctl", "connect", "accept", "accept4", "sendto", "recvfrom", "sendmsg",
    "recvmsg", "fcntl", "flock", "fsync",
})  # fmt: skip
_MEANS = {
    "futex": "for a lock, a condition or another thread", "wait4": "for a child", "waitid": "for a child",
    "vfork": "for a child that has not come to exec", "nanosleep": "asleep", "clock_nanosleep": "asleep",
    "pause": "for a signal", "rt_sigsuspend": "for a signal", "rt_sigtimedwait": "for a signal",
    "poll": "for files or connections", "ppoll": "for files or connections", "select": "for files or connections",
    "pselect6": "for files or connections", "epoll_wait": "for files or connections",
    "epoll_pwait": "for files or connections", "semop": "for a semaphore", "semtimedop": "for a semaphore",
    "msgrcv": "for a message", "openat": "to open a file, such as a pipe that nobody else opens",
}  # fmt: skip


@dataclass(frozen=True)
class Thread:
    """One thread; the stack pointer and the place in its program are 0 where the kernel does not tell."""

    number: int
    name: str
    what: str
    stack: int = 0
    at: int = 0


def threads_of(pid: int) -> list[Thread]:
    """The first thread comes first; none where /proc does not tell."""
    numbers: list[int] = []
    with suppress(OSError), os.scandir(f"/proc/{pid}/task") as entries:
        numbers = sorted(int(entry.name) for _, entry in zip(range(MAX_THREADS), entries, strict=False))
    return [_thread(pid, number) for number in sorted(numbers, key=lambda each: (each != pid, each))]


def _thread(pid: int, number: int) -> Thread:
    folder = Path(f"/proc/{pid}/task/{number}")
    name, words = _first(folder / "comm", 64).strip(), _first(folder / "syscall", 400).split()
    letter = _first(folder / "stat", 1000).rpartition(")")[2].strip()[:1]
    if words == ["running"] or letter == "R":
        return Thread(number, name, "it runs in code of its own")
    place = (int(words[-2], 16), int(words[-1], 16)) if len(words) in {3, 9} else (0, 0)
    if len(words) == 9 and words[0] in map(str, _NAMES):
        call = _NAMES[int(words[0])]
        return Thread(number, name, f"it is in {call}{_on(pid, call, int(words[1], 16))}", *place)
    where = _first(folder / "wchan", 100)
    if where in {"", "0"}:
        return Thread(number, name, "it runs, or the kernel does not say where it waits", *place)
    return Thread(number, name, f"it waits in {where}", *place)


def _on(pid: int, call: str, argument: int) -> str:
    """What it waits for there: a file by its descriptor, or children by their names."""
    if call in _ON_A_FILE:
        with suppress(OSError):
            target = str(Path(f"/proc/{pid}/fd/{argument}").readlink())
            return f", of {_named(pid, target)}"
        return ""
    means = f", {_MEANS[call]}" if call in _MEANS else ""
    return means + _children(pid) if call in {"wait4", "waitid", "vfork"} else means


def _named(pid: int, target: str) -> str:
    kind = target.partition(":")[0]
    if kind == "pipe":
        return "a pipe"
    if kind == "socket":
        inode = re.sub(r"\D", "", target)
        return connection_of(pid, inode) or "a socket"
    return target


def _children(pid: int) -> str:
    numbers = _first(Path(f"/proc/{pid}/task/{pid}/children"), 4096).split()
    known = [f"pid {number}, {_first(Path(f'/proc/{number}/comm'), 64).strip()}" for number in numbers[:_MAX_CHILDREN]]
    return f" ({'; '.join(known)})" if known else ""


def _first(path: Path, most: int) -> str:
    try:
        with path.open("rb") as file:
            return file.read(most).decode(errors="replace")
    except OSError:
        return ""
