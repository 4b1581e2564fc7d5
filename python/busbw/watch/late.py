"""Stragglers: the rank that comes late again and again, told from the noise of the machine by a sequential test.

A rank is late for a call when it comes more than a limit after the median rank. A straggler is late by about the same
each time; the noise of a machine is late by anything. Calls of one shape with the same amount of work before them are
one place in the step. For each rank, place and class of lateness (a third of an octave) the test sums the logarithm of
how much likelier what was seen is for a straggler of that class than for the noise that the other ranks show (CUSUM;
Page, Biometrika 41, 1954). The noise is that of the last calls where that is more than the usual one, since machines
are noisy in bursts. So the more noise there is, the more calls a verdict needs.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from busbw.watch.arrivals import Meeting

LATE_S = 100e-6
_SAME, _NEXT, _ON_TIME, _ELSEWHERE = 0.5, 0.2, 0.05, 0.001
"""How often a straggler of a class is late by that class, by one beside it, on time, and by any other class."""
_CLASSES = 40
_BOUND = math.log(1e7)
"""One false verdict in ten million calls of a rank, where lateness is independent from call to call."""
_MEMORY = 4000.0
"""Calls of a rank that the noise is taken from; then what is known counts half."""
_PRIOR_LATE, _PRIOR_CALLS = 0.05, 50.0
_NEAR = 2
_BURST = 16
"""Calls of a communicator whose noise counts as the noise of now."""
_MAX_PLACES = 1024
_FORGIVEN = 20
_LEAST = 3
"""Late calls that a verdict needs in any case."""


@dataclass(frozen=True)
class Late:
    """A rank that holds the others up."""

    rank: int
    who: str
    communicator: int
    since: int
    """Number of the first call that it was late for."""
    at: int
    """Number of the call at which it was named."""
    late_ns: int
    calls: int
    of: int
    shape: str
    error_ns: int

    @property
    def text(self) -> str:
        """As one sentence."""
        wrong = f" (clocks within {self.error_ns / 1000:.0f} us)" if self.error_ns else ""
        # Of a process that no launcher numbered, which may have a thread for each rank.
        which = f", rank {self.rank}," if self.who.startswith("pid ") else ""
        return (
            f"{self.who}{which} is late: since call #{self.since:,} ({self.shape}) it came "
            f"{self.late_ns / 1000:.0f} us after the median rank{wrong}, in {self.calls} of {self.of} calls."
        )


@dataclass
class _Suspect:
    scores: dict[int, float] = field(default_factory=dict)
    """Of each class of lateness."""
    since: int = 0
    late: deque[int] = field(default_factory=lambda: deque(maxlen=64))
    classes: list[int] = field(default_factory=list)
    """Of the calls since then that it was late for, until it is named."""
    calls: int = 0
    is_named: bool = False
    missed: int = 0


@dataclass
class _Noise:
    """How often each rank of a communicator was late by each class, old calls counting less; who was so lately."""

    late: dict[int, dict[int, float]] = field(default_factory=dict)
    calls: dict[int, float] = field(default_factory=dict)
    burst: deque[dict[int, int]] = field(default_factory=lambda: deque(maxlen=_BURST))

    def of_others(self, rank: int, class_: int) -> float:
        """How likely it is that a healthy rank is late by that class, from all ranks but this one."""
        others = [each for each in self.calls if each != rank]
        late = sum(self.late[each].get(class_, 0.0) for each in others)
        usual = (late + _PRIOR_LATE) / (sum(self.calls[each] for each in others) + _PRIOR_CALLS)
        near = sum(abs(by - class_) <= _NEAR for hits in self.burst for other, by in hits.items() if other != rank)
        noise = max(usual, near / (max(1, len(others)) * _BURST))
        return min(0.5, noise)

    def forget(self, rank: int, classes: Iterable[int]) -> None:
        """The rank is a straggler: what it did since it began to be late was no noise."""
        late = self.late.get(rank, {})
        for each in classes:
            late[each] = max(0.0, late.get(each, 0.0) - 1)
        for hits in self.burst:
            hits.pop(rank, None)

    def end_call(self, hits: dict[int, int]) -> None:
        """All ranks of a call were added; `hits` has those that were late and are no known stragglers."""
        self.burst.append(hits)

    def add(self, rank: int, class_: int | None) -> None:
        """One call of a rank that is no known straggler."""
        calls = self.calls[rank] = self.calls.get(rank, 0.0) + 1
        late = self.late.setdefault(rank, {})
        if class_ is not None:
            late[class_] = late.get(class_, 0.0) + 1
        if calls > _MEMORY:
            self.calls[rank] = calls / 2
            for each in late:
                late[each] /= 2


@dataclass
class Rank:
    """What is known of one rank of a communicator."""

    who: str = ""
    of: int = 0
    """Ranks of the communicator."""
    calls: int = 0
    last: int = 0
    """Calls for which the others waited for it."""
    caused_ns: int = 0
    """How long the others waited then, all together."""
    waited_ns: int = 0
    late_ns: deque[int] = field(default_factory=lambda: deque(maxlen=4096))


class Stragglers:
    """Takes meetings one after the other; gives a verdict when a rank has become a straggler."""

    def __init__(self, late_s: float = LATE_S) -> None:
        self._late_ns = late_s * 1e9
        self._suspects: dict[tuple[object, ...], dict[int, _Suspect]] = {}
        self._works: dict[tuple[object, ...], list[int]] = {}
        self._noise: dict[int, _Noise] = {}
        self._named: set[tuple[int, int]] = set()
        self.ranks: dict[tuple[int, int], Rank] = {}
        self.meetings = 0
        self.unjudged = 0
        self.worst_error_ns = 0
        self.wait_ns = 0
        self.transfer_ns = 0
        self.own_ns = 0

    def take(self, meeting: Meeting) -> list[Late]:
        """Ranks that this call makes stragglers."""
        self.meetings += 1
        middle = _lower_median([arrival.begun_ns for arrival in meeting.arrivals])
        self._count(meeting, middle)
        if meeting.error_ns is None or not meeting.is_synchronous or len(meeting.arrivals) < 2:
            self.unjudged += 1
            return []
        self.worst_error_ns = max(self.worst_error_ns, meeting.error_ns)
        limit = self._late_ns + meeting.error_ns
        late = {arrival.rank: arrival.begun_ns - middle for arrival in meeting.arrivals}
        hits = {rank: _class(by, limit) for rank, by in late.items() if by > limit}
        suspects = self._suspects_of(meeting)
        noise = self._noise.setdefault(meeting.communicator, _Noise())
        found = []
        for arrival in meeting.arrivals:
            rank = arrival.rank
            if rank not in suspects and rank not in hits:
                continue
            suspect = suspects.setdefault(rank, _Suspect())
            if self._judge(suspect, meeting, late[rank], hits.get(rank), noise, rank):
                found.append(self._late(suspect, meeting, arrival.who, rank))
                # Of this call it is not in the noise yet.
                noise.forget(rank, suspect.classes[:-1])
        strangers = {rank: by for rank, by in hits.items() if not suspects[rank].is_named}
        for rank in late:
            if rank in strangers or rank not in hits:
                noise.add(rank, hits.get(rank))
        noise.end_call(strangers)
        return found

    def _judge(  # noqa: PLR0913, PLR0917 - one call of one rank
        self, suspect: _Suspect, meeting: Meeting, late_ns: int, class_: int | None, noise: _Noise, rank: int
    ) -> bool:
        """Whether the suspect is to be named now."""
        suspect.calls += 1
        if class_ is None:
            suspect.missed += 1
            suspect.scores = {
                each: score + math.log(_ON_TIME)
                for each, score in suspect.scores.items()
                if score > -math.log(_ON_TIME)
            }
            if suspect.missed >= _FORGIVEN:
                suspect.is_named = False
            return False
        if not suspect.scores:
            suspect.since, suspect.calls = meeting.sequence, 1
            suspect.late.clear()
            suspect.classes.clear()
        suspect.missed = 0
        suspect.late.append(late_ns)
        if not suspect.is_named:
            suspect.classes.append(class_)
        usual = noise.of_others(rank, class_)
        bound = _BOUND + math.log(len(meeting.arrivals))
        scores = {}
        for each in {*suspect.scores, class_ - 1, class_, class_ + 1}:
            likely = (_SAME, _NEXT)[abs(each - class_)] if abs(each - class_) < 2 else _ELSEWHERE
            score = suspect.scores.get(each, 0.0) + math.log(likely / usual)
            if score > 0:
                scores[each] = min(score, 2 * bound)
        suspect.scores = scores
        if suspect.is_named or max(scores.values(), default=0.0) < bound or len(suspect.late) < _LEAST:
            return False
        suspect.is_named = True
        return True

    def _late(self, suspect: _Suspect, meeting: Meeting, who: str, rank: int) -> Late:
        self._named.add((meeting.communicator, rank))
        return Late(
            rank, who, meeting.communicator, suspect.since, meeting.sequence, int(median(suspect.late)),
            len(suspect.late), suspect.calls, str(meeting.shape), meeting.error_ns or 0,
        )  # fmt: skip

    def _suspects_of(self, meeting: Meeting) -> dict[int, _Suspect]:
        """Of this call's place in the step."""
        own = [arrival.own_ns for arrival in meeting.arrivals if arrival.own_ns is not None]
        work = max(min(own), 1000) if own else 0
        call = (meeting.communicator, meeting.shape.kind, meeting.shape.count)
        known = self._works.setdefault(call, [])
        # About the same amount, by the rank that had least to wait for: within a factor of four of what was first seen.
        first = next((each for each in known if each <= 4 * work and work <= 4 * each), None)
        if first is None:
            first = work
            if len(self._suspects) < _MAX_PLACES:
                known.append(work)
        place: tuple[object, ...] = (*call, first)
        if place not in self._suspects and len(self._suspects) >= _MAX_PLACES:
            place = (meeting.communicator, "further places")
        return self._suspects.setdefault(place, {})

    def _count(self, meeting: Meeting, middle: int) -> None:
        last = meeting.last
        self.wait_ns += meeting.waited_ns
        self.transfer_ns += (meeting.transfer_ns or 0) * len(meeting.arrivals)
        for arrival in meeting.arrivals:
            rank = self.ranks.setdefault((meeting.communicator, arrival.rank), Rank())
            rank.who, rank.of = arrival.who, len(meeting.arrivals)
            rank.calls += 1
            rank.waited_ns += last.begun_ns - arrival.begun_ns
            rank.late_ns.append(arrival.begun_ns - middle)
            self.own_ns += max(0, arrival.own_ns or 0)
        worst = self.ranks[meeting.communicator, last.rank]
        worst.last += 1
        worst.caused_ns += meeting.waited_ns


def _lower_median(values: list[int]) -> int:
    """Of two ranks the earlier one, so that one late rank of two is seen."""
    return sorted(values)[(len(values) - 1) // 2]


def _class(late_ns: int, limit_ns: float) -> int:
    """Thirds of an octave above the limit."""
    return min(_CLASSES - 1, int(3 * math.log2(late_ns / limit_ns)))
