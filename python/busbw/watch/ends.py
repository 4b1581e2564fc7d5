"""Which process of this host ended first, and when: the kernel tells it at once.

A launcher that loses a rank ends the others, within milliseconds. Afterwards all of them are gone alike, and only the
order tells which it was.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from time import monotonic_ns

from busbw.watch.members import Member, Verdict, accused, name_of, sentence
from busbw.watch.processes import GONE

MARGIN_NS = 2_000_000
"""Ends that lie closer may be told in either order."""
MOST = 4096
"""Processes that are followed."""
_TURN_S = 0.5  # a wait does not notice that another thread closed what it waits on


class Ends:
    """When each process ended, by the clock of `monotonic_ns`; nothing where the kernel has no pidfd."""

    def __init__(self) -> None:
        self.at_ns: dict[Hashable, int] = {}
        self._keys: dict[int, Hashable] = {}
        self._known: set[Hashable] = set()
        self._epoll: select.epoll | None = None

    def follow(self, key: Hashable, pid: int) -> None:
        """Look at a process that runs now; asking again does nothing."""
        if key in self._known or len(self._known) >= MOST or not hasattr(os, "pidfd_open"):
            return
        self._known.add(key)
        with suppress(OSError):
            descriptor = os.pidfd_open(pid)
            if self._epoll is None:
                self._epoll = select.epoll()
                threading.Thread(target=self._wait, args=(self._epoll,), daemon=True, name="busbw-ends").start()
            self._keys[descriptor] = key
            self._epoll.register(descriptor, select.EPOLLIN)

    def close(self) -> None:
        """Give the descriptors back."""
        if self._epoll is not None:
            self._epoll.close()
            self._epoll = None
        for descriptor in list(self._keys):
            self._forget(descriptor)

    def _forget(self, descriptor: int) -> None:
        if self._keys.pop(descriptor, None) is not None:
            os.close(descriptor)

    def _wait(self, epoll: select.epoll) -> None:
        # Closing the epoll ends it: ValueError before a wait, EBADF within one.
        with suppress(OSError, ValueError):
            while True:
                found = epoll.poll(_TURN_S)
                now_ns = monotonic_ns()
                for descriptor, _ in found:
                    key = self._keys.get(descriptor)
                    if key is not None:
                        self.at_ns.setdefault(key, now_ns)
                    epoll.unregister(descriptor)
                    self._forget(descriptor)


def first_of(members: Sequence[Member], at_ns: Mapping[Hashable, int]) -> tuple[Member | None, int]:
    """Whose process ended before all others', and how long before the next; None where that is not known."""
    known = sorted(
        (at_ns[each.process.key], number) for number, each in enumerate(members) if each.process.key in at_ns
    )
    if len(known) < 2 or len(known) < len(members) or known[1][0] - known[0][0] < MARGIN_NS:
        return None, 0
    return members[known[0][1]], known[1][0] - known[0][0]


def ended_first(members: Sequence[Member], at_ns: Mapping[Hashable, int]) -> Verdict | None:
    """The process that ended before all others without going through its exit, as by a signal."""
    first, before_ns = first_of(members, at_ns)
    if first is None or first.process.state != GONE:
        return None
    text = (
        f"{first} ended first, without a word, as by a signal, {before_ns / 1e6:,.0f} ms before the next rank of "
        f"{name_of(members)}; its last call was #{first.row.collectives:,}, {first.row.last}"
    )
    return Verdict(GONE, (first.row.rank,), sentence(text) + ".", accused([first]))
