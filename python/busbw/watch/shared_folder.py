"""A folder that all hosts of a job see, with a file of each watcher: ours is written, those of others are read."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from busbw.base.errors import UserError
from busbw.watch.processes import GONE, Process, state_of
from busbw.watch.share import MAX_BYTES, Summary, decode, encode, shifted

SUFFIX = ".busbwshare"
MAX_FILES = 4096
MAX_TOGETHER = 256 << 20
"""Bytes of all files of one look."""
BEAT_NS = 1_000_000_000
"""A watcher writes at least so often while its program runs."""
SILENT_NS = 5_000_000_000
"""One that has written nothing for so long is said to be silent: its host, its link or itself is gone."""
_NAME = re.compile(r"([\w.-]{1,64})-(\d{1,20})-(\d{1,10})-(\d{1,20})\.busbwshare")


@dataclass
class _Other:
    """A file of another watcher: its last whole content, and when that was first seen."""

    stamp: tuple[int, ...]
    summary: Summary
    seen_ns: int


@dataclass
class SharedFolder:
    """Makes the folder where it is missing; UserError where others than its owner may write into it."""

    path: Path
    refused: dict[str, str] = field(default_factory=dict)
    _others: dict[str, _Other] = field(default_factory=dict)
    _file: int = -1
    _name: str = ""
    _written_ns: int = 0

    def __post_init__(self) -> None:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = self.path.stat()
            if found.st_uid != os.geteuid() or found.st_mode & 0o022:
                raise UserError(f"--share {self.path}: the folder must be yours, and others must not write into it")
            start = int(Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[19])
            host = re.sub(r"[^\w.-]", "_", os.uname().nodename)[:64] or "host"
            self._name = f"{host}-{_namespace()}-{os.getpid()}-{start}{SUFFIX}"
            self._clear(host)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(self.path / self._name, flags, 0o600)
        except OSError as error:
            raise UserError(f"--share {self.path}: {error.strerror}") from error

    def close(self, *, keep: bool) -> None:
        """`keep` leaves our last summary to watchers that end after us; the next watcher of this host takes it away."""
        os.close(self._file)
        if not keep:
            with suppress(OSError):
                (self.path / self._name).unlink()

    def is_due(self, now_ns: int) -> bool:
        """Whether our file has to be written again."""
        return now_ns - self._written_ns >= BEAT_NS

    def publish(self, summary: Summary) -> None:
        """Write our file in place, since a file system of a network shows new content sooner than a new name."""
        raw = encode(summary)
        if len(raw) > MAX_BYTES:
            raise UserError(f"--share {self.path}: a summary of {len(raw)} bytes is too long to be shared")
        try:
            at = 0
            while at < len(raw):
                at += os.pwrite(self._file, raw[at:], at)
            os.ftruncate(self._file, len(raw))
        except OSError as error:
            raise UserError(f"--share {self.path}: {error.strerror}") from error
        self._written_ns = summary.written_ns

    def others(self, now_ns: int) -> list[tuple[Summary, int]]:
        """The last whole summary of each other watcher, and for how long it has been the newest, in ns."""
        together = 0
        for name, path in self._names():
            try:
                raw, stamp = _read(path)
                together += len(raw)
                if together > MAX_TOGETHER:
                    raise UserError("all files together are too long; remove old ones")
                known = self._others.get(name)
                if known is None or known.stamp != stamp:
                    summary = decode(raw)
                    if known is None or known.summary != summary:
                        self._others[name] = _Other(stamp, summary, now_ns)
                self.refused.pop(name, None)
            except UserError as error:
                # What is being written now is whole at the next look; what stays so is told at the end.
                self.refused[name] = f"{path} is left out: {error}"
        return [(other.summary, now_ns - other.seen_ns) for other in self._others.values()]

    def processes(self, now_ns: int) -> list[Process]:
        """Of all other watchers, by our clock."""
        found = []
        for summary, age_ns in self.others(now_ns):
            silent = age_ns / 1e9 if age_ns > SILENT_NS and not summary.is_final else 0.0
            by = now_ns - age_ns - summary.written_ns
            found += [shifted(process, by, silent) for process in summary.processes]
        return found

    def _names(self) -> Iterator[tuple[str, Path]]:
        try:
            with os.scandir(self.path) as entries:
                names = [entry.name for _, entry in zip(range(MAX_FILES), entries, strict=False)]
        except OSError:
            return
        for name in sorted(names):
            if _NAME.fullmatch(name) and name != self._name:
                yield name, self.path / name

    def _clear(self, host: str) -> None:
        """What watchers of this host left that are gone."""
        for name, path in self._names():
            found = _NAME.fullmatch(name)
            if found and found[1] == host and found[2] == str(_namespace()):
                with suppress(OSError):
                    if state_of(int(found[3]), int(found[4])) == GONE and path.lstat().st_uid == os.geteuid():
                        path.unlink()


def _read(path: Path) -> tuple[bytes, tuple[int, ...]]:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
                raise UserError("it must be a file of yours that others cannot write")
            if found.st_size > MAX_BYTES:
                raise UserError(f"it has {found.st_size} bytes, more than a summary may have")
            raw = b""
            while len(raw) <= found.st_size and (part := os.read(file, found.st_size + 1 - len(raw))):
                raw += part
        finally:
            os.close(file)
    except OSError as error:
        raise UserError(error.strerror or "it cannot be read") from error
    return raw, (found.st_ino, found.st_mtime_ns, found.st_size)


def _namespace() -> int:
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def wait_for_others(folder: SharedFolder, limit_s: float) -> None:
    """Until every other watcher has written since now, or has ended; `limit_s` at most."""
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    before = {id(summary) for summary, _ in folder.others(now)}
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        if not any(id(summary) in before and not summary.is_final for summary, _ in folder.others(now)):
            return
        time.sleep(0.05)
