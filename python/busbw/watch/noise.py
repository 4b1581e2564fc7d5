"""The noise of a machine, as arrivals at one place of a step show it: how often ranks are late, and how often again.

Lateness has classes, thirds of an octave above a limit. A healthy rank is late by a class with some probability, which
is counted of all ranks. A rank that was late has a larger one at its next call where the machine is noisy in bursts, or
one of its processors is shared: so pairs of late calls are counted too, and a rank's second late call counts as
evidence only as far as such pairs are rare. What a named straggler did is no noise and is taken out again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

MEMORY = 4000.0
"""Calls of a rank that the noise is taken from; then what is known counts half."""
_PRIOR_LATE, _PRIOR_CALLS = 1.0, 100.0
"""Before any call was seen three late ones are no evidence yet."""
_OWN_CALLS = 200.0
"""A rank's own noise counts as that of all ranks, and so many calls of it, until it has more calls of its own."""
_AGAIN, _AGAIN_HITS = 0.004, 30.0
"""How often a late call follows another one, before any was seen, and how many late calls that counts for."""
_NEAR = 2
_PAIR, _SAME_AGAIN = 1, 0.5
"""Two late calls of classes that are no further apart are a pair; so many of these are of one class."""
_ABOUT = 4
"""Classes on each side from which pairs are counted."""
_BURSTS = ((1, 1), (2, 1), (4, 1), (8, 2), (16, 2))
"""So many last calls count as the noise of now, and so many late ones of other ranks in them as chance."""
_SHARE, _STEP = 0.95, 0.1
"""Of which share of its arrivals a rank's spread is the bound, and how fast it follows them."""
_LOOK = 16
_LEAST_NS = 1000.0


@dataclass
class _Of:
    """One rank: late calls and pairs of them by class, old calls counting less."""

    calls: float = 0.0
    late: dict[int, float] = field(default_factory=dict)
    again: dict[int, float] = field(default_factory=dict)
    before: int | None = None
    """The class of its last call."""
    spread_ns: float = 0.0
    """So near to the median rank comes 95 % of its arrivals."""


@dataclass
class Noise:
    """Of one communicator."""

    limit_ns: float
    """Of lateness. Before the spread is known it is taken to be as much."""
    ranks: dict[int, _Of] = field(default_factory=dict)
    calls: float = 0.0
    """Of all ranks."""
    spread_ns: float = 0.0
    """So near to the median rank come 95 % of the arrivals of a usual rank; the median of all ranks."""
    burst: deque[dict[int, int]] = field(default_factory=lambda: deque(maxlen=_BURSTS[-1][0]))
    """Who was late by which class in the last calls, with the present one."""
    _looks: int = 0
    _late: dict[int, float] = field(default_factory=dict)
    _again: dict[int, float] = field(default_factory=dict)

    def likely(self, rank: int, class_: int, run: Iterable[int] = ()) -> float:
        """How likely a healthy rank is late by that class; `run` are the late calls for which it is suspected now.

        It is the most of what all other ranks show, and this one before.
        """
        mine = self.ranks.get(rank) or _Of()
        others = (_rate(self._late, class_, mine.late) + _PRIOR_LATE) / (self.calls - mine.calls + _PRIOR_CALLS)
        suspected: dict[int, float] = {}
        for each in run:
            suspected[each] = suspected.get(each, 0.0) + 1
        own = (_rate(mine.late, class_, suspected) + others * _OWN_CALLS) / (mine.calls + _OWN_CALLS)
        return min(0.5, max(others, own, self._lately(rank, class_)))

    def _lately(self, rank: int, class_: int) -> float:
        """By the last calls, where more ranks were late than by chance: others, and this one by another lateness."""
        others = max(1, len(self.ranks) - 1)
        most, late, near = 0.0, 0, 1
        for number, hits in enumerate(reversed(self.burst), 1):
            for other, by in hits.items():
                is_near = abs(by - class_) <= _NEAR
                late += other != rank or not is_near
                near += other != rank and is_near
            for calls, chance in _BURSTS:
                if number == calls and late > chance:
                    most = max(most, (late - chance) / (calls * others) * near / (late + 1))
        return most

    def begin_call(self, hits: dict[int, int]) -> None:
        """`hits` has those that are late for it and are no known stragglers."""
        self.burst.append(hits)
        self._looks += 1
        if self._looks % _LOOK == 1:
            spreads = sorted(each.spread_ns for each in self.ranks.values())
            self.spread_ns = spreads[(len(spreads) - 1) // 2] if spreads else self.limit_ns

    def likely_again(self, rank: int, class_: int, run: Iterable[int] = ()) -> float:
        """The same where it was late by about as much for its call before."""
        pairs = hits = 0.0
        run = list(run)
        about = range(class_ - _ABOUT, class_ + _ABOUT + 1)
        for each in about:
            pairs += self._again.get(each, 0.0)
            hits += self._late.get(each, 0.0)
        within = sum(each in about for each in run)
        pairs, hits = max(0.0, pairs - max(0, within - 1)), max(0.0, hits - within)
        fresh = self.likely(rank, class_, run)
        again = (pairs + _AGAIN * _AGAIN_HITS) / (hits + _AGAIN_HITS)
        return min(0.5, max(fresh, _SAME_AGAIN * again))

    def add(self, rank: int, class_: int | None, late_ns: int) -> None:
        """One call of a rank that is no known straggler; None where it was not late."""
        of = self.ranks.get(rank)
        if of is None:
            of = self.ranks[rank] = _Of(spread_ns=self.limit_ns)
        of.calls += 1
        self.calls += 1
        of.spread_ns *= 1 + _STEP * (_SHARE if abs(late_ns) > of.spread_ns else _SHARE - 1)
        of.spread_ns = max(of.spread_ns, _LEAST_NS)
        if class_ is not None:
            _more(of.late, self._late, class_, 1.0)
            if of.before is not None and abs(of.before - class_) <= _PAIR:
                _more(of.again, self._again, class_, 1.0)
        of.before = class_
        if of.calls > MEMORY:
            self.calls -= of.calls / 2
            of.calls /= 2
            for mine, all_ in ((of.late, self._late), (of.again, self._again)):
                for each, times in mine.items():
                    mine[each] = times / 2
                    all_[each] -= times / 2

    def forget(self, rank: int, classes: list[int]) -> None:
        """The rank is a straggler: what it did since it began to be late was no noise."""
        of = self.ranks.get(rank)
        if of is None:
            return
        for each in classes:
            _more(of.late, self._late, each, -min(1.0, of.late.get(each, 0.0)))
        for each in classes[1:]:
            _more(of.again, self._again, each, -min(1.0, of.again.get(each, 0.0)))
        of.before = None
        for hits in self.burst:
            hits.pop(rank, None)


def _more(mine: dict[int, float], all_: dict[int, float], class_: int, by: float) -> None:
    mine[class_] = mine.get(class_, 0.0) + by
    all_[class_] = all_.get(class_, 0.0) + by


def _rate(late: dict[int, float], class_: int, without: dict[int, float]) -> float:
    """Late calls of a class."""
    return max(0.0, late.get(class_, 0.0) - without.get(class_, 0.0))
