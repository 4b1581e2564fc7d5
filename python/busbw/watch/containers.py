"""Processes of containers on this machine: a recording has their number as the container counts it."""

from __future__ import annotations

import os
import time
from pathlib import Path

_AGAIN_S = 1.0
_MOST = 1 << 16
_MAX_STATUS = 1 << 16
_MAX_MAPS = 16 << 20


def begun_at(pid: int) -> int | None:
    """When a process began, in clock ticks after boot; None of one that is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def is_ours(host: str, namespace: int) -> bool:
    """Whether a process that so calls its host and has this PID namespace has the same number here."""
    if host != os.uname().nodename:
        return False
    return namespace == 0 or namespace == (_namespace_of("self") or namespace)


class Numbers:
    """Which process here has which number in its own PID namespace.

    /proc is read where a file is asked for that was not known before, as its process may end soon; else once a second.
    """

    def __init__(self) -> None:
        self._known: dict[int, list[int]] = {}
        self._asked: set[Path] = set()
        self._next = 0.0

    def here(self, file: Path, namespace: int, pid: int, start: int) -> int | None:
        """The number here of the process that has `pid` there, began at `start` and has the file in its memory."""
        found = self._find(file, namespace, pid, start)
        is_due = file not in self._asked or time.monotonic() >= self._next
        self._asked.add(file)
        if found is None and is_due:
            self._known = _read_all()
            self._next = time.monotonic() + _AGAIN_S
            found = self._find(file, namespace, pid, start)
        return found

    def _find(self, file: Path, namespace: int, pid: int, start: int) -> int | None:
        for each in self._known.get(pid, ()):
            if begun_at(each) == start and _namespace_of(str(each)) == namespace and _has_in_memory(each, file):
                return each
        return None


def _namespace_of(name: str) -> int:
    try:
        return Path(f"/proc/{name}/ns/pid").stat().st_ino
    except OSError:
        return 0


def _has_in_memory(pid: int, file: Path) -> bool:
    """By its name, as the container may have the folder in another place."""
    try:
        with Path(f"/proc/{pid}/maps").open("rb") as maps:
            return b"/" + os.fsencode(file.name) in maps.read(_MAX_MAPS)
    except OSError:
        return False


def _read_all() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    with os.scandir("/proc") as entries:
        names = [entry.name for _, entry in zip(range(_MOST), entries, strict=False) if entry.name.isdecimal()]
    for name in names:
        if number := _innermost(name):
            found.setdefault(number, []).append(int(name))
    return found


def _innermost(name: str) -> int:
    """A process's number in its own PID namespace; 0 where the kernel does not say."""
    try:
        with Path(f"/proc/{name}/status").open("rb") as file:
            after = file.read(_MAX_STATUS).partition(b"\nNSpid:")[2]
        return int(after.partition(b"\n")[0].split()[-1])
    except (OSError, IndexError, ValueError):
        return 0


NUMBERS = Numbers()
"""Of all recordings together: they ask about the same /proc."""
