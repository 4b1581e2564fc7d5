"""What a foreign file may cost: processor time by its size on disk, and memory, however its reader is written.

Readers have limits of their own (sizes, depths, lines). This one holds for all of them, also for what they forgot.
"""

from __future__ import annotations

import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from busbw.base.effort import EFFORT
from busbw.base.errors import UserError

SECONDS = 4.0
"""Processor time that any file may cost."""
SECONDS_PER_MIB = 2.0
"""More for each MiB on disk: busbw reads logs at 3 to 5 MB/s."""
SECONDS_PER_PACKED_MIB = 10.0
MEMORY_BYTES = 400 << 20
"""Above what the process holds already."""
MEMORY_FROM = 64 << 20
MEMORY_PER_BYTE = 6
"""Records larger than MEMORY_FROM are kept in memory whole; a figure of 8 characters becomes a number of 32 bytes."""

_active = False


class TooDearError(UserError):
    """A file costs more than it may."""


@contextmanager
def bounded(name: str, size: int | None, *, packed: bool = False) -> Iterator[None]:
    """Read a file of `size` bytes on disk within its bounds, else UserError; None: a pipe, which may take its time.

    Within another one it changes nothing. Time is bounded in the main thread, where Python handles signals.
    """
    global _active  # noqa: PLW0603 - timers and limits belong to the process
    if _active:
        yield
        return
    _active = True
    before = _lower_memory(size or 0)
    try:
        with _timed(name, None if size is None or EFFORT.is_lifted else _seconds(size, packed=packed)):
            yield
    except MemoryError:
        raise TooDearError(f"{name} needs more than {MEMORY_BYTES >> 20} MiB of memory to be read; split it") from None
    finally:
        _active = False
        if before is not None:
            with suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_DATA, before)


def _seconds(size: int, *, packed: bool) -> float:
    return SECONDS + (SECONDS_PER_PACKED_MIB if packed else SECONDS_PER_MIB) * size / (1 << 20)


def _lower_memory(size: int) -> tuple[int, int] | None:
    """Lower the limit of writable memory; the limits before, or None where nothing was changed."""
    try:
        # The sixth figure is the size of data and stack, in pages.
        pages = int(Path("/proc/self/statm").read_bytes().split()[5])
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    except (OSError, ValueError, IndexError):
        return None
    wanted = pages * resource.getpagesize() + MEMORY_BYTES + MEMORY_PER_BYTE * max(0, size - MEMORY_FROM)
    if resource.RLIM_INFINITY not in {soft, wanted} and soft <= wanted:
        return None
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
    except (OSError, ValueError):
        return None
    return soft, hard


@contextmanager
def _timed(name: str, seconds: float | None) -> Iterator[None]:
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise TooDearError(f"{name} takes more than {seconds:.0f} s of processor time to read, too much for its size")

    before = signal.signal(signal.SIGPROF, over)
    # Again each second: a reader that tries something else after a complaint has no more time for it.
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
