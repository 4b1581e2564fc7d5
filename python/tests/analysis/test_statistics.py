"""Medians, percentiles and intervals against definitions and against simulated runs whose truth is known."""

from __future__ import annotations

import math
import random
import statistics
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.analysis.statistics import (
    MIN_SAMPLES,
    block_length,
    geometric_mean,
    median,
    median_interval,
    percentile,
    ratio_interval,
    relative_spread,
)  # fmt: skip
from busbw.base.errors import UserError

times = st.lists(st.floats(0.01, 1e9), min_size=1, max_size=40)


@given(times)
def test_the_median_is_the_standard_librarys(values: list[float]) -> None:
    assert median(values) == pytest.approx(statistics.median(values))


@given(times, st.floats(0, 100))
def test_a_percentile_lies_among_the_samples_and_grows(values: list[float], percent: float) -> None:
    value = percentile(values, percent)
    assert min(values) <= value <= max(values)
    assert percentile(values, 0) == min(values)
    assert percentile(values, 100) == max(values)
    assert percentile(values, percent / 2) <= value


def test_nothing_has_no_median_and_no_percentile() -> None:
    with pytest.raises(ValueError, match="no samples"):
        median([])
    with pytest.raises(ValueError, match="no samples"):
        percentile([], 50)
    with pytest.raises(ValueError, match="between 0 and 100"):
        percentile([1.0], 101)


def test_one_outlier_does_not_change_the_spread_much() -> None:
    assert relative_spread([10.0, 10.1, 9.9, 10.0, 10.1, 1000.0]) < 0.03


def test_twice_and_half_as_fast_average_to_equal() -> None:
    assert geometric_mean([2.0, 0.5]) == pytest.approx(1.0)


def test_too_few_samples_have_no_interval() -> None:
    pytest.importorskip("numpy")
    few = [1.0] * (MIN_SAMPLES - 1)
    assert ratio_interval(few, [1.0] * 50) is None
    assert ratio_interval([1.0] * 50, few) is None
    assert median_interval([1.0] * 5) is None


def test_the_same_samples_give_the_same_interval() -> None:
    pytest.importorskip("numpy")
    before, after = [1.0, 1.1, 0.9, 1.05, 1.2, 0.97], [0.5, 0.6, 0.55, 0.52, 0.51]
    assert ratio_interval(before, after) == ratio_interval(before, after)


def test_exchanging_the_sides_inverts_the_interval() -> None:
    numpy = pytest.importorskip("numpy")
    rng = numpy.random.default_rng(5)
    before, after = rng.normal(10, 0.2, 30).tolist(), rng.normal(8, 0.2, 30).tolist()
    forth, back = ratio_interval(before, after), ratio_interval(after, before)
    assert forth is not None and back is not None
    assert forth.low == pytest.approx(1 / back.high, rel=0.01)
    assert forth.contains(10 / 8)


def test_samples_that_hang_together_are_resampled_in_blocks() -> None:
    numpy = pytest.importorskip("numpy")
    rng = numpy.random.default_rng(6)
    steady = rng.normal(10, 0.2, 200)
    wandering = 10 + 0.2 * numpy.convolve(rng.normal(0, 1, 219), numpy.ones(20) / 4.5, mode="valid")
    assert block_length(steady) == 1
    assert block_length(wandering) > 3
    assert block_length([1.0] * 50) == 1


def test_times_that_are_not_positive_are_refused() -> None:
    pytest.importorskip("numpy")
    with pytest.raises(ValueError, match="positive"):
        ratio_interval([0.0] * 6, [1.0] * 6)


def test_the_interval_of_a_median_covers_it_at_least_as_often_as_it_says() -> None:
    rng = random.Random(7)
    for count in (6, 11, 40):
        found = [median_interval([rng.expovariate(1) for _ in range(count)]) for _ in range(1500)]
        covered = sum(each is not None and each.contains(math.log(2)) for each in found)
        assert covered / 1500 >= 0.945
        assert all(each is not None for each in found)


def test_without_numpy_an_interval_ends_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(UserError, match=r"needs numpy, which is not installed: .* -m pip install numpy"):
        ratio_interval([1.0] * 6, [1.0] * 6)
    assert ratio_interval([1.0], [1.0]) is None, "what needs no interval needs no numpy"
