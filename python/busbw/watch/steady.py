"""A second test for late ranks: one that is late by nearly the same amount at each call, from one call on.

The first test (late.py) has classes of lateness, of which a straggler may fall into several. This one takes lateness
itself: a call continues a run where it is as late as the run was, within what a rank's arrivals are spread by. So it
needs fewer calls where noise is late by any amount. A straggler's own calls are late by chance too, and then by more:
such a call neither ends a run nor counts for more than its excess is likely.

How often noise continues a run is measured, apart for the second call of a run that began after a rest, of one that did
not, and for longer runs. As such runs are rare, what they show is added to what calls soon after late ones show: how
often these are late, and how often by the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

REST = 16
"""Calls without lateness after which a late one begins anew."""
SOON = 4
"""So many calls after a late one tell how often noise is late again."""
_WITHIN = 0.9
"""How often a straggler's call continues its run."""
_MORE = 0.05
"""And how often it is later than that, by less than what counts as late."""
_SHARE = 0.05
"""Of the lateness itself, by which a straggler may differ besides."""
_WEIGHT = {"rested": 30.0, "unrested": 10.0, "long": 10.0}
"""What calls soon after late ones show counts as so many runs."""
_AGAIN, _SAME = (0.02, 50.0), (0.3, 10.0)
_AGAIN_TWICE = (0.1, 20.0)
"""Before any was seen: how often calls soon after a late one are late, and soon after two; how often by the same."""
_MEMORY = 2000.0
"""Calls or runs of a kind from which a share is taken; then what is known counts half."""
_LONGEST, _MOST_TOLD = 64, 256


@dataclass
class Share:
    """How many could have been so, and how many were."""

    tried: float = 0.0
    done: float = 0.0

    def add(self, *, is_done: bool) -> None:
        self.tried += 1
        self.done += is_done
        if self.tried > _MEMORY:
            self.tried /= 2
            self.done /= 2

    def rate(self, before: float, weight: float) -> float:
        return (self.done + before * weight) / (self.tried + weight)


@dataclass
class Run:
    """Late calls of one rank, one after the other, by about the same."""

    late: list[int] = field(default_factory=list)
    more: int = 0
    """Calls between them that were later than these."""
    is_rested: bool = True
    score: float = 0.0
    rest: int = REST
    """Calls since its last late one."""
    first: int = 0
    """Number of the run's first call."""
    since: int = 0
    """Late calls since it last had a rest."""
    told: list[tuple[str, bool]] = field(default_factory=list)
    """What it has shown of noise since then, which counts when it has had a rest again, and so never for itself."""

    @property
    def kind(self) -> str:
        """Of what a further call would continue."""
        return "long" if len(self.late) > 1 else "rested" if self.is_rested else "unrested"


@dataclass
class Steady:
    """Of one place of the step: runs of all ranks, and how often noise continues one."""

    noise: dict[str, Share] = field(
        default_factory=lambda: {each: Share() for each in (*_WEIGHT, "after one", "after more", "same")}
    )
    runs: dict[int, Run] = field(default_factory=dict)

    def take(self, rank: int, late_ns: int | None, usual: Callable[[float], float], spread_ns: float) -> float:
        """One call of a rank that is not named; its score, as a logarithm. None where it was not late.

        `usual` says how likely noise is late by the class of a lateness; 0 where that is none.
        """
        run = self.runs.get(rank)
        if run is None:
            if late_ns is None:
                return 0.0
            run = self.runs[rank] = Run()
        if run.since and run.rest < SOON:
            self._tell(run, "after one" if run.since == 1 else "after more", is_done=late_ns is not None)
        if late_ns is None:
            if run.late:
                self._tell(run, run.kind, is_done=False)
                run.late.clear()
                run.more = 0
            run.rest += 1
            run.score = 0.0
            if run.rest == REST:
                self._count(run)
            return 0.0
        around = median(run.late) if run.late else 0.0
        is_same = bool(run.late) and abs(late_ns - around) <= window(around, spread_ns)
        if run.late:
            self._tell(run, "same", is_done=is_same)
        likely = chance(late_ns, usual(late_ns), spread_ns)
        if is_same:
            run.score += math.log(_WITHIN / max(likely, self.often(run.kind)))
            self._tell(run, run.kind, is_done=True)
            run.late = [*run.late[-_LONGEST:], late_ns]
        else:
            if run.late:
                self._tell(run, run.kind, is_done=False)
            self._other(run, late_ns, around, usual, spread_ns)
        run.since += 1
        run.rest = 0
        return run.score

    def _other(self, run: Run, late_ns: int, around: float, usual: Callable[[float], float], spread_ns: float) -> None:
        """A late call that is not as late as the run was: it goes on where this one is later, else it begins here."""

        def by_chance(more_ns: int, than_ns: float) -> float:
            noise = max(chance(more_ns, usual(more_ns), spread_ns), self.often(run.kind))
            return math.log((usual(more_ns - than_ns) or _MORE) / noise)

        if run.late and late_ns > around:
            run.score += by_chance(late_ns, around)
            run.more += 1
            return
        was_more = run.late[0] if len(run.late) == 1 and not run.rest and not run.more else 0
        if not was_more:
            run.is_rested = run.rest >= REST
            if run.is_rested:
                run.since = 0
        run.score = math.log(_WITHIN / chance(late_ns, usual(late_ns), spread_ns))
        run.more = int(was_more > 0)
        if was_more:
            run.score += min(0.0, by_chance(was_more, late_ns))
        run.late = [late_ns]

    def often(self, kind: str) -> float:
        """How often noise continues a run of this kind; a longer one no more seldom than a new one."""
        is_new = kind == "rested"
        after = self.noise["after one"].rate(*_AGAIN) if is_new else self.noise["after more"].rate(*_AGAIN_TWICE)
        found = self.noise[kind].rate(after * self.noise["same"].rate(*_SAME), _WEIGHT[kind])
        return min(0.5, found if is_new else max(found, self.often("rested")))

    def forget(self, rank: int) -> None:
        """The rank is named: what it did since its last rest was no noise."""
        self.runs.pop(rank, None)

    def score_of(self, usual: float, late_ns: float, spread_ns: float, calls: int) -> float:
        """What so many calls in a row after a rest would have, the noise as it is."""
        first = chance(late_ns, usual, spread_ns)
        score = math.log(_WITHIN / first) + math.log(_WITHIN / max(first, self.often("rested")))
        return score + (calls - 2) * math.log(_WITHIN / max(first, self.often("long")))

    def _tell(self, run: Run, kind: str, *, is_done: bool) -> None:
        run.told.append((kind, is_done))
        if len(run.told) > _MOST_TOLD:
            self._count(run)

    def _count(self, run: Run) -> None:
        for kind, is_done in run.told:
            self.noise[kind].add(is_done=is_done)
        run.told.clear()


def window(late_ns: float, spread_ns: float) -> float:
    """By how much two calls of one straggler may differ."""
    return spread_ns + _SHARE * late_ns


def chance(late_ns: float, usual: float, spread_ns: float) -> float:
    """How likely noise is within that window, by how likely it is in a class, which is a third of an octave."""
    apart = window(late_ns, spread_ns)
    classes = 3 * math.log2((late_ns + apart) / max(late_ns - apart, late_ns / 8))
    return min(0.5, usual * max(1.0, classes))
