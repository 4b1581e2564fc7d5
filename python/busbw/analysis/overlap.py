"""What communication costs beside work: efficiency, exposed time and slowdowns. The one place that defines them.

Of work and calls from a common start: efficiency is the longer of the two alone over both together (1: the shorter one
is hidden; less than 1: they hinder each other). Exposed is what the calls add to the work, for each call. The slowdown
of each is its time beside the other over its time alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from busbw.base.errors import UserError

MOST_REPETITIONS = 100_000
MOST_EFFICIENCY = 1.02
"""Above 1 by more than what clocks and medians leave open: the two alone were not measured on the machine as it was."""


def efficiency(work_alone: float, calls_alone: float, together: float) -> float:
    """The longer alone over both together, all in one unit of time."""
    return max(work_alone, calls_alone) / together


def lost_processor_time(work_alone: float, work_beside: float, processors: int, calls: int) -> float:
    """What calls take away from the work: its longer time on so many processors, for each call; never below zero."""
    return max(0.0, work_beside - work_alone) * processors / calls


@dataclass(frozen=True)
class Overlap:
    """Calls and products beside each other; times in microseconds, medians of the repetitions."""

    product: str
    calls: int
    products: int
    products_alone_us: float
    calls_alone_us: float
    products_beside_us: float
    calls_beside_us: float
    together_us: float

    @property
    def efficiency(self) -> float:
        return efficiency(self.products_alone_us, self.calls_alone_us, self.together_us)

    @property
    def is_impossible(self) -> bool:
        """Both together took less than one of them alone: something else slowed that one, and no figure here holds."""
        return self.efficiency > MOST_EFFICIENCY

    @property
    def exposed_us(self) -> float:
        """For each call; negative only by noise."""
        return (self.together_us - self.products_alone_us) / self.calls

    @property
    def product_slowdown(self) -> float:
        return self.products_beside_us / self.products_alone_us

    @property
    def call_slowdown(self) -> float:
        return self.calls_beside_us / self.calls_alone_us


def overlap_of(beside: Mapping[str, Any]) -> Overlap:
    """From a case's `beside`; UserError where it is none."""
    try:
        alone = [_times(beside[name]) for name in ("products_alone_us", "calls_alone_us")]
        both = [_times(beside[name]) for name in ("products_beside_us", "calls_beside_us")]
        calls, products = int(beside["calls"]), int(beside["products"])
        if calls < 1 or products < 1 or len({len(each) for each in (*alone, *both)}) != 1:
            raise ValueError("counts that do not go together")
        together = median(max(pair) for pair in zip(*both, strict=True))
        return Overlap(str(beside.get("product", "")), calls, products, median(alone[0]), median(alone[1]),
                       median(both[0]), median(both[1]), together)  # fmt: skip
    except (KeyError, TypeError, ValueError, OverflowError) as problem:
        raise UserError(f"this is no measurement of calls beside products: {problem}") from None


def _times(values: Sequence[Any]) -> list[float]:
    found = [float(value) for value in values]
    if not 1 <= len(found) <= MOST_REPETITIONS or not all(math.isfinite(value) and value > 0 for value in found):
        raise ValueError("times that are none")
    return found
