"""Stragglers: the rank that comes late again and again, told from the noise of the machine by a sequential test.

A rank is late for a call when it comes more than a limit after the median rank. A straggler is late by about the same
each time; the noise of a machine is late by anything. Calls of one shape with the same amount of work before them are
one place in the step. For each rank, place and class of lateness (a third of an octave) the test sums the logarithm of
how much likelier what was seen is for a straggler of that class than for the noise of the machine, which is measured
meanwhile (noise.py; CUSUM; Page, Biometrika 41, 1954). So the more noise there is, the more calls a verdict needs.
A rank that is late by nearly the same from one call on is found by a second test (steady.py), mostly sooner.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from statistics import median

from busbw.watch.arrivals import Meeting
from busbw.watch.noise import Noise
from busbw.watch.steady import Steady

LATE_S = 100e-6
_SAME, _NEXT, _ON_TIME, _ELSEWHERE = 0.5, 0.2, 0.05, 0.001
"""How often a straggler of a class is late by that class, by one beside it, on time, and by any other class.

Where the noise is wider than that, by any of more classes beside it as often.
"""
_CLASSES = 40
_BOUND = math.log(5e5)
"""One false verdict in half a million calls, or fewer, where the noise is as it was (straggler_noise.py tries it)."""
_WIDEST = 4
"""Classes on each side over which a straggler is spread by the noise, at most."""
_STEADY_BOUND = math.log(1e4)
"""Of the second test, whose sums claim less than they could: by what straggler_noise.py found (watch.md)."""
_MARGIN = 1.0
"""Of evidence, without which the second test's word that it can name a straggler would not hold often enough."""
_CLEAR = 3.0
"""So many times the spread of usual arrivals a lateness must be for the second test: uneven work is late by the same
for a while, but by no more than it spreads the others."""
_KNOWN = 100
"""Calls of each rank before the second test says anything."""
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
        self._places: dict[tuple[object, ...], tuple[dict[int, _Suspect], Noise, Steady]] = {}
        self._works: dict[tuple[object, ...], list[int]] = {}
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
        suspects, noise, steady = self._place(meeting)
        noise.begin_call({rank: by for rank, by in hits.items() if rank not in suspects or not suspects[rank].is_named})
        found = []
        for arrival in meeting.arrivals:
            rank = arrival.rank
            if rank not in suspects and rank not in hits:
                continue
            suspect = suspects.setdefault(rank, _Suspect())
            is_known = suspect.is_named
            is_found = self._judge(suspect, meeting, late[rank], hits.get(rank), noise, rank)
            if not is_known and self._is_steady(steady, meeting, (rank, late[rank], hits.get(rank)), noise, suspect):
                is_found = True
            if is_found:
                steady.forget(rank)
                found.append(self._late(suspect, meeting, arrival.who, rank))
                # Of this call it is not in the noise yet.
                noise.forget(rank, suspect.classes[:-1])
        strangers = {rank: by for rank, by in hits.items() if not suspects[rank].is_named}
        for rank, by in late.items():
            if rank in strangers or rank not in hits:
                noise.add(rank, hits.get(rank), by)
        return found

    def _judge(  # noqa: PLR0913, PLR0917 - one call of one rank
        self, suspect: _Suspect, meeting: Meeting, late_ns: int, class_: int | None, noise: Noise, rank: int
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
        is_again = suspect.missed <= 1 and bool(suspect.classes)
        suspect.missed = 0
        suspect.late.append(late_ns)
        usual = (noise.likely_again if is_again else noise.likely)(rank, class_, suspect.classes)
        if not suspect.is_named:
            suspect.classes.append(class_)
        bound = _BOUND + math.log(len(meeting.arrivals))
        scores = {}
        width = self._width(class_, noise)
        for each in {*suspect.scores, *range(class_ - width, class_ + width + 1)}:
            likely = _likely(abs(each - class_), self._width(each, noise))
            score = suspect.scores.get(each, 0.0) + math.log(likely / usual)
            if score > 0:
                scores[each] = min(score, 2 * bound)
        suspect.scores = scores
        if suspect.is_named or max(scores.values(), default=0.0) < bound or len(suspect.late) < _LEAST:
            return False
        if median(suspect.late) < noise.spread_ns + self._late_ns:
            return False
        suspect.is_named = True
        return True

    def _is_steady(
        self, steady: Steady, meeting: Meeting, hit: tuple[int, int, int | None], noise: Noise, suspect: _Suspect
    ) -> bool:
        """Whether the second test names the rank now; `hit` has the rank, its lateness, and its class if it is late."""
        rank, late_ns, class_ = hit

        def usual(by_ns: float) -> float:
            if by_ns <= limit_ns:
                return 0.0
            return noise.likely(rank, _class(by_ns, limit_ns), suspect.classes)

        limit_ns = self._late_ns + (meeting.error_ns or 0)
        score = steady.take(rank, None if class_ is None else late_ns, usual, noise.spread_ns)
        if class_ is None:
            return False
        run = steady.runs[rank]
        if len(run.late) + run.more == 1:
            run.first = meeting.sequence
        if len(run.late) + run.more < _LEAST or score < _STEADY_BOUND + math.log(len(meeting.arrivals)):
            return False
        if noise.calls < _KNOWN * len(meeting.arrivals):
            return False
        if median(run.late) < max(noise.spread_ns + self._late_ns, _CLEAR * noise.spread_ns):
            return False
        if not suspect.is_named:
            suspect.is_named, suspect.since, suspect.calls = True, run.first, len(run.late)
            suspect.late.clear()
            suspect.late.extend(run.late)
        return True

    def nameable_ns(self, communicator: int, calls: int = _LEAST) -> float:
        """The smallest lateness for which so many calls in a row are evidence enough, by the measured noise.

        Infinite where the noise is too large, or not yet known. Noise that is always late by the same may hide larger
        ones: see is_nameable.
        """
        limits = (self._late_ns * 2 ** (class_ / 3) for class_ in range(_CLASSES))
        known = self._known(communicator)
        floor = self._late_ns + known[0].spread_ns if known else 0.0
        return next(
            (late for each in limits if self.is_nameable(communicator, late := max(each, floor), calls)), math.inf
        )

    def is_nameable(self, communicator: int, late_ns: float, calls: int = _LEAST) -> bool:
        """Whether a rank that is so late is named within so many calls, by the noise at the best known place."""
        known = self._known(communicator)
        if known is None or late_ns < self._late_ns + known[0].spread_ns:
            return False
        noise, steady = known
        middle = _class(late_ns, self._late_ns)
        about = range(max(0, middle - 1), middle + 2)
        usual = max(noise.likely(rank, class_) for rank in noise.ranks for class_ in about)
        score = steady.score_of(usual, late_ns, noise.spread_ns, calls)
        is_clear = late_ns >= _CLEAR * noise.spread_ns and noise.calls >= _KNOWN * len(noise.ranks)
        if is_clear and score >= _MARGIN + _STEADY_BOUND + math.log(len(noise.ranks)):
            return True
        width = self._width(middle, noise)
        return all(
            self._is_enough(class_, noise, calls) for class_ in range(max(0, middle - width), middle + width + 1)
        )

    def _known(self, communicator: int) -> tuple[Noise, Steady] | None:
        """Of the place of a communicator's calls that is known best."""
        known = [each[1:] for place, each in self._places.items() if place[0] == communicator and each[1].ranks]
        return max(known, key=lambda each: each[0].calls, default=None)

    def _is_enough(self, class_: int, noise: Noise, calls: int) -> bool:
        """Whether so many late calls name any rank, one of them in this class at the edge of its own."""
        worst = max(noise.ranks, key=lambda rank: noise.likely(rank, class_))
        width = self._width(class_, noise)
        first = math.log(_likely(width, width) / noise.likely(worst, class_))
        again = math.log(_likely(0, width) / noise.likely_again(worst, class_))
        return first + (calls - 1) * again >= _BOUND + math.log(len(noise.ranks))

    def _width(self, class_: int, noise: Noise) -> int:
        """Classes on each side over which the noise spreads a straggler of this one."""
        middle = self._late_ns * 2 ** ((class_ + 0.5) / 3)
        least = middle - noise.spread_ns
        return min(_WIDEST, max(1, math.ceil(3 * math.log2(middle / least)))) if least > 0 else _WIDEST

    def _late(self, suspect: _Suspect, meeting: Meeting, who: str, rank: int) -> Late:
        self._named.add((meeting.communicator, rank))
        return Late(
            rank, who, meeting.communicator, suspect.since, meeting.sequence, int(median(suspect.late)),
            len(suspect.late), suspect.calls, str(meeting.shape), meeting.error_ns or 0,
        )  # fmt: skip

    def _place(self, meeting: Meeting) -> tuple[dict[int, _Suspect], Noise, Steady]:
        """Whom to suspect at this call's place in the step, and its noise."""
        own = [arrival.own_ns for arrival in meeting.arrivals if arrival.own_ns is not None]
        work = max(min(own), 1000) if own else 0
        call = (meeting.communicator, meeting.shape.kind, meeting.shape.count)
        known = self._works.setdefault(call, [])
        # About the same amount, by the rank that had least to wait for: within a factor of four of what was first seen.
        first = next((each for each in known if each <= 4 * work and work <= 4 * each), None)
        if first is None:
            first = work
            if len(self._places) < _MAX_PLACES:
                known.append(work)
        place: tuple[object, ...] = (*call, first)
        if place not in self._places and len(self._places) >= _MAX_PLACES:
            place = (meeting.communicator, "further places")
        return self._places.setdefault(place, ({}, Noise(self._late_ns), Steady()))

    def _count(self, meeting: Meeting, middle: int) -> None:
        last, last_ns, ranks = meeting.last, meeting.last.begun_ns, len(meeting.arrivals)
        self.wait_ns += meeting.waited_ns
        self.transfer_ns += (meeting.transfer_ns or 0) * ranks
        for arrival in meeting.arrivals:
            key = (meeting.communicator, arrival.rank)
            rank = self.ranks.get(key)
            if rank is None:
                rank = self.ranks[key] = Rank()
            rank.who, rank.of = arrival.who, ranks
            rank.calls += 1
            rank.waited_ns += last_ns - arrival.begun_ns
            rank.late_ns.append(arrival.begun_ns - middle)
            if arrival.own_ns is not None and arrival.own_ns > 0:
                self.own_ns += arrival.own_ns
        worst = self.ranks[meeting.communicator, last.rank]
        worst.last += 1
        worst.caused_ns += meeting.waited_ns


def _lower_median(values: list[int]) -> int:
    """Of two ranks the earlier one, so that one late rank of two is seen."""
    return sorted(values)[(len(values) - 1) // 2]


def _class(late_ns: float, limit_ns: float) -> int:
    """Thirds of an octave above the limit."""
    return min(_CLASSES - 1, int(3 * math.log2(late_ns / limit_ns)))


def _likely(apart: int, width: int) -> float:
    """How often a straggler is late by a class so far from its own; noise spreads it over `width` on each side."""
    if apart > width:
        return _ELSEWHERE
    return (_SAME, _NEXT)[apart] if width == 1 else (1 - 2 * _ON_TIME) / (2 * width + 1)
