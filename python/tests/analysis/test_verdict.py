"""The verdict against simulated runs with known truth: how often it is wrong, and how often it finds what is there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from busbw.analysis.statistics import Interval, ratio_interval, repeat_interval, student_quantile
from busbw.analysis.verdict import Verdict, judge, judge_single

numpy = pytest.importorskip("numpy")
PAIRS = 600
NOISE = 0.02


def _normal(rng: numpy.random.Generator, count: int) -> list[float]:
    return list(100 * numpy.exp(NOISE * rng.standard_normal(count)))


def _with_outliers(rng: numpy.random.Generator, count: int) -> list[float]:
    disturbed = numpy.where(rng.random(count) < 0.1, 1 + rng.random(count), 1.0)
    return list(numpy.asarray(_normal(rng, count)) * disturbed)


def _two_modes(rng: numpy.random.Generator, count: int) -> list[float]:
    return list(100 * numpy.where(rng.random(count) < 0.4, 1.05, 1.0) * (1 + 0.005 * rng.standard_normal(count)))


def _skewed(rng: numpy.random.Generator, count: int) -> list[float]:
    return list(100 * (1 + NOISE * rng.exponential(size=count)))


def _verdicts(make: Callable[..., list[float]], count: int, effect: float, seed: int) -> list[Verdict]:
    rng = numpy.random.default_rng(seed)
    found = []
    for _ in range(PAIRS):
        before, after = make(rng, count), [time / (1 + effect) for time in make(rng, count)]
        interval = ratio_interval(before, after, resamples=800)
        assert interval is not None
        found.append(judge(interval).verdict)
    return found


# 600 pairs at a true rate of 5 % exceed 5 % + 2.3 % = 44 pairs once in two hundred runs; the seeds are fixed.
@pytest.mark.parametrize("make", [_normal, _with_outliers, _two_modes, _skewed])
@pytest.mark.parametrize("count", [5, 10, 30])
def test_equal_runs_are_called_different_in_at_most_one_of_twenty(make: Callable[..., list[float]], count: int) -> None:
    wrong = sum(verdict in (Verdict.FASTER, Verdict.SLOWER) for verdict in _verdicts(make, count, 0.0, seed=count))
    assert wrong / PAIRS <= 0.05


@pytest.mark.parametrize("count", [10, 20, 50])
@pytest.mark.parametrize("effect", [0.05, -0.05])
def test_a_five_percent_effect_in_two_percent_noise_is_found(count: int, effect: float) -> None:
    expected = Verdict.FASTER if effect > 0 else Verdict.SLOWER
    right = sum(verdict is expected for verdict in _verdicts(_normal, count, effect, seed=100 + count))
    assert right / PAIRS >= 0.95


def test_equal_runs_with_enough_samples_show_no_difference() -> None:
    verdicts = _verdicts(_normal, 100, 0.0, seed=9)
    assert sum(verdict is Verdict.NO_DIFFERENCE for verdict in verdicts) / PAIRS >= 0.95


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.03, 1.05, Verdict.FASTER),
        (0.90, 0.97, Verdict.SLOWER),
        (0.99, 1.01, Verdict.NO_DIFFERENCE),
        (1.001, 1.015, Verdict.NO_DIFFERENCE),
        (0.95, 1.06, Verdict.UNDECIDED),
        (1.001, 1.03, Verdict.FASTER),
        (1.0, 1.03, Verdict.UNDECIDED),
    ],
)
def test_the_rule_reads_the_interval_only(low: float, high: float, verdict: Verdict) -> None:
    assert judge(Interval(low, high)).verdict is verdict


@pytest.mark.parametrize(
    ("ratio", "scatter", "verdict"),
    [
        (1.05, None, Verdict.UNDECIDED),
        (1.2, None, Verdict.FASTER),
        (0.8, 0.01, Verdict.SLOWER),
        (1.2, 0.05, Verdict.UNDECIDED),
        (1.0, 0.0, Verdict.UNDECIDED),
    ],
)
def test_single_samples_are_judged_by_margin_and_scatter_and_never_called_equal(
    ratio: float, scatter: float | None, verdict: Verdict
) -> None:
    judgement = judge_single(ratio, scatter)
    assert judgement.verdict is verdict
    assert "no interval" in judgement.reason


@pytest.mark.parametrize(("before", "after"), [(2, 2), (3, 3), (4, 1), (3, 5)])
def test_few_equal_runs_are_called_different_in_at_most_one_of_twenty(before: int, after: int) -> None:
    rng = numpy.random.default_rng(10 * before + after)
    wrong = 0
    for _ in range(2000):
        interval = repeat_interval(_normal(rng, before), _normal(rng, after))
        assert interval is not None
        wrong += not interval.contains(1)
    assert wrong / 2000 <= 0.06, "5 % and two standard errors of 2,000 pairs"


def test_one_run_against_one_has_no_interval() -> None:
    assert repeat_interval([1.0], [2.0]) is None


@pytest.mark.parametrize(("freedom", "value"), [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (30, 2.0423)])
def test_students_quantile_is_that_of_the_tables(freedom: int, value: float) -> None:
    assert student_quantile(freedom) == pytest.approx(value, rel=0.003)
