"""Change points of a series in time: where its level moved, by a published test that asks nothing of the distribution.

Source: A. N. Pettitt, "A non-parametric approach to the change-point problem", Applied Statistics 28 (1979). With ranks
R of n values, U_t = 2 (R_1 + ... + R_t) - t (n + 1) is largest in size at the change, and a series without one exceeds
K with a probability of about 2 exp(-6 K^2 / (n^3 + n^2)). A level that lasted a while and went again is no change
of the whole series: intervals of half and quarter its length are tested too, and the surest splits it (seeded binary
segmentation: S. Kovacs, P. Buehlmann, H. Li, A. Munk, Biometrika 110, 2023). Both sides are searched again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

FALSE_ALARMS = 0.01
"""The chance that a series without a change shows one."""

LEAST_SIDE = 3
"""So many values on either side make a level."""

SHORTEST = 12
"""In fewer values no change is sure to 1 %."""


@dataclass(frozen=True)
class Change:
    """`at` is the first value of the new level; `ratio` is the new median over that of the level before."""

    at: int
    ratio: float
    chance: float


def changes(values: Sequence[float], margin: float = 0.02) -> list[Change]:
    """Where the level of positive values moved by more than the margin, in their order."""
    ends = sorted(_split(values, 0, len(values), margin))
    edges = [0, *(at for at, _ in ends), len(values)]
    found = []
    for number, (at, chance) in enumerate(ends):
        before, after = median(values[edges[number] : at]), median(values[at : edges[number + 2]])
        if abs(math.log(after / before)) > math.log1p(margin):
            found.append(Change(at, after / before, chance))
    return found


def _split(values: Sequence[float], first: int, last: int, margin: float) -> list[tuple[int, float]]:
    seeds = _intervals(first, last)
    tested = sorted((pettitt(values[begin:end])[::-1], begin) for begin, end in seeds)
    for (chance, at), begin in tested:
        middle = begin + at
        if chance * len(seeds) >= FALSE_ALARMS:
            break
        if not first + LEAST_SIDE <= middle <= last - LEAST_SIDE or at < LEAST_SIDE:
            continue
        return [*_split(values, first, middle, margin), (middle, chance), *_split(values, middle, last, margin)]
    return []


def _intervals(first: int, last: int) -> list[tuple[int, int]]:
    """The whole, its halves and its quarters, each by half of its length further than the one before."""
    found = [(first, last)]
    for part in (2, 4):
        length = (last - first) // part
        if length >= SHORTEST:
            steps = 2 * part - 1
            found += [(begin := first + (last - first - length) * step // (steps - 1), begin + length)
                      for step in range(steps)]  # fmt: skip
    return found


def pettitt(values: Sequence[float]) -> tuple[int, float]:
    """Where the change would be (the first value after it), and the chance of as much without one."""
    count = len(values)
    if count < 2 * LEAST_SIDE:
        return 0, 1.0
    total, best, at = 0.0, 0.0, 0
    for index, rank in enumerate(_ranks(values), start=1):
        total += rank
        moved = abs(2 * total - index * (count + 1))
        if moved > best and index < count:
            best, at = moved, index
    return at, min(1.0, 2 * math.exp(-6 * best**2 / (count**3 + count**2)))


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
