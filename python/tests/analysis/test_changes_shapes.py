"""Twenty-five histories as machines have them: gaps, mixed machines, upgrades, drift, seasons, bursts, outliers.

Seeds from 100 on were set aside while the search was changed; those below were looked at.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from busbw.analysis.changes import changes

Values = list[float]
SEEDS = (*range(4), *range(100, 106))


def level(chance: random.Random, *parts: tuple[int, float], noise: float = 0.012, wild: float = 0.0) -> Values:
    """Values around each level; a share of them is slower by any amount."""
    found = []
    for count, middle in parts:
        for _ in range(count):
            off = chance.gauss(0, noise) + (abs(chance.gauss(0, 0.3)) if wild and chance.random() < wild else 0.0)
            found.append(middle * math.exp(off))
    return found


def mixed(chance: random.Random, count: int, *middles: float) -> Values:
    """Machines that take turns as they like."""
    found = level(chance, *((count, middle) for middle in middles))
    chance.shuffle(found)
    return found


def by_place(count: int, of: Callable[[int], float], noise: float = 0.012) -> Callable[[random.Random], Values]:
    return lambda chance: [100 * of(at) * math.exp(chance.gauss(0, noise)) for at in range(count)]


def two_levels(share: Callable[[int], float]) -> Callable[[random.Random], Values]:
    return lambda chance: [100 * (1.25 if chance.random() < share(at) else 1) * math.exp(chance.gauss(0, 0.012))
                           for at in range(90)]  # fmt: skip


def whole(values: Values) -> Values:
    return [float(round(value)) for value in values]


SHAPES: dict[str, tuple[Callable[[random.Random], Values], list[int]]] = {
    "slower behind a gap": (lambda c: level(c, (28, 100), (22, 109)), [28]),
    "as fast behind a gap": (lambda c: level(c, (28, 100), (22, 100)), []),
    "a driver": (lambda c: level(c, (40, 100), (25, 106)), [40]),
    "a driver, rolled back": (lambda c: level(c, (30, 100), (14, 112), (30, 100)), [30, 44]),
    "two machines mixed": (lambda c: mixed(c, 40, 100, 130), []),
    "often at two levels": (two_levels(lambda _: 0.1), []),
    "seldom, then often": (two_levels(lambda at: 0.1 if at < 45 else 0.9), [45]),
    "drift and a step": (by_place(60, lambda at: (1 + 0.02 * at / 60) * (1.12 if at >= 40 else 1), 0.01), [40]),
    "outliers": (lambda c: level(c, (90, 100), wild=0.05), []),
    "outliers and a step": (lambda c: level(c, (45, 100), (30, 110), wild=0.05), [45]),
    "noise of 10 %": (lambda c: level(c, (60, 100), noise=0.1), []),
    "noise of 10 % and a step": (lambda c: level(c, (35, 100), (25, 130), noise=0.1), [35]),
    "a burst of noise": (lambda c: [100 * math.exp(c.gauss(0, 0.15 if 20 <= at < 30 else 0.012)) for at in range(70)],
                         []),
    "the last four": (lambda c: level(c, (50, 100), (4, 125)), [50]),
    "a staircase": (lambda c: level(c, (20, 100), (20, 105), (20, 111), (20, 117)), [20, 40, 60]),
    "faster": (lambda c: level(c, (33, 100), (33, 88)), [33]),
    "whole microseconds": (lambda c: whole(level(c, (40, 12), noise=0.02)), []),
    "whole microseconds and a step": (lambda c: whole(level(c, (40, 12), (30, 14), noise=0.02)), [40]),
    "ends of months": (by_place(120, lambda at: 1.15 if at % 30 >= 28 else 1), []),
    "a first week": (lambda c: level(c, (7, 120), (50, 100)), [7]),
    "a busy week": (lambda c: level(c, (30, 100)) + level(c, (7, 108), noise=0.04) + level(c, (30, 100)), [30, 37]),
}  # fmt: skip
SELDOM = {
    "a busy week": 5,
    "a burst of noise": 5,
    "the last four": 8,
    "outliers and a step": 8,
    "seldom, then often": 8,
}
"""Of ten; the others are right at least nine times."""


@pytest.mark.parametrize("name", SHAPES)
def test_a_history_has_the_changes_that_it_has(name: str) -> None:
    make, places = SHAPES[name]
    found = [[each.at for each in changes(make(random.Random(f"{name} {seed}")))] for seed in SEEDS]
    right = sum(
        len(each) == len(places) and all(abs(a - b) <= 3 for a, b in zip(each, places, strict=True)) for each in found
    )
    assert right >= SELDOM.get(name, 9), found


@pytest.mark.parametrize("seed", [58, 61, 69])
def test_a_few_wild_runs_on_one_side_are_no_level(seed: int) -> None:
    """Ranks alone take runs that lie on one side by chance for a level; their own scatter says otherwise."""
    make, _ = SHAPES["a burst of noise"]
    assert changes(make(random.Random(seed))) == []


@pytest.mark.parametrize("seed", range(12))
def test_wild_runs_within_a_side_hide_no_step(seed: int) -> None:
    draw = random.Random(seed)
    wild = [draw.uniform(1.2, 5) if draw.random() < 0.06 else 1.0 for _ in range(80)]
    values = [100 * math.exp(draw.gauss(0, 0.02)) * (1.08 if at >= 40 else 1) * wild[at] for at in range(80)]
    found = changes(values)
    assert [abs(each.at - 40) <= 3 for each in found] == [True]
