"""One budget over all processes of a search: what was measured before a kill or an interrupt is spent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import median

from busbw.experiment.trial import Trial


def spent_s(kept: Iterable[Trial]) -> float:
    """What trials of earlier processes took."""
    return sum(trial.seconds for trial in kept)


@dataclass
class Clock:
    """Begins nothing after the budget. What trials took that are kept already counts as spent."""

    budget_s: float
    now: Callable[[], float] = time.monotonic
    began: float = 0.0
    typical: list[float] = field(default_factory=list)
    kept_s: float = 0.0

    def __post_init__(self) -> None:
        self.began = self.now()

    def count(self, kept: Iterable[Trial]) -> None:
        """Trials of an earlier process, as if they had been measured now."""
        for trial in kept:
            self.kept_s += trial.seconds
            self.typical.append(trial.seconds)

    @property
    def left_s(self) -> float:
        """Of the budget; below 0 where a trial took longer than was left."""
        return self.budget_s - self.kept_s - (self.now() - self.began)

    def has_time(self, share: float = 1.0) -> bool:
        """Whether one more trial fits into that share of the budget."""
        need = median(self.typical) if self.typical else 0.0
        return self.kept_s + self.now() - self.began + need <= share * self.budget_s
