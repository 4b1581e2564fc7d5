"""Change points of a series in time: where its level moved, by published tests that ask nothing of the distribution.

At each place two sides are compared by their rank sum (H. B. Mann, D. R. Whitney, Annals of Mathematical Statistics 18,
1947). Its chance without a change is bounded by the generating function of that sum (H. Chernoff, there 23, 1952),
which is exact where the sides do not overlap: six slow runs behind sixty are as sure as thirty behind thirty. This is
done in intervals of all lengths (seeded binary segmentation: S. Kovacs, P. Buehlmann, H. Li, A. Munk, Biometrika 110,
2023), and the surest place splits the series. Only places that can be as sure are counted against it (R. E. Tarone,
Biometrics 46, 1990). Values that follow their neighbours count for less (G. V. Bayley, J. M. Hammersley, Supplement to
the Journal of the Royal Statistical Society 8, 1946).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from statistics import fmean, median

FALSE_ALARMS = 0.01
"""The chance that a series without a change shows one."""

LEAST_SIDE = 3
"""So many values on either side make a level."""

SHORTEST = 12
"""In fewer values no change is sure to 1 %."""

LEAST_PERIOD, MOST_PERIOD, LEAST_SEASONS = 2, 60, 6
"""A season has so many runs, and is looked for where it came so often."""

RETURNS = 0.4
"""After a season values differ at most so much as they do within it, in squares."""

BLOCKS = range(4, 13)
"""So many runs that stand out and are over again are looked for as one."""

LEAST_TIED = 10
"""On a side with fewer values equal ones are taken as if they were not."""

MOST_EXACT = 20
"""Of more values on the smaller side the rank sum is as good as normal."""

SCATTERS = 3.5
"""So many standard errors of both sides' means lie between two levels."""

WORTH_A_LOOK = 0.02
"""What is likelier than this as a normal value is no change by the exact bound either."""


@dataclass(frozen=True)
class Change:
    """`at` is the first value of the new level; `ratio` is the new median over that of the level before."""

    at: int
    ratio: float
    chance: float


def changes(values: Sequence[float], margin: float = 0.02) -> list[Change]:
    """Where the level of positive values moved by more than the margin, in their order."""
    still = _without_season(values)
    chances = dict(_split(still, 0, len(still), _independent(still)))
    places = sorted(chances)
    while places:
        places, found = _relocated(still, places, chances)
        if (weakest := _within_scatter(still, places)) is not None:
            places.remove(weakest)
            continue
        least = min(found, key=lambda each: abs(math.log(each.ratio)))
        if abs(math.log(least.ratio)) > math.log1p(margin):
            return found
        # The smallest goes first: what remains may be a creep in steps that count together.
        places.remove(least.at)
    return []


def _within_scatter(values: Sequence[float], places: Sequence[int]) -> int | None:
    """The place whose two sides lie nearest together, where they are not apart by their own scatter (K. K. Yuen,
    Biometrika 61, 1974): ranks take a few wild runs that lie on one side by chance for a level."""
    logs = [math.log(each) for each in values]
    sides = [_mean_and_error(logs[begin:end]) for begin, end in pairwise([0, *places, len(values)])]
    apart = []
    for (before, one), (after, other) in pairwise(sides):
        error = math.hypot(one, other)
        apart.append(abs(after - before) / error if error else math.inf)
    weakest = min(range(len(places)), key=apart.__getitem__)
    return places[weakest] if apart[weakest] < SCATTERS else None


def _mean_and_error(logs: Sequence[float]) -> tuple[float, float]:
    """Of what is left without a fifth at either end; the scatter is that of all, with those ends drawn in."""
    cut = len(logs) // 5
    values = sorted(logs)
    kept = values[cut : len(values) - cut]
    drawn = [min(max(each, kept[0]), kept[-1]) for each in values]
    middle = math.fsum(drawn) / len(drawn)
    error = math.fsum((each - middle) ** 2 for each in drawn) / (len(kept) * max(1, len(kept) - 1))
    return math.fsum(kept) / len(kept), math.sqrt(error)


def _relocated(
    values: Sequence[float], places: Sequence[int], chances: dict[int, float]
) -> tuple[list[int], list[Change]]:
    """Each place anew between its neighbours, and the change there."""
    now = list(places)
    for number, place in enumerate(places):
        first = now[number - 1] if number else 0
        last = now[number + 1] if number + 1 < len(now) else len(values)
        now[number] = _between(values, first, place, last)
        chances.setdefault(now[number], chances[place])
    edges = [0, *now, len(values)]
    levels = [median(values[begin:end]) for begin, end in pairwise(edges)]
    found = [Change(at, after / before, chances[at]) for at, (before, after) in zip(now, pairwise(levels), strict=True)]
    return now, found


def _between(values: Sequence[float], first: int, place: int, last: int) -> int:
    """Where values stop to be nearer to the level before than to the one after: ranks say less of it."""
    before, after = median(values[first:place]), median(values[place:last])
    gain, best, found = 0.0, 0.0, place
    for at in range(first, last - LEAST_SIDE):
        gain += abs(values[at] - after) - abs(values[at] - before)
        if at + 1 - first >= LEAST_SIDE and gain > best:
            best, found = gain, at + 1
    return found


def _without_season(values: Sequence[float]) -> Sequence[float]:
    """Values over what is usual at their place in a period, where values return: days of a week, hours of a day.

    A season is a lag after which values are much more alike than after the shorter ones, and again after two of it.
    """
    count = len(values)
    if count < LEAST_SEASONS * LEAST_PERIOD:
        return values
    logs = [math.log(each) for each in values]
    apart = [0.0, *(_apart(logs, lag) for lag in range(1, min(MOST_PERIOD, count // LEAST_SEASONS) + 1))]
    most = 0.0
    found = 0
    for lag in range(LEAST_PERIOD, len(apart)):
        most = max(most, apart[lag - 1])
        if apart[lag] <= RETURNS * most and _apart(logs, 2 * lag) <= RETURNS * most:
            found = lag
            break
    if not found:
        return values
    # A dip has its bottom where values are alike most.
    near = range(found, min(found + found // 2 + 1, len(apart)))
    found = min(near, key=lambda lag: apart[lag] + _apart(logs, 2 * lag))
    usual = [median(logs[place::found]) for place in range(found)]
    return [each / math.exp(usual[at % found]) for at, each in enumerate(values)]


def _apart(logs: Sequence[float], lag: int) -> float:
    """How far values lie from those so many before, in squares; the largest fifth may be steps, and is left out."""
    differences = sorted(abs(after - before) for before, after in zip(logs, logs[lag:], strict=False))
    kept = differences[: max(1, len(differences) * 4 // 5)]
    return fmean(each * each for each in kept)


def _split(values: Sequence[float], first: int, last: int, independent: float) -> list[tuple[int, float]]:
    seeds = _intervals(first, last)
    best, middle = 1.0, 0
    for begin, end in seeds:
        at, chance = rank_sum(values[begin:end])
        chance **= independent
        if chance < best and first + LEAST_SIDE <= begin + at <= last - LEAST_SIDE:
            best, middle = chance, begin + at
    chance = best * sum(_as_sure(end - begin, best, independent) for begin, end in seeds)
    places, sure = _block(values, first, last, independent)
    if middle and chance <= sure:
        places, sure = [middle], chance
    if sure >= FALSE_ALARMS:
        return []
    edges = [first, *places, last]
    found = [(place, sure) for place in places]
    for begin, end in pairwise(edges):
        found += _split(values, begin, end, independent)
    return found


def _block(values: Sequence[float], first: int, last: int, independent: float) -> tuple[list[int], float]:
    """The few runs among all others that stand out most: both ends, and the chance that any would do so."""
    count = last - first
    if count < 2 * SHORTEST:
        return [], 1.0
    sums = [0.0, *accumulate(_ranks(values[first:last]))]
    best, place = 0.0, (0, 0)
    for width in BLOCKS:
        spread = width * (count - width)
        middle = width * (count + 1) / 2
        apart, begin = max(
            (abs(sums[begin + width] - sums[begin] - middle), begin)
            for begin in range(LEAST_SIDE, count - width - LEAST_SIDE)
        )
        if apart / math.sqrt(spread) > best:
            best, place = apart / math.sqrt(spread), (begin, width)
    begin, width = place
    chance = _bound(width, count - width, best * math.sqrt(width * (count - width))) ** independent
    return [first + begin, first + begin + width], chance * count * len(BLOCKS)


def _intervals(first: int, last: int) -> list[tuple[int, int]]:
    """The whole, its halves, quarters and so on, each by half of its length further than the one before."""
    found, part = [(first, last)], 2
    while (length := (last - first) // part) >= SHORTEST:
        steps = 2 * part - 1
        found += [(begin := first + (last - first - length) * step // (steps - 1), begin + length)
                  for step in range(steps)]  # fmt: skip
        part *= 2
    return found


def rank_sum(values: Sequence[float]) -> tuple[int, float]:
    """Where two sides differ most (the first value of the second), and the chance of as much at that place."""
    count = len(values)
    if count < 2 * LEAST_SIDE:
        return 0, 1.0
    total, best, at, moved = 0.0, 0.0, 0, 0.0
    for index, rank in enumerate(_ranks(values), start=1):
        total += rank
        if LEAST_SIDE <= index <= count - LEAST_SIDE:
            apart = abs(total - index * (count + 1) / 2)
            far = apart / math.sqrt(index * (count - index))
            if far > best:
                best, at, moved = far, index, apart
    if not at:
        return 0, 1.0
    few = min(at, count - at)
    # Equal values share their rank, so that sums of them lie nearer together (Mann and Whitney's variance with ties).
    tied = _ties(values) / (count - 1) if few >= LEAST_TIED else 0.0
    normal = math.erfc(best * math.sqrt(12 / max(count + 1 - tied, 1e-9)) / math.sqrt(2))
    if few > MOST_EXACT or normal > WORTH_A_LOOK:
        return at, normal
    return at, min(normal, _bound(few, count - few, moved))


def _ties(values: Sequence[float]) -> float:
    """The sum of t^3 - t over values that come t times, over the count of all."""
    return sum(times**3 - times for times in Counter(values).values()) / len(values)


def _bound(few: int, many: int, apart: float) -> float:
    """At most the chance, both ways, that a rank sum of `few` among `many` lies so far from its mean."""
    over = few * many / 2 + apart
    separate = 2 * math.exp(-_log_ways(few + many, few))
    if over > few * many - 0.5:
        return separate

    def exponent(logarithm: float) -> float:
        theta = math.exp(logarithm)
        return math.fsum(
            _log_expm1((many + each) * theta) - math.log(many + each) - _log_expm1(each * theta) + math.log(each)
            for each in range(1, few + 1)
        ) - theta * over  # fmt: skip

    low, high = math.log(1e-6 / many), math.log(50.0)
    for _ in range(24):
        third = (high - low) / 3
        if exponent(low + third) < exponent(high - third):
            high -= third
        else:
            low += third
    return max(separate, min(1.0, 2 * math.exp(exponent((low + high) / 2))))


def _log_expm1(value: float) -> float:
    return value + math.log(-math.expm1(-value))


def _log_ways(count: int, few: int) -> float:
    return math.lgamma(count + 1) - math.lgamma(few + 1) - math.lgamma(count - few + 1)


@lru_cache(maxsize=4096)
def _as_sure(count: int, chance: float, independent: float) -> int:
    """How many places of that many values could show such a chance: near the ends few values say little."""
    wanted = math.log(chance) if chance > 0 else -math.inf
    few = next(
        (each for each in range(LEAST_SIDE, count // 2 + 1)
         if independent * (math.log(2) - _log_ways(count, each)) <= wanted), None,
    )  # fmt: skip
    return max(1, count - 2 * few + 1) if few else 1


def _independent(values: Sequence[float]) -> float:
    """Which part of the values counts, where each follows the one before: 1 where none does.

    From differences over one and over two runs, which a change of level hardly alters: of a sequence in which a value
    keeps the share r of the one before, their squares are as 1 to 1 + r.
    """
    logs = [math.log(each) for each in values]
    split = _between(values, 0, place, len(values)) if (place := rank_sum(values)[0]) else 0
    near, far = (
        [abs(logs[at + over] - each) for at, each in enumerate(logs[:-over]) if not at < split <= at + over]
        for over in (1, 2)
    )
    if len(far) < SHORTEST or not (usual := median(near)):
        return 1.0
    # What is further off is a step or a bad run, and counts as if it were not.
    squares = [fmean(min(each, 4 * usual) ** 2 for each in some) for some in (near, far)]
    share = squares[1] / squares[0] - 1 - 1.5 / math.sqrt(len(logs))
    share = min(0.9, max(0.0, share))
    return (1 - share) / (1 + share)


def _ranks(values: Sequence[float]) -> list[float]:
    """From 1; equal values share their mean rank."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for position in range(start, end + 1):
            ranks[order[position]] = (start + end) / 2 + 1
        start = end + 1
    return ranks
