"""B against A, the one place: the ratio of their speeds, its interval, the verdict, and the words for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from busbw.analysis.sequence import MIN_ROUNDS, centre, critical_t, ratio_sequence
from busbw.analysis.statistics import LEVEL, MIN_SAMPLES, Interval, median, ratio_interval, repeat_interval

# Differences smaller than this do not matter to anyone who schedules or buys a cluster; an interval within it reads
# "no difference" even where it excludes 1.
MARGIN = 0.02
ALPHA = 0.05
"""The chance of a false claim."""

# One sample carries no noise of its own. The single-sample tables of the reference pages scatter by 1 to 3 % from size
# to size; a difference is only called when it is well outside of what such a table can do by chance.
SINGLE_SAMPLE_MARGIN = 0.10
SINGLE_SAMPLE_SCATTERS = 4.0

MANY = 10_000
"""Nobody measures so many rounds; that more are needed is all that is said."""


class Verdict(Enum):
    """What can be said of B against A."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no difference"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Judgement:
    """B against A. `ratio` is of speeds: 2 means that B takes half the time. `reason` says why this verdict was given.

    `more` is about how many more samples a side (of `unit`) would decide; None where that cannot be told.
    """

    verdict: Verdict
    reason: str
    ratio: float | None = None
    interval: Interval | None = None
    more: int | None = None
    unit: str = "rounds"

    @property
    def sure(self) -> bool:
        return self.verdict is not Verdict.UNDECIDED

    def words(self, b: str = "B") -> str:
        """`B is 1.18 to 1.22 times as fast`, `no difference above 1 %` or `undecided: needs about 12 more rounds`."""
        if self.verdict is Verdict.UNDECIDED:
            return f"undecided: {self._missing()}"
        if self.verdict is Verdict.NO_DIFFERENCE:
            return no_difference(self.interval) if self.interval else "no difference"
        if self.interval is not None:
            return times_as_fast(self.interval.low, self.interval.high, b)
        return about_as_fast(self.ratio, self.ratio, b) if self.ratio else f"{b} is {self.verdict.value}"

    def _missing(self) -> str:
        if self.more is None:
            return self.reason
        if self.more > MANY:
            return f"needs more than {MANY:,} more {self.unit}"
        return f"needs about {self.more:,} more {self.unit if self.more != 1 else self.unit.removesuffix('s')}"


class Judged:
    """What carries a verdict: its ratio of speeds and the interval, where they are read."""

    judgement: Judgement

    @property
    def ratio(self) -> float:
        assert self.judgement.ratio is not None
        return self.judgement.ratio

    @property
    def interval(self) -> Interval | None:
        return self.judgement.interval


def times_as_fast(low: float, high: float, b: str = "B") -> str:
    """`B is 1.18 to 1.22 times as fast`; one figure where both ends read the same."""
    decimals = 0 if low >= 100 else 1 if low >= 10 else 2
    # Never "1.00 times as fast" of something that is faster; and 0.0021, not 0.00.
    while decimals < 6 and any(round(end, decimals) == 1 != end or end < 20 / 10**decimals for end in (low, high)):
        decimals += 1
    first, last = (f"{end:.{decimals}f}" if end < 1e6 else f"{end:.3g}" for end in (low, high))
    return _times(first, last, b)


def about_as_fast(low: float, high: float, b: str = "B") -> str:
    """The same of figures that are no interval, which do not deserve so many digits."""
    return _times(format_ratio(low), format_ratio(high), b)


def _times(first: str, last: str, b: str) -> str:
    return f"{b} is {first if first == last else f'{first} to {last}'} times as fast"


def format_ratio(ratio: float) -> str:
    """Two significant digits and never a bare 1.0 for something that is not: 3.9, 1.42, 0.26, 12."""
    if ratio >= 10:
        return f"{ratio:.0f}"
    return f"{ratio:.1f}" if ratio >= 2 else f"{ratio:.2f}"


def no_difference(interval: Interval) -> str:
    """`no difference above 1 %`: how far from equal the interval still reaches, rounded up."""
    bound = max(interval.high - 1, 1 / interval.low - 1, 0.0)
    return f"no difference above {max(math.ceil(round(bound * 1000, 6)) / 10, 0.1):g} %"


def judge(
    interval: Interval, *, margin: float = MARGIN, ratio: float | None = None, have: int = 0, unit: str = "rounds"
) -> Judgement:
    """Judges a ratio of speeds (B over A) by its confidence interval, which came from `have` samples a side.

    Wholly within the margin around 1: no difference. Otherwise faster or slower if the interval excludes 1, and
    undecided if it does not: then it holds both 1 and a difference that would matter.
    """
    more = None
    if 1 / (1 + margin) <= interval.low and interval.high <= 1 + margin:
        verdict, why = Verdict.NO_DIFFERENCE, f"the interval lies within {margin:.0%} of equal"
    elif interval.low > 1:
        verdict, why = Verdict.FASTER, f"the {interval.level:.0%} interval lies above equal"
    elif interval.high < 1:
        verdict, why = Verdict.SLOWER, f"the {interval.level:.0%} interval lies below equal"
    else:
        verdict, why = Verdict.UNDECIDED, f"the {interval.level:.0%} interval holds equal and more than {margin:.0%}"
        half, needed = _widths(interval, ratio, margin)
        # The width of an interval of independent samples goes with the root of their number.
        more = max(1, math.ceil(min(have * (half / needed) ** 2, 1e9)) - have) if have and half > 0 else None
    return Judgement(verdict, why, ratio, interval, more, unit)


def of_samples(
    before: Sequence[float],
    after: Sequence[float],
    *,
    level: float = LEVEL,
    margin: float = MARGIN,
    factor: float = 1.0,
) -> Judgement:
    """Independent samples of times within one run a side: the bootstrap of the ratio of medians.

    `factor` carries the ratio of times over to one of rates, where both sides move different amounts.
    """
    interval = ratio_interval(before, after, level=level)
    return _independent(before, after, interval, (margin, factor), "samples")


def of_runs(
    before: Sequence[float], after: Sequence[float], *, margin: float = MARGIN, factor: float = 1.0
) -> Judgement:
    """Times of runs that repeat each other, one of each run: what differs between runs is the noise."""
    return _independent(before, after, repeat_interval(before, after), (margin, factor), "runs")


def _independent(
    before: Sequence[float], after: Sequence[float], interval: Interval | None, how: tuple[float, float], unit: str
) -> Judgement:
    margin, factor = how
    ratio = median(before) / median(after) * factor
    if interval is None:
        return judge_single(ratio, None, samples=(len(before), len(after)))
    interval = Interval(interval.low * factor, interval.high * factor, interval.level)
    # Of few runs the interval is about the mean of their logarithms, which need not hold the ratio of medians.
    shown = ratio if interval.contains(ratio) else math.sqrt(interval.low * interval.high)
    return judge(interval, margin=margin, ratio=shown, have=min(len(before), len(after)), unit=unit)


def of_rounds(
    logs: Sequence[float], *, alpha: float = ALPHA, margin: float = MARGIN, min_rounds: int = MIN_ROUNDS
) -> Judgement:
    """Paired rounds, in which A and B were measured next to each other: each the logarithm of the ratio of speeds.

    The interval holds however often somebody looks, so that a loop may stop at the first verdict.
    """
    interval = ratio_sequence(logs, alpha)
    ratio = centre(logs, interval) if logs else None
    rounds = len(logs)
    if interval is None or rounds < min_rounds:
        few = Judgement(Verdict.UNDECIDED, f"{rounds} rounds are too few", ratio, interval)
        return replace(few, more=max(min_rounds - rounds, _more_rounds(logs, interval, alpha, margin)))
    found = judge(interval, margin=margin, ratio=ratio)
    return found if found.sure else replace(found, more=_more_rounds(logs, interval, alpha, margin))


def judge_single(
    ratio: float, scatter: float | None, *, samples: tuple[int, int] = (1, 1), margin: float = SINGLE_SAMPLE_MARGIN
) -> Judgement:
    """Judges a ratio of one sample each, or too few for an interval: by a fixed margin and its scatter over sizes.

    No interval is claimed, and "no difference" is never said: a single pair cannot show it.
    """
    needed = margin if scatter is None else max(margin, math.expm1(SINGLE_SAMPLE_SCATTERS * scatter))
    few = "one sample each" if max(samples) <= 1 else f"{samples[0]} and {samples[1]} samples, {MIN_SAMPLES} needed"
    if ratio > 1 + needed:
        return Judgement(Verdict.FASTER, f"{few}: no interval; differs by more than {needed:.0%}", ratio)
    if ratio < 1 / (1 + needed):
        return Judgement(Verdict.SLOWER, f"{few}: no interval; differs by more than {needed:.0%}", ratio)
    return Judgement(Verdict.UNDECIDED, f"{few}: no interval; differs by less than {needed:.0%}", ratio)


def _widths(interval: Interval, ratio: float | None, margin: float) -> tuple[float, float]:
    """Half of the interval, and the half that would decide: excluding equal or lying within the margin, as is nearer.

    Both on the logarithm, about the ratio that was found.
    """
    low, high = math.log(interval.low), math.log(interval.high)
    middle = abs(math.log(ratio) if ratio else (low + high) / 2)
    return (high - low) / 2, max(middle, math.log1p(margin) - middle)


def _more_rounds(logs: Sequence[float], interval: Interval | None, alpha: float, margin: float) -> int:
    """About how many more rounds decide, if they scatter as those so far: where their interval is narrow enough."""
    rounds = len(logs)
    if rounds < 2:
        return MIN_ROUNDS - rounds
    mean = math.fsum(logs) / rounds
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in logs) / (rounds - 1))
    middle = abs(mean)
    if interval is not None:
        half, _ = _widths(interval, None, margin)
        middle = abs(median(logs))
        # Outliers widen the deviation and not the interval, which then is that of the median.
        if math.isfinite(of_one := _half_widths(rounds, alpha)):
            deviation = min(deviation, half / of_one)
    needed = max(middle, math.log1p(margin) - middle)
    first, last = rounds, max(rounds, MIN_ROUNDS)
    while _half_widths(last, alpha) * deviation > needed and last < 100 * MANY:
        first, last = last, 2 * last
    while last - first > 1:
        middle_of = (first + last) // 2
        wide = _half_widths(middle_of, alpha) * deviation > needed
        first, last = (middle_of, last) if wide else (first, middle_of)
    return max(1, last - rounds)


def _half_widths(rounds: int, alpha: float) -> float:
    """Half of the interval of the mean after so many rounds, in standard deviations of one round."""
    return critical_t(rounds, alpha / 2) / math.sqrt(rounds)
