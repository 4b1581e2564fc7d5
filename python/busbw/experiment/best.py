"""Which variant is best at each size: what a table of algorithms needs to know, and who is still worth measuring."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from busbw.analysis.statistics import median
from busbw.analysis.verdict import Judgement, Verdict, of_rounds
from busbw.experiment.effects import Table, given_up
from busbw.experiment.plan import Plan
from busbw.experiment.trial import Outcome, Point, Trial

BEHIND = 1.15
"""A variant that takes this much longer than the best at each of its sizes will not turn out the best of any."""


class Board:
    """The variants at every point at which the baseline was measured; what failed for good is not among them.

    Each pair is judged by itself with the plan's alpha: a wrong choice between two that are nearly alike costs little.
    """

    def __init__(self, plan: Plan, trials: Sequence[Trial]) -> None:
        self._plan = plan
        self._table = Table(trials)
        count = len(plan.variants)
        self.out = {v: self._table.of(v)[-1].reason for v in range(count) if given_up(self._table.of(v))}
        self.times: dict[int, dict[Point, list[float]]] = {}
        for trial in trials:
            if trial.outcome is Outcome.MEASURED and trial.variant not in self.out:
                of = self.times.setdefault(trial.variant, {})
                for point, value in trial.times_us.items():
                    of.setdefault(point, []).append(value)
        self._judged: dict[tuple[int, int, Point], Judgement] = {}

    @cached_property
    def medians(self) -> dict[int, dict[Point, float]]:
        """Microseconds per call, by variant and point."""
        return {v: {point: median(values) for point, values in by.items()} for v, by in self.times.items()}

    @property
    def points(self) -> list[Point]:
        return sorted(self.times.get(0, {}))

    def at(self, point: Point) -> list[int]:
        """The variants measured there, in the order of the plan."""
        return [variant for variant, by in sorted(self.times.items()) if point in by]

    def against(self, one: int, other: int, point: Point) -> Judgement:
        """`one` (B) against `other` (A) at a point: faster means that `one` takes less time."""
        key = one, other, point
        if key not in self._judged:
            limits = self._plan.limits
            logs = self._table.logs({one: 1.0, other: -1.0}, [point])
            self._judged[key] = of_rounds(logs, alpha=limits.alpha, margin=limits.margin, min_rounds=limits.min_rounds)
        return self._judged[key]

    def leader(self, point: Point, among: Sequence[int] = ()) -> int:
        """The least median of those measured there, or of some of them."""
        return min(among or self.at(point), key=lambda variant: self.medians[variant][point])

    def good(self, point: Point, among: Sequence[int]) -> list[int]:
        """The leader and whoever is as good: not surely slower, and within the margin for all that is known."""
        leader = self.leader(point, among)
        return [each for each in among if each == leader or self._as_good(leader, each, point)]

    def _as_good(self, leader: int, other: int, point: Point) -> bool:
        said = self.against(leader, other, point)
        return said.verdict is not Verdict.FASTER and (said.ratio or 1.0) <= 1 + self._plan.limits.margin

    def open(self, point: Point) -> list[int]:
        """Who may yet turn out better or worse than the leader there."""
        leader, best = self.leader(point), self.medians[self.leader(point)][point]
        return [
            each
            for each in self.at(point)
            if each != leader
            and self.medians[each][point] <= BEHIND * best
            and not self.against(leader, each, point).sure
        ]

    @property
    def alive(self) -> list[int]:
        """Whom another round would tell something about; the baseline always, since gains are told against it."""
        new = {v for v in range(len(self._plan.variants)) if v not in self.out and v not in self.times}
        busy = {v for point in self.points if self.open(point) for v in (self.leader(point), *self.open(point))}
        return sorted({0} | new | busy)

    @property
    def settled(self) -> bool:
        return self.alive == [0] and bool(self.points)
