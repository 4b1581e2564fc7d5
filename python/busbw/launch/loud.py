"""Ends a launcher that answers a signal with a traceback: its ranks get the signal, and it is killed unheard.

torchrun prints forty lines when Ctrl-C or SIGTERM reaches it, whatever its ranks have said. While it still imports
torch it may drop a Ctrl-C. It has nothing to clean up but its ranks: what it writes beside lies in a folder of ours.
Where we are killed, the kernel kills it (newborn.py), also while it stands.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress

from busbw.base.lifeline import has_ended, stat_of

_STANDS_WITHIN_S = 0.5
_RANKS_FIRST_S = 1.0
"""Ranks whose launcher has gone say so: most end before they could."""
_MOST = 65536  # processes below one launcher


def end_in_silence(launcher: int, number: signal.Signals) -> list[tuple[int, int]]:
    """Signal all below a launcher and kill it; those below, by number and start, for whoever waits for them."""
    with suppress(ProcessLookupError):
        os.kill(launcher, signal.SIGSTOP)  # it starts no more, and sees nobody end
        _until_it_stands(launcher)
        found = list(_below(launcher))
        for pid, _ in found:
            with suppress(OSError):
                os.kill(pid, number)
        end = time.monotonic() + _RANKS_FIRST_S
        while still_there(found) and time.monotonic() < end:
            time.sleep(0.005)
        os.kill(launcher, signal.SIGKILL)
        return found
    return []


def still_there(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those that have not ended."""
    return [(pid, start) for pid, start in found if not has_ended(pid, start)]


def _until_it_stands(pid: int) -> None:
    """A signal is sent before it has arrived: a launcher in the middle of a fork would finish it."""
    end = time.monotonic() + _STANDS_WITHIN_S
    while time.monotonic() < end:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
                if file.read().rpartition(b")")[2].split()[0] in (b"T", b"t", b"Z", b"X"):
                    return
        except (OSError, IndexError):
            return
        time.sleep(0.001)


def _below(top: int) -> Iterator[tuple[int, int]]:
    """Every process whose parents lead to this one, by number and start."""
    children: dict[int, list[tuple[int, int]]] = {}
    with suppress(OSError):
        for name in os.listdir("/proc"):  # noqa: PTH208
            if name.isdecimal() and (found := stat_of(int(name))):
                children.setdefault(found.parent, []).append((int(name), found.start))
    waiting = [top]
    for _ in range(_MOST):
        if not waiting:
            return
        for each in children.get(waiting.pop(), []):
            yield each
            waiting.append(each[0])
