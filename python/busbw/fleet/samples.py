"""What the samples of a group say: its level, and how sure that is.

The median is the level, since a burst of load does not move it. Of samples that stand at two levels by chance it jumps
from one to the other: then the mean without the outer eighths is the level, which does not, and its error is honest.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

FEWEST_ORDERED = 6
OUTER = 8  # one of so many samples is left out at each end
FEWEST_GAPS = 3
OFTEN = 0.3
"""Of groups with a gap, where levels are two; of normal samples a twentieth has one, of six or eight a sixth."""
OF_MEDIAN = 1.2533  # standard errors of a mean that a median of normal samples has (Kenney and Keeping 1962)


class Middle(NamedTuple):
    """The level of a group's samples, and one standard error by these alone, as a share; 0: they are too few."""

    level: float
    error: float


def by_median(samples: Sequence[float]) -> Middle:
    """With the error by the order statistics that hold the median in 95 of 100 cases."""
    count, middle = len(samples), statistics.median(samples)
    if count < FEWEST_ORDERED:
        return Middle(middle, 0.0)
    ordered, reach = sorted(samples), 0.98 * math.sqrt(count)
    low, high = ordered[math.floor(count / 2 - reach)], ordered[math.ceil(count / 2 + reach) - 1]
    return Middle(middle, (high - low) / (2 * 1.96) / middle)


def by_mean(samples: Sequence[float]) -> Middle:
    """Trimmed, with the error of its winsorized deviation (Tukey and McLaughlin 1963)."""
    ordered, out = sorted(samples), len(samples) // OUTER
    kept = ordered[out : len(ordered) - out]
    middle = statistics.fmean(kept)
    if len(samples) < FEWEST_ORDERED:
        return Middle(middle, 0.0)
    winsorized = statistics.stdev([*kept, *[kept[0]] * out, *[kept[-1]] * out])
    return Middle(middle, winsorized * math.sqrt(len(ordered)) / len(kept) / middle)


def has_gap(samples: Sequence[float]) -> bool:
    """Whether samples lie at both ends of a gap that no normal ones have in their middle half."""
    count = len(samples)
    if count < FEWEST_ORDERED:
        return False
    ordered = sorted(samples)
    gaps = [b - a for a, b in zip(ordered[count // 4 :], ordered[count // 4 + 1 : count - count // 4], strict=False)]
    return max(gaps) > (0.25 + 2 / count) * (ordered[-1 - count // 8] - ordered[count // 8])


def usual_spread(measured: Sequence[tuple[Sequence[float], float]], *, mixed: bool) -> float:
    """Standard deviation of one sample of groups with these levels, as a share.

    1.4826 * median absolute deviation, which a burst of load does not widen. Of mixed levels that says nothing: then it
    is what the error of their means is of, by the steadier three quarters of the groups.
    """
    # A hundred groups say it well enough; all of them would cost a second at a thousand nodes.
    chosen = measured[:: max(1, len(measured) // 100)]
    if not chosen:
        return 0.01
    if not mixed:
        found = [1.4826 * statistics.median(abs(s - m) for s in samples) / m for samples, m in chosen]
        return max(0.0005, statistics.median(found))
    errors = sorted(by_mean(samples).error * math.sqrt(len(samples)) for samples, _ in chosen)
    steady = errors[: math.ceil(0.75 * len(errors))]
    return max(0.0005, math.sqrt(statistics.fmean(error**2 for error in steady)) / OF_MEDIAN)
