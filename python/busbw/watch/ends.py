"""Which process of this host ended first, and when: the kernel tells it at once. And whose end made the others fail.

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
from busbw.watch.processes import EXITED, GONE, Process

MARGIN_NS = 2_000_000
"""Ends that lie closer may be told in either order."""
MOST = 4096
"""Processes that are followed."""
_REMOTE_ERROR = 6
"""ncclRemoteError: a peer is gone."""
_OWN_ERRORS = {4: "invalid argument", 5: "invalid usage"}
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


def ended_first(
    members: Sequence[Member], processes: Sequence[Process], at_ns: Mapping[Hashable, int]
) -> Verdict | None:
    """The process that ended before all others of the job: without going through its exit, or while others waited."""
    first, before_ns = first_of(members, at_ns)
    if first is None or at_ns[first.process.key] > min(
        at_ns.get(each.key, at_ns[first.process.key]) for each in processes
    ):
        return None
    others = [each for each in members if each is not first]
    waited = any(each.inside or each.row.entered > first.row.entered for each in others)
    is_early = first.process.state == EXITED and not first.inside and not first.row.last_error and waited
    if first.process.state != GONE and not is_early:
        return None
    how = "exited first, while others waited" if is_early else "ended first, without a word, as by a signal"
    text = (
        f"{first} {how}, {before_ns / 1e6:,.0f} ms before the next rank of {name_of(members)}; its last call was "
        f"#{first.row.collectives:,}, {first.row.last}"
    )
    return Verdict(first.process.state, (first.row.rank,), sentence(text) + ".", accused([first]))


def died(members: Sequence[Member], processes: Sequence[Process], ended_ns: Mapping[Hashable, int]) -> Verdict | None:
    """Fewer than half of the processes have ended without going through their exit, as by a signal.

    Or more, where NCCL gave an error to all others and to none of them: a launcher ends ranks that have none, too, but
    when another failed by itself.
    """
    failed = {each.key for each in processes if any(row.last_error for row in (*each.communicators, *each.over))}
    dead = [each for each in members if each.process.state == GONE and each.process.key not in failed]
    known = all((member.process.key in failed) != (member.process.state == GONE) for member in members)
    if not dead or len(dead) == len(members) or (2 * len(dead) >= len(members) and not known):
        return None
    # Who ended later was ended by the launcher.
    first, _ = first_of(dead, ended_ns)
    dead = [first] if first else dead
    who = "; ".join(f"{member} ended without a word, its last call {_place(member)}" for member in dead[:8])
    rest = "" if first else f" The other ranks of {name_of(members)} went through their exit."
    return Verdict(GONE, tuple(member.row.rank for member in dead), f"{sentence(who)}.{rest}", accused(dead))


def refused(members: Sequence[Member]) -> Verdict | None:
    """Fewer than half of the processes, to which NCCL said that their own call was wrong."""
    wrong = [each for each in members if each.row.last_error in _OWN_ERRORS]
    lost = [each for each in members if each.row.last_error == _REMOTE_ERROR]
    is_one_of_two = len(wrong) == len(lost) == 1 and len(members) == 2
    if not wrong or (2 * len(wrong) >= len(members) and not is_one_of_two):
        return None
    who = "; ".join(f"{each} in #{each.row.collectives:,}, {each.row.last} ({_OWN_ERRORS[each.row.last_error]})"
                    for each in wrong[:8])  # fmt: skip
    text = f"NCCL refused a call of {who}, of {name_of(members)}, and of no other rank."
    return Verdict("refused", tuple(each.row.rank for each in wrong), text, accused(wrong))


def left(members: Sequence[Member], ended_ns: Mapping[Hashable, int]) -> Verdict | None:
    """Processes that exited between calls without an error from NCCL, while the others got one.

    Those of the others that got none were ended by their launcher. Half of the processes or more are none that left,
    but where there is only one, and NCCL said to the other that its peer is gone.
    """
    fine = [each for each in members if each.row.last_error == 0 and not each.inside and each.process.state == EXITED]
    failed = [each for each in members if each.row.last_error]
    killed = [each for each in members if each not in fine and each not in failed]
    is_only_one = len(fine) == 1 and all(each.row.last_error == _REMOTE_ERROR for each in failed)
    if not fine or not failed or (2 * len(fine) >= len(members) and not is_only_one):
        return None
    if any(each.process.state not in {EXITED, GONE} for each in members):
        return None
    # They ended later, or the error came from a call to which the others did not come.
    is_behind = max(each.row.entered for each in fine) < min(each.row.entered for each in failed)
    first, _ = first_of([*fine, *killed], ended_ns)
    if killed and (first not in fine if first else not is_behind):
        return None
    who = "; ".join(f"{member}, its last call {_place(member)}" for member in fine[:8])
    text = f"{sentence(who)}: it exited while the other ranks of {name_of(members)} got an error from NCCL."
    return Verdict(EXITED, tuple(member.row.rank for member in fine), text, accused(fine))


def _place(member: Member) -> str:
    back = "had not come back" if member.inside else "had come back"
    return f"#{member.row.collectives:,}, {member.row.last}, {back}"
