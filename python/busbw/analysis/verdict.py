"""The rule that turns a ratio of speeds and its interval into faster, slower, no difference or undecided."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from busbw.analysis.statistics import MIN_SAMPLES, Interval

# Differences smaller than this do not matter to anyone who schedules or buys a cluster; an interval within it reads
# "no difference" even where it excludes 1.
MARGIN = 0.02
# One sample carries no noise of its own. The single-sample tables of the reference pages scatter by 1 to 3 % from size
# to size; a difference is only called when it is well outside of what such a table can do by chance.
SINGLE_SAMPLE_MARGIN = 0.10
SINGLE_SAMPLE_SCATTERS = 4.0


class Verdict(Enum):
    """What can be said of B against A."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no difference"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Judgement:
    """A verdict with the reason it was given for."""

    verdict: Verdict
    reason: str


def judge(interval: Interval, *, margin: float = MARGIN) -> Judgement:
    """Judges a ratio of speeds (B over A) by its confidence interval.

    Wholly within the margin around 1: no difference. Otherwise faster or slower if the interval excludes 1, and
    undecided if it does not: then it holds both 1 and a difference that would matter.
    """
    if 1 / (1 + margin) <= interval.low and interval.high <= 1 + margin:
        return Judgement(Verdict.NO_DIFFERENCE, f"the interval lies within {margin:.0%} of equal")
    if interval.low > 1:
        return Judgement(Verdict.FASTER, f"the {interval.level:.0%} interval lies above equal")
    if interval.high < 1:
        return Judgement(Verdict.SLOWER, f"the {interval.level:.0%} interval lies below equal")
    return Judgement(Verdict.UNDECIDED, f"the {interval.level:.0%} interval holds equal and more than {margin:.0%}")


def judge_single(
    ratio: float, scatter: float | None, *, samples: tuple[int, int] = (1, 1), margin: float = SINGLE_SAMPLE_MARGIN
) -> Judgement:
    """Judges a ratio of one sample each, or too few for an interval: by a fixed margin and its scatter over sizes.

    No interval is claimed, and "no difference" is never said: a single pair cannot show it.
    """
    needed = margin if scatter is None else max(margin, math.expm1(SINGLE_SAMPLE_SCATTERS * scatter))
    few = "one sample each" if max(samples) <= 1 else f"{samples[0]} and {samples[1]} samples, {MIN_SAMPLES} needed"
    if ratio > 1 + needed:
        return Judgement(Verdict.FASTER, f"{few}: no interval; differs by more than {needed:.0%}")
    if ratio < 1 / (1 + needed):
        return Judgement(Verdict.SLOWER, f"{few}: no interval; differs by more than {needed:.0%}")
    return Judgement(Verdict.UNDECIDED, f"{few}: no interval; differs by less than {needed:.0%}")
