"""Communicators that stand still while calls go on in others: those whose own pace says that this is a hang.

A rank that waits in a call has other threads, which may go on calling. Calls on a communicator that goes on in a rank
which waits in another one all the while say nothing of how far the job has come. Such calls are *beside* that one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from busbw.watch.members import PAIRS, Member, behind_of, by_communicator, name_of
from busbw.watch.processes import Process

_GAPS = 10
"""So many times its longest pause so far is a long one."""
_OTHERS_GO_ON = 10
"""So many times the threshold, where ranks that do not wait for this communicator go on."""
_A_MOMENT = 4
"""This part of the threshold."""
_MOVES = 8
"""Looks at which it had moved, before it has a pace."""
_TIMES_MORE, _LEAST_CALLS = 4, 64
"""Communicators with so many times the calls of those that go on are what the job is about."""
_RESTED, _RESTED_NS = 4, 1_000_000_000
"""Where calls had rested for so many times their pause of now, and at least so long, a new phase of the job began."""


@dataclass
class _Pace:
    """Of one communicator, by the looks so far."""

    seen: object
    first_ns: int
    moved_ns: int
    longest_ns: int = 0
    moves: int = 0
    then: Mapping[int, int] = field(default_factory=dict)
    """Calls on every communicator when this one last moved."""
    rests: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=16))
    """From when to when nothing had moved, of the newest long pauses."""


@dataclass(frozen=True)
class Still:
    """Communicators that hang, and since when the last of them has."""

    identities: frozenset[int]
    quiet_ns: int
    beside: str
    """Where calls go on, in words."""

    def only(self, processes: Iterable[Process]) -> list[Process]:
        """The processes, as if there were no other communicators."""
        return [
            replace(process, communicators=rows)
            for process in processes
            if (rows := tuple(row for row in process.communicators if row.identity in self.identities))
        ]


def moved_ns_of(member: Member) -> int:
    """When this rank last called, or came back."""
    return max(member.row.made_ns, member.row.entered_ns, member.row.returned_ns)


class Paces:
    """How often each communicator moves, and which stand still for longer than is usual for them."""

    def __init__(self) -> None:
        self._paces: dict[int, _Pace] = {}

    def see(self, processes: Sequence[Process], now_ns: int) -> None:
        """One look at the processes of this host."""
        groups = by_communicator(processes)
        counts = {key: _calls(members) for key, members in groups.items()}
        for key, members in groups.items():
            seen = tuple(
                (each.process.key, each.row.entered, each.row.returned, each.process.pulses.get(each.row.place))
                for each in members
            )
            pace = self._paces.get(key)
            if pace is None:
                self._paces[key] = _Pace(seen, now_ns, now_ns, then=counts)
            elif pace.seen != seen:
                if now_ns - pace.moved_ns >= _RESTED_NS:
                    pace.rests.append((pace.moved_ns, now_ns))
                pace.longest_ns = max(pace.longest_ns, now_ns - pace.moved_ns)
                pace.seen, pace.moved_ns, pace.moves, pace.then = seen, now_ns, pace.moves + 1, counts
        for key in self._paces.keys() - groups.keys():
            del self._paces[key]

    def still(self, processes: Sequence[Process], now_ns: int, least_ns: int, most_ns: int | None) -> Still | None:
        """Those that hang while others go on; `processes` may be of several hosts.

        `least_ns` is the threshold. With `most_ns` no wait needs to be longer than that; without, the user gave it.
        """
        groups = by_communicator(processes)
        quiet = {key: now_ns - max(map(moved_ns_of, members)) for key, members in groups.items()}
        found = {
            key
            for key, members in groups.items()
            if quiet[key] >= least_ns and key in self._paces and _holds(members)
            and quiet[key] >= self._limit_ns(groups, key, now_ns, (least_ns, most_ns))
        }  # fmt: skip
        # Who is waited for may wait itself: in a communicator that does not hang, as one of a checkpoint.
        while waits := {key for key in found if _wait_elsewhere(groups, key, found)}:
            found -= waits
        if not found:
            return None
        least = min(quiet[key] for key in found)
        # What moved a moment later stands still with them.
        going = [key for key in groups if quiet[key] < least - least_ns // _A_MOMENT]
        return Still(frozenset(found), least, _names(groups, going)) if going else None

    def _limit_ns(
        self, groups: Mapping[int, Sequence[Member]], key: int, now_ns: int, wished: tuple[int, int | None]
    ) -> float:
        """It hangs after so long; infinite where it is used too seldom to tell, or who is waited for goes on."""
        members, pace, (least_ns, most_ns) = groups[key], self._paces[key], wished
        after_ns = now_ns - least_ns
        going = {each for each, others in groups.items() if max(map(moved_ns_of, others)) > after_ns}
        beside = {each for each in going if _is_beside(members, groups[each])}
        beside -= {each for each in beside if self._is_new(groups[each], each, key, now_ns)}
        ahead = {each.process.key for other in going - beside for each in groups[other] if moved_ns_of(each) > after_ns}
        if any(each.process.key in ahead for each in blockers(members)):
            return math.inf
        stopped = sum(calls for each, calls in pace.then.items() if each not in going)
        goes_on = sum(calls for each, calls in pace.then.items() if each in going)
        leads = stopped >= max(_LEAST_CALLS, _TIMES_MORE * goes_on)
        limit_ns = least_ns
        if not leads or most_ns is not None:
            limit_ns = max(least_ns, _GAPS * pace.longest_ns)
        if ahead:
            limit_ns = max(limit_ns, _OTHERS_GO_ON * least_ns if most_ns is None else most_ns)
        if most_ns is not None:
            limit_ns = min(limit_ns, most_ns)
        span_ns = pace.moved_ns - pace.first_ns
        is_paced = pace.moves >= _MOVES and span_ns >= (least_ns // 2 if ahead else limit_ns)
        return limit_ns if leads or is_paced else math.inf

    def _is_new(self, others: Sequence[Member], other: int, key: int, now_ns: int) -> bool:
        """Whether what goes on there rested before, as the training while answers were generated."""
        pace, going = self._paces[key], self._paces.get(other)
        if other not in pace.then or going is None:
            return True
        pause_ns = (now_ns - pace.moved_ns) // max(1, _calls(others) - pace.then[other])
        return any(
            begun_ns <= pace.moved_ns - _RESTED_NS and ended_ns >= pace.moved_ns - _RESTED_NS // 2
            and ended_ns - begun_ns > _RESTED * pause_ns
            for begun_ns, ended_ns in going.rests
        )  # fmt: skip


def blockers(members: Sequence[Member]) -> list[Member]:
    """Those that the others wait for, as far as the calls on this communicator tell; none where all wait."""
    if late := behind_of(members):
        return [member for member in late if not member.inside]
    waiting = [member for member in members if member.inside]
    peers = {
        member.row.last.root
        for member in waiting
        if member.row.last.kind in PAIRS and member.process.grouped.get(member.row.place, 0) < 2
    }
    out = [member for member in members if not member.inside]
    return [member for member in out if member.row.rank in peers] or out


def _holds(members: Sequence[Member]) -> bool:
    return any(member.inside for member in members) or len({member.row.collectives for member in members}) > 1


def _calls(members: Sequence[Member]) -> int:
    return max(member.row.entered for member in members)


def _is_beside(members: Sequence[Member], others: Sequence[Member]) -> bool:
    """Whether calls go on among `others` in a rank that waits among `members` all the while.

    Over NCCL calls come back before they have run: there it waits that has called more than others.
    """
    late = behind_of(members)
    waiting = [each for each in members if each.inside or (late and each.process.gpus and each not in late)]
    last = {each.process.key: moved_ns_of(each) for each in waiting}
    return any(moved_ns_of(each) > last.get(each.process.key, moved_ns_of(each)) for each in others)


def _wait_elsewhere(groups: Mapping[int, Sequence[Member]], key: int, found: set[int]) -> bool:
    """Whether all that are waited for are in calls of communicators that do not hang."""
    blocking = blockers(groups[key])
    there = [
        {other for other, others in groups.items() for each in others if each.inside and each.process is member.process}
        for member in blocking
    ]
    return bool(blocking) and all(inside and not inside & found for inside in there)


def _names(groups: Mapping[int, Sequence[Member]], keys: Sequence[int]) -> str:
    more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
    return f"{name_of(groups[keys[0]])}{more}" if keys else ""
