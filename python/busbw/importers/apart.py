"""The later part of a large log of tables, read by a second process as if it knew all that stands above.

It begins a little before its part, so that it has seen the lines above, and counts the tables before. The first process
reads up to there. Only where it then stands exactly as the second one supposed, what that one read counts; else it is
thrown away and the first goes on alone. So what comes out is what one process would have given.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from busbw.base.effort import EFFORT
from busbw.base.lifeline import end_with
from busbw.importers.context import MAX_BLOCK_LINES
from busbw.importers.lines import MAX_UNPACKED
from busbw.importers.report import Told

if TYPE_CHECKING:
    from busbw.importers.reading import Reading

SECONDS_WORTH = 1.0
"""How long reading on must take at the speed so far, for a second process to pay."""
SECONDS_LOOKED = 0.1
"""How long the processors are watched before they are said to be idle."""
IDLE_CORES = 0.5
"""How much of a core has to be free."""
WARM_UP = 1 << 16
"""Bytes before its part that the second process reads at least, to know what stands above it."""
MORE = 1.25
"""So many times the bytes in which as many lines as are remembered stood at the beginning."""
FAR = 4 << 20
"""How far after the middle the end of a table is looked for."""
SECONDS_TO_FINISH = 600.0
"""How long the first process waits for the second, once it is done itself."""

_TABLE_ENDS = b"\n# Avg bus bandwidth"
_CHUNK = 1 << 20


class Part(Protocol):
    """Where the sweeps of a later part go until it is known that they count."""

    def enter(self) -> None:
        """In the second process: the sweeps of the part follow."""

    def leave(self) -> Any:
        """There, after the last: what the first process has to know, to be pickled."""

    def join(self, left: Any) -> None:
        """In the first process, after its own sweeps: those of the part count."""

    def close(self) -> None:
        """In the first process: whatever is still kept of the part goes."""


@dataclass(frozen=True)
class Known:
    """How a reader stands before a line, in short."""

    digest: bytes
    ordinal: int

    @classmethod
    def of(cls, reading: Reading) -> Known | None:
        """None where later lines may depend on more than can be compared."""
        standing = reading.standing()
        if standing is None:
            return None
        return cls(hashlib.sha256(repr(standing).encode("utf-8", "replace")).digest(), reading.ordinal)


@dataclass
class Result:
    """What the second process read."""

    report: Told
    ordinal: int
    tries: int
    too_long: list[int]
    left: Any


def is_possible() -> bool:
    """Whether there may be a second process on a core of its own."""
    return sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1


def idle_seconds() -> float:
    """How long the processors of this machine have been idle, all together; 0 where that is not told."""
    try:
        fields = Path("/proc/stat").read_bytes().split(b"\n", 1)[0].split()
        return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0


class Division:
    """Decides where a file is divided, starts the second process, and lets what it read count or not."""

    def __init__(self, reading: Reading, descriptor: int, part: Callable[[], Part]) -> None:
        self._reading = reading
        self._descriptor = descriptor
        self._make = part
        self._begun = self._looked = time.monotonic()
        self._idle = idle_seconds()
        state = os.fstat(descriptor)
        self._size = state.st_size
        self._is_over = not stat.S_ISREG(state.st_mode) or state.st_size > MAX_UNPACKED
        self._before = self._done = 0
        self._is_waiting = False
        self._later: _Later | None = None

    def cut(self, first: int, lines: list[str], start: int) -> int | None:
        """Where in a block, not before `start`, `at_cut` has to be asked; `first` is the number of its first line."""
        if self._is_over:
            return None
        if self._later is not None:
            at = self._later.line - first
            return at if start <= at <= len(lines) else None
        if start == 0:
            # What was read before this block.
            self._done, self._before = self._before, self._reading.source.taken
        if not self._is_waiting and not self._pays():
            return None
        self._is_waiting = True
        for at in range(start, len(lines)):
            if lines[at].startswith("# Avg bus bandwidth"):
                return at + 1
        return None

    def _pays(self) -> bool:
        now = time.monotonic()
        if now - self._looked < SECONDS_LOOKED:
            return False
        if (self._size - self._done) * (now - self._begun) < SECONDS_WORTH * max(1, self._done):
            self._is_over = True
            return False
        idle, seconds = idle_seconds(), now - self._looked
        is_idle = idle - self._idle >= IDLE_CORES * seconds
        self._looked, self._idle = now, idle
        return is_idle

    def at_cut(self, line: int) -> bool:
        """The first process stands before a line: a second one begins, or its part counts, and this one is done."""
        if self._later is None:
            self._is_waiting = False
            self._start(line)
            return False
        self._is_over = True
        result = self._later.result(Known.of(self._reading), self._reading.tries_left)
        if result is None:
            self.close()
            return False
        self._later.part.join(result.left)
        self._reading.goes_on_from(result.report, result.ordinal, result.too_long)
        self.close()
        return True

    def _start(self, line: int) -> None:
        known = Known.of(self._reading)
        here = _position_of(self._descriptor, line)
        where = None if known is None or here is None else _table_after(self._descriptor, _middle(here, self._size))
        # Lines that are not those of the file, such as those behind zeros, are never divided.
        if here is None or where is None or not self._reading.source.is_plain(self._descriptor):
            self._is_over = True
            return
        lines = line + _count(self._descriptor, here, where, b"\n")
        self._later = _Later(self._reading, self._descriptor, (here, where), lines, self._make())

    def close(self) -> None:
        """Nothing of a second process is left."""
        self._is_over = True
        if self._later is not None:
            self._later.close()
            self._later = None


class _Later:
    """The second process, seen from the first."""

    def __init__(self, reading: Reading, descriptor: int, span: tuple[int, int], line: int, part: Part) -> None:
        self.line = line
        self.part = part
        self._tries = reading.tries
        # Readers are single-threaded here, so a fork is sound and hands over all that was read so far.
        EFFORT.left /= 2  # half of what is left for each
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe(duplex=False)
        timer = signal.getitimer(signal.ITIMER_PROF)[0]
        words = (theirs, os.getpid(), timer, _Task(reading, descriptor, *span, line, part))
        self._process = context.Process(target=_work, args=words, daemon=True)
        self._process.start()
        theirs.close()

    def result(self, known: Known | None, tries_left: int) -> Result | None:
        """What the second process read, where it began with what is known now."""
        if known is None or self._received() != known:
            return None
        result = self._received()
        if not isinstance(result, Result) or not result.report.is_whole:
            return None
        return result if result.tries - self._tries < tries_left else None

    def _received(self) -> object:
        try:
            # Written by a process of our own, through a pipe that nobody else has.
            return self._pipe.recv() if self._pipe.poll(SECONDS_TO_FINISH) else None
        except (EOFError, OSError):
            return None

    def close(self) -> None:
        self._process.kill()
        self._process.join(SECONDS_TO_FINISH)
        self._pipe.close()
        self.part.close()


@dataclass
class _Task:
    """What the second process has to do."""

    reading: Reading
    descriptor: int
    here: int
    where: int
    line: int
    part: Part

    def run(self, tell: Callable[[object], None]) -> None:
        """Tell how the reader stands before the part, then what was read of it."""
        reading = self.reading
        expected = reading.ordinal + _count(self.descriptor, self.here - 1, self.where, _TABLE_ENDS)
        start = _table_after(self.descriptor, max(self.here, self.where - self._warm_up()))
        assert start is not None
        start = min(start, self.where)
        number = self.line - _count(self.descriptor, start, self.where, b"\n")
        begin = _Beginning(self, expected, tell)
        reading.reads_apart(reading.source.later(self.descriptor, start, number), begin)
        if begin.report is not None:
            left = self.part.leave()
            tell(Result(begin.report, reading.ordinal, reading.tries, reading.source.too_long, left))

    def _warm_up(self) -> int:
        """Bytes in which all lines stand that are remembered; where that is too much, there may be no more of them."""
        lines = self.reading.lines_above
        wanted = int(MORE * self.here * MAX_BLOCK_LINES / min(lines, MAX_BLOCK_LINES)) if lines else 0
        return WARM_UP + wanted if wanted < (self.where - self.here) // 4 else WARM_UP


class _Beginning:
    """In the second process: where its part begins, what it read before is dropped."""

    def __init__(self, task: _Task, expected: int, tell: Callable[[object], None]) -> None:
        self._task, self._expected, self._tell = task, expected, tell
        self.report: Told | None = None

    def cut(self, first: int, lines: list[str], start: int) -> int | None:
        """As a division's."""
        at = self._task.line - first
        return at if self.report is None and start <= at <= len(lines) else None

    def at_cut(self, _line: int) -> bool:
        """The part begins; ends the reading where the reader does not stand as is expected of it."""
        reading = self._task.reading
        reading.ordinal = self._expected
        known = Known.of(reading)
        self._tell(known)
        if known is None:
            return True
        self.report = Told(reading.source.name)
        self._task.part.enter()
        reading.counts_from_here(self.report)
        return False

    def close(self) -> None:
        """Nothing."""


def _work(pipe: Connection, parent: int, seconds: float, task: _Task) -> None:
    end_with(parent)
    # The limit of memory is inherited, that of time is not.
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    # Whatever goes wrong here, the first process reads the part itself and says it.
    with suppress(Exception):
        task.run(pipe.send)
    signal.setitimer(signal.ITIMER_PROF, 0)


def _middle(start: int, end: int) -> int:
    """The first process also starts the second and takes its lines over: it reads a little less."""
    return start + (end - start) * 9 // 20


def _position_of(descriptor: int, line: int) -> int | None:
    """Where a line begins in the file."""
    wanted, at = line - 1, 0
    while block := os.pread(descriptor, _CHUNK, at):
        lines = block.count(b"\n")
        if wanted <= lines:
            return at + len(block) - len(block.split(b"\n", wanted)[-1])
        wanted -= lines
        at += len(block)
    return None


def _table_after(descriptor: int, at: int) -> int | None:
    """Where the line after the next table's end begins."""
    block = os.pread(descriptor, FAR, at)
    end = block.find(_TABLE_ENDS)
    newline = block.find(b"\n", end + 1) if end >= 0 else -1
    return at + newline + 1 if newline >= 0 else None


def _count(descriptor: int, start: int, end: int, what: bytes) -> int:
    """How often it begins in that span of the file."""
    found = 0
    for at in range(start, end, _CHUNK):
        found += os.pread(descriptor, min(_CHUNK, end - at) + len(what) - 1, at).count(what)
    return found
