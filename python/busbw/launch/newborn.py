"""What becomes of a child between its fork and its program: no signal is lost, and it ends when we are killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from busbw.base.lifeline import ends_with_parent


@contextmanager
def no_signal(numbers: Iterable[signal.Signals]) -> Iterator[set[int]]:
    """Signals wait while a child is made: one that reached it before its program runs would be forgotten.

    Python notes a signal and acts later; a child that becomes another program never does. Yields the mask from before.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield {int(number) for number in before}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def before_exec(mask: set[int], cpus: frozenset[int], *, any_cpu: bool, loud: bool = False) -> Callable[[], None]:
    """What the child does to itself: end with us, keep to its processors, take signals as a new program does."""
    end_with_us = ends_with_parent(signal.SIGKILL if loud else signal.SIGTERM)
    # Those with a handler of Python's, which is gone with the fork's other half; what is ignored stays so (nohup).
    ours = [number for number in signal.valid_signals() if callable(signal.getsignal(number))]

    def prepare() -> None:
        end_with_us()
        if any_cpu:
            # A process may widen its own set of processors, up to what its container allows.
            with suppress(OSError):
                os.sched_setaffinity(0, range(os.cpu_count() or 1))
        if cpus:
            os.sched_setaffinity(0, cpus)
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    return prepare
