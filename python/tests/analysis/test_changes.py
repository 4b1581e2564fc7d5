"""Changes of a level are found near both ends, for a while and in steps, and noise that lasts is none."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import combinations

import pytest

from busbw.analysis.changes import _bound, changes, rank_sum

Levels = list[tuple[int, float]]


def noisy(levels: Levels, seed: int, noise: float = 0.01, keeps: float = 0.0) -> list[float]:
    """Values around their level; each keeps a share of how far off the one before was."""
    rng, off, found = random.Random(seed), 0.0, []
    for count, level in levels:
        for _ in range(count):
            off = keeps * off + rng.gauss(0, noise * math.sqrt(1 - keeps**2))
            found.append(level * math.exp(off))
    return found


# What strangers' series look like: where the level moved, how far off that may be told, and of how many seeds.
@pytest.mark.parametrize(
    ("levels", "places", "of_20"),
    [
        ([(60, 100.0), (6, 110.0)], [60], 20),  # the last six runs of many
        ([(7, 100.0), (60, 110.0)], [7], 19),
        ([(6, 100.0), (6, 130.0)], [6], 20),
        ([(30, 100.0), (10, 180.0), (30, 100.0)], [30, 40], 20),  # broken, and repaired
        ([(25, 100.0), (5, 115.0), (25, 100.0)], [25, 30], 6),
        ([(25, 100.0), (7, 108.0), (25, 117.0)], [25, 32], 14),
        ([(15, 100.0), (40, 92.0)], [15], 19),  # not in the middle, where both sides are apart
        ([(20, 100.0), (3, 140.0), (20, 100.0)], [], 16),  # three runs are not sure
        ([(80, 100.0)], [], 19),
    ],
)
def test_levels_that_moved(levels: Levels, places: list[int], of_20: int) -> None:
    found = [[change.at for change in changes(noisy(levels, seed))] for seed in range(20)]
    right = sum(len(each) == len(places) and all(abs(a - b) <= 2 for a, b in zip(each, places, strict=True))
                for each in found)  # fmt: skip
    assert right >= of_20, found


@pytest.mark.parametrize("wave", [
    lambda at: math.sin(2 * math.pi * at / 7), lambda at: float(at % 7 < 5), lambda at: float(at % 2),
    lambda at: 1.3 * math.sin(2 * math.pi * at / 24),
])  # fmt: skip
def test_a_season_is_no_change_and_hides_none(wave: Callable[[int], float]) -> None:
    still = [changes([each * (1 + 0.03 * wave(at)) for at, each in enumerate(noisy([(168, 100.0)], seed))])
             for seed in range(5)]  # fmt: skip
    moved = [[change.at for change in changes([each * (1 + 0.03 * wave(at)) for at, each in enumerate(
        noisy([(90, 100.0), (78, 108.0)], seed))])] for seed in range(5)]  # fmt: skip
    assert sum(not each for each in still) >= 5, still
    assert sum(len(each) == 1 and abs(each[0] - 90) <= 4 for each in moved) >= 5, moved


def test_times_that_a_clock_counts_in_whole_microseconds_change_too() -> None:
    def ticks(count: int, share: float, rng: random.Random) -> list[float]:
        return [13.0 if rng.random() < share else 12.0 for _ in range(count)]

    rngs = [random.Random(seed) for seed in range(20)]
    found = [changes(ticks(25, 0.1, rng) + ticks(25, 0.8, rng)) for rng in rngs]
    assert sum(len(each) == 1 and abs(each[0].at - 25) <= 4 for each in found) >= 18, found
    assert sum(bool(changes(ticks(80, 0.25, rng))) for rng in rngs) <= 1


def test_a_creep_in_steps_below_the_margin_is_told() -> None:
    creep = [value * (1 + 0.1 * number / 79) for number, value in enumerate(noisy([(80, 100.0)], 1, 0.005))]
    found = changes(creep)
    assert found and all(change.ratio > 1.02 for change in found)
    assert 1.05 < math.prod(change.ratio for change in found) < 1.12
    assert changes(creep, margin=0.2) == []


@pytest.mark.parametrize(
    ("make", "of_100"),
    [
        (lambda seed: noisy([(40, 100.0)], seed, 0.03), 2),
        (lambda seed: noisy([(100, 100.0)], seed, 0.03, keeps=0.3), 5),
        (lambda seed: noisy([(100, 100.0)], seed, 0.03, keeps=0.6), 9),
        (lambda seed: [value * (1.6 if value > 101.3 else 1) for value in noisy([(60, 100.0)], seed)], 2),
        (lambda seed: [100.0 if value > 100 else 112.0 for value in noisy([(80, 100.0)], seed)], 2),
    ],
)
def test_noise_is_seldom_a_change_also_where_it_lasts(make: Callable[[int], list[float]], of_100: int) -> None:
    assert sum(bool(changes(make(seed))) for seed in range(100)) <= of_100


@pytest.mark.parametrize(("few", "many"), [(6, 6), (3, 11), (5, 8)])
def test_the_chance_of_a_rank_sum_is_at_least_that_of_all_ways(few: int, many: int) -> None:
    sums = [sum(each) for each in combinations(range(1, few + many + 1), few)]
    middle = few * (few + many + 1) / 2
    for apart in {abs(each - middle) for each in sums} - {0.0}:
        exact = sum(abs(each - middle) >= apart for each in sums) / len(sums)
        assert exact * 0.999 <= _bound(few, many, apart) <= 12 * exact + 1e-9
    assert _bound(few, many, few * many / 2) == pytest.approx(2 / len(sums)), "sides that do not overlap"
    at, chance = rank_sum([float(each) for each in (*range(2, few + 2), 90, *range(50, 49 + many))])
    assert at == few and chance == pytest.approx(2 / len(sums))
