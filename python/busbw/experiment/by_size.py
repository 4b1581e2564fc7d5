"""Every variant against the baseline at each size by itself: what `--library` twice asks."""

from __future__ import annotations

from collections.abc import Sequence

from busbw.analysis.verdict import Judgement, of_rounds
from busbw.experiment.effects import Table, given_up
from busbw.experiment.plan import Plan
from busbw.experiment.trial import Outcome, Point, Trial


class BySize:
    """Settled once each size has a verdict. Each is judged by itself with the plan's alpha, as a table is read."""

    def __init__(self, plan: Plan, trials: Sequence[Trial]) -> None:
        self._limits = plan.limits
        self._table = Table(trials)
        self._others = range(1, len(plan.variants))

    def judged(self, variant: int) -> dict[Point, Judgement]:
        """Its verdict at every point that it and the baseline have."""
        measured = [{point for trial in self._table.of(number) for point in trial.times_us} for number in (0, variant)]
        limits = self._limits
        return {
            point: of_rounds(
                self._table.logs({variant: 1.0, 0: -1.0}, [point]),
                alpha=limits.alpha, margin=limits.margin, min_rounds=limits.min_rounds,
            )
            for point in sorted(set.intersection(*measured))
        }  # fmt: skip

    def _open(self, variant: int) -> bool:
        trials = self._table.of(variant)
        if given_up(trials):
            return False
        judged = self.judged(variant)
        return not judged or not all(each.sure for each in judged.values())

    @property
    def alive(self) -> list[int]:
        """The baseline, and who has a size without a verdict."""
        return [0, *(variant for variant in self._others if self._open(variant))]

    @property
    def settled(self) -> bool:
        return self.alive == [0] and any(t.outcome is Outcome.MEASURED for t in self._table.of(0))
