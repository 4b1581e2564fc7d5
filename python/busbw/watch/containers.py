"""Processes of containers on this machine: a recording has their number as the container counts it."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from pathlib import Path

_AGAIN_S = 1.0
_MOST = 1 << 16
_MAX_STATUS = 1 << 16
_MAX_MAPS = 16 << 20
_INITIAL = 0xEFFFFFFC
"""The kernel's number of the PID namespace in which every process of the machine is seen."""
_MIX, _SEED, _WORD = 0xC6A4A7935BD1E995, 0xC70F6907, (1 << 64) - 1


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


@lru_cache(maxsize=1)
def boot_here() -> int:
    """This machine's start as recordings have it: the kernel's word, hashed by libstdc++; else 0."""
    try:
        return hash_of(Path("/proc/sys/kernel/random/boot_id").read_bytes().rstrip(b"\n"))
    except OSError:
        return 0


def hash_of(word: bytes) -> int:
    """MurmurHash64A."""
    found = _SEED ^ len(word) * _MIX & _WORD
    for at in range(0, len(word), 8):
        part = int.from_bytes(word[at : at + 8], "little")
        if at + 8 <= len(word):
            part = part * _MIX & _WORD
            part = (part ^ part >> 47) * _MIX & _WORD
        found = (found ^ part) * _MIX & _WORD
    found = (found ^ found >> 47) * _MIX & _WORD
    return found ^ found >> 47


class Numbers:
    """Which process here has which number in its own PID namespace.

    /proc is read where a file is asked for that was not known before, as its process may end soon; else once a second.
    """

    def __init__(self) -> None:
        self._known: dict[int, list[int]] = {}
        self._asked: set[Path] = set()
        self._next = 0.0

    def here(  # noqa: PLR0913, PLR0917 - all that a recording says of where its process is
        self, file: Path, host: str, namespace: int, pid: int, start: int, boot: int = 0
    ) -> int | None:
        """The number here of the process that has `pid` there and began at `start`; None where nothing is known of it.

        Where its host has another name than this one, the file in its memory shows that it is the one. Of one that has
        ended before anybody looked the number is that of nobody with `start`: where others of its namespace are seen,
        or where the machine is this one, by `boot`, and all of its processes are seen from here.
        """
        is_by_name = host == os.uname().nodename
        found = self._find(file, namespace, pid, start, is_by_name=is_by_name)
        is_due = file not in self._asked or time.monotonic() >= self._next
        self._asked.add(file)
        if found is None and is_due:
            self._known = _read_all()
            self._next = time.monotonic() + _AGAIN_S
            found = self._find(file, namespace, pid, start, is_by_name=is_by_name)
            if found is None and is_by_name and self._has_ended(namespace, pid, start):
                return pid
            if found is None and boot and boot == boot_here() and self._is_nowhere(file, pid, start):
                return pid
        return found

    def _find(self, file: Path, namespace: int, pid: int, start: int, *, is_by_name: bool) -> int | None:
        for each in self._known.get(pid, ()):
            if begun_at(each) == start and _namespace_of(str(each)) == namespace:
                return each if is_by_name or _has_in_memory(each, file) else None
        return None

    def _has_ended(self, namespace: int, pid: int, start: int) -> bool:
        """Others of its namespace are seen, and nobody is there that could be this one."""
        if begun_at(pid) == start or any(begun_at(each) == start for each in self._known.get(pid, ())):
            return False
        return any(_namespace_of(str(each)) == namespace for those in self._known.values() for each in those)

    def _is_nowhere(self, file: Path, pid: int, start: int) -> bool:
        """No process of the machine can be this one: a time namespace may give it another start."""
        if _namespace_of("self") != _INITIAL or begun_at(1) is None or begun_at(pid) == start:
            return False
        return not any(begun_at(each) == start or _has_in_memory(each, file) for each in self._known.get(pid, ()))


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
