"""From times to rules: the best candidate of each size, the simplest of those that noise cannot tell apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw.experiment.tune.candidates import COPY, NCCL
from busbw.experiment.tune.table import Rule

NOISE = 0.03
"""Single runs of the same thing on four H200 differ by up to this."""


@dataclass(frozen=True)
class Crossing:
    """One algorithm for neighbouring sizes: by size, its time and NCCL's in microseconds."""

    use: str
    times: Mapping[int, tuple[float, float]]

    @property
    def gains(self) -> tuple[float, float]:
        """Least and largest speed over NCCL's."""
        ratios = [nccl / own for own, nccl in self.times.values()]
        return min(ratios), max(ratios)


def crossings(medians: Mapping[str, Mapping[int, float]], uses: Sequence[str]) -> list[Crossing]:
    """Neighbouring sizes with one choice are one crossing. `uses` are the candidates, simplest first.

    Of those that any call can take; `copies` says from which size on calls into windows go another way.
    """
    found: list[Crossing] = []
    reference = medians.get(NCCL, {})
    for size in sorted(reference):
        by = {use: medians[use][size] for use in uses if use != COPY and size in medians.get(use, {})}
        use = _pick(by, found[-1].use if found else None)
        times = {size: (by[use], reference[size])}
        if found and found[-1].use == use:
            found[-1] = Crossing(use, {**found[-1].times, **times})
        else:
            found.append(Crossing(use, times))
    return found


def _pick(by: Mapping[str, float], before: str | None) -> str:
    """The choice of the next smaller size where it is as good, else the simplest that is: fewer and plainer rules."""
    best = min(by.values())
    good = [use for use, value in by.items() if value <= best * (1 + NOISE)]
    return before if before in good else good[0]


def copies(medians: Mapping[str, Mapping[int, float]], found: Sequence[Crossing]) -> Crossing | None:
    """The sizes, up to the largest, at which copy engines are faster than the choice without a window."""
    own = medians.get(COPY, {})
    others = {size: times for each in found for size, times in each.times.items()}
    faster: dict[int, tuple[float, float]] = {}
    for size in sorted(others, reverse=True):
        if own.get(size, math.inf) * (1 + NOISE / 2) >= others[size][0]:
            break
        faster[size] = (own[size], others[size][1])
    return Crossing(COPY, faster) if faster else None


def copies_begin(into_windows: Crossing, found: Sequence[Crossing]) -> int:
    """The geometric mean of the first size that copy engines get and the one measured below it."""
    least = min(into_windows.times)
    return math.isqrt(least * max((size for each in found for size in each.times if size < least), default=0))


def rules_of(collective: str, found: Sequence[Crossing], ranks: int, types: tuple[str, ...], gpu: str) -> list[Rule]:
    """A rule per crossing; between two measured sizes the geometric mean divides, beyond the largest there is none."""
    rules = []
    first = 0
    for i, each in enumerate(found):
        largest = max(each.times)
        last = math.isqrt(largest * min(found[i + 1].times)) if i + 1 < len(found) else largest
        rules.append(Rule(collective, each.use, ranks, types, first, last, gpu))
        first = last + 1
    return rules
