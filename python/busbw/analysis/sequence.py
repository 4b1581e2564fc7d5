"""Intervals that stay honest however often somebody looks: what stopping early needs.

A 95 % interval of a fixed number of samples is wrong far more often than one time in twenty if it is computed after
every round and the first that excludes equality ends the experiment. The interval here holds at all rounds at once with
its level (a confidence sequence), so that one may look after each round and stop at will.

Source: the Bayes factor of the t-test with a normal prior on the standardised effect and the right Haar prior on the
standard deviation is a test martingale under the null hypothesis (Lai 1976; Hendriksen, de Heide, Grünwald, "Optional
stopping with Bayes factors", Bayesian Analysis 2021), so by Ville's inequality it ever exceeds 1/alpha with a
probability of at most alpha. Solving it for the mean gives a closed form.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

from busbw.analysis.statistics import Interval, median

PRIOR_VARIANCE = 100.0
"""Of the effect in standard deviations of one round: decides where the interval is narrowest, not whether it is right.
With 100 three rounds can be enough, which a wrong setting that costs a factor deserves; 10 would need four."""

MIN_ROUNDS = 3


def critical_t(rounds: int, alpha: float) -> float:
    """How many standard errors of the mean lie inside the interval after so many rounds; infinite below 3.

    With n rounds the Bayes factor at t is (1 + n g)^(-1/2) ((1 + x) / (1 + x / (1 + n g)))^(n/2), x = t^2 / (n - 1).
    """
    if not 0 < alpha < 1:
        raise ValueError(f"an error rate lies between 0 and 1, not at {alpha}")
    if rounds < MIN_ROUNDS:
        return math.inf
    spread = 1 + rounds * PRIOR_VARIANCE
    bound = (math.sqrt(spread) / alpha) ** (2 / rounds)
    if bound >= spread:
        return math.inf
    return math.sqrt((rounds - 1) * (bound - 1) / (1 - bound / spread))


def ratio_sequence(logs: Sequence[float], alpha: float) -> Interval | None:
    """The interval of a ratio from its logarithms, one a round; None while it would be unbounded.

    Valid at every round at once: the chance that the true ratio is ever outside is at most alpha. Half of alpha goes to
    the mean, which is sure soonest where noise is small, half to the median, which a neighbour that now and then takes
    the machine for seconds does not disturb; both hold at once, so the truth lies in their intersection.
    """
    parts = [part for part in (mean_sequence(logs, alpha / 2), median_sequence(logs, alpha / 2)) if part is not None]
    if not parts:
        return None
    low, high = max(low for low, _ in parts), min(high for _, high in parts)
    if low > high:  # so skew that mean and median differ: claim no more than either allows
        low, high = min(low for low, _ in parts), max(high for _, high in parts)
    if high > 700:  # exp would overflow: such an interval says nothing
        return None
    return Interval(math.exp(low), math.exp(high), 1 - alpha)


def mean_sequence(values: Sequence[float], alpha: float) -> tuple[float, float] | None:
    """The interval of the mean of normal values, at every round at once."""
    rounds = len(values)
    critical = critical_t(rounds, alpha)
    if math.isinf(critical):
        return None
    mean = math.fsum(values) / rounds
    squares = math.fsum((value - mean) ** 2 for value in values)
    half = critical * math.sqrt(squares / (rounds - 1) / rounds)
    return mean - half, mean + half


def median_sequence(values: Sequence[float], alpha: float) -> tuple[float, float] | None:
    """The interval of the median of any values, at every round at once: between two order statistics.

    Of n independent values k lie above their median with probability C(n, k) / 2^n, whatever their distribution; mixing
    the alternatives uniformly gives the test martingale 2^n / ((n + 1) C(n, k)) (Robbins, "Statistical methods related
    to the law of the iterated logarithm", 1970).
    """
    rounds = len(values)
    # The least number of values on one side that is still believable; 0 leaves that side open. By logarithms, since
    # neither 2^n nor C(n, k) of a long experiment is a float; C(n, k) grows up to the middle.
    bound = math.log(alpha) + rounds * math.log(2) - math.log(rounds + 1) - math.lgamma(rounds + 1)
    least = bisect_right(range(rounds // 2), bound, key=lambda k: -math.lgamma(k + 1) - math.lgamma(rounds - k + 1))
    if least == 0:
        return None
    ordered = sorted(values)
    return ordered[least - 1], ordered[rounds - least]


def centre(logs: Sequence[float], interval: Interval | None) -> float:
    """The ratio to show: the median round's, or the end of the interval that is nearest to it."""
    middle = math.exp(median(logs))
    return middle if interval is None else min(max(middle, interval.low), interval.high)
