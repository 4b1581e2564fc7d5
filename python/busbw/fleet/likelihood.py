"""How badly one result fits what a hypothesis predicts for it."""

from __future__ import annotations

import math
from collections.abc import Iterable

from busbw.fleet.trial import Deviation

SPREAD = 40.0  # what a result that a hypothesis cannot explain costs at most: one wild result condemns nobody
SHAPES = 0.05  # groups of different shapes lose a twentieth more or less of the same fault
ACQUITS = 3 * SPREAD  # what is quicker than a fault lets it be says more: load makes groups slow, and none quick
UNSTEADY = 4.0  # of a result whose samples scatter far more than others': one that load made tells little


def mean(ones: Iterable[Deviation]) -> float:
    weighed = [(one.loss, 1 / max(one.error, 0.001) ** 2) for one in ones]
    return sum(loss * weight for loss, weight in weighed) / sum(weight for _, weight in weighed)


def penalty(one: Deviation, predicted: float) -> float:
    if one.reason:
        return 0.0 if predicted >= 1 else SPREAD
    sigma = math.hypot(one.error, SHAPES * predicted)
    most = UNSTEADY if one.wide else ACQUITS if one.loss < predicted else SPREAD
    return min(most, 0.5 * ((one.loss - predicted) / sigma) ** 2 + math.log(sigma / one.error))
