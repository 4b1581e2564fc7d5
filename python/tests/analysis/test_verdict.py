"""The verdict against simulated runs with known truth: how often it is wrong, and how often it finds what is there."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from busbw.analysis.sequence import mean_sequence, median_sequence
from busbw.analysis.statistics import Interval, ratio_interval, repeat_interval, student_quantile
from busbw.analysis.verdict import Verdict, judge, judge_single, of_rounds, of_runs, of_samples

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


# What follows pins each interval from both sides: a chance of error that is twice or half of what is said turns it red.


def test_the_bootstrap_is_as_wide_as_the_theory_of_medians_says() -> None:
    """Of many normal samples: 1.96 standard errors of the difference of two medians, each sqrt(pi / 2 n) sigma."""
    rng = numpy.random.default_rng(21)
    count = 200
    halves = []
    for _ in range(60):
        found = of_samples(_normal(rng, count), _normal(rng, count)).interval
        assert found is not None
        halves.append(math.log(found.high / found.low) / 2)
    theory = 1.96 * math.sqrt(2) * math.sqrt(math.pi / 2 / count) * NOISE
    # A chance of 2.5 or 10 % would be 14 % wider or 16 % narrower.
    assert sum(halves) / len(halves) == pytest.approx(theory, rel=0.07)


def test_the_interval_of_three_runs_a_side_misses_the_truth_as_often_as_it_says() -> None:
    rng = numpy.random.default_rng(22)
    missed = 0
    for _ in range(4000):
        found = of_runs(_normal(rng, 3), _normal(rng, 3)).interval
        assert found is not None
        missed += not found.contains(1.0)
    assert 0.04 <= missed / 4000 <= 0.06


def test_rounds_share_their_error_between_mean_and_median() -> None:
    logs = [0.02 * value for value in numpy.random.default_rng(23).standard_normal(30)]
    found = of_rounds(logs, alpha=0.05).interval
    mean, middle = mean_sequence(logs, 0.025), median_sequence(logs, 0.025)
    assert found is not None and mean is not None and middle is not None
    assert (found.low, found.high) == pytest.approx(
        (math.exp(max(mean[0], middle[0])), math.exp(min(mean[1], middle[1])))
    )


def test_looking_until_sure_is_wrong_in_fewer_than_one_of_twenty_but_not_absurdly_rarely() -> None:
    """At alpha 0.3, where a simulation of this size can see both sides."""
    rng = numpy.random.default_rng(24)
    wrong = 0
    for _ in range(300):
        logs = list(NOISE * rng.standard_normal(60))
        said = (of_rounds(logs[:n], alpha=0.3, margin=1e-9).verdict for n in range(3, 61))
        wrong += any(verdict in {Verdict.FASTER, Verdict.SLOWER} for verdict in said)
    assert 0.05 <= wrong / 300 <= 0.3


@pytest.mark.parametrize("effect", [0.0, 0.01, 0.05])
def test_as_many_more_rounds_as_are_foretold_decide(effect: float) -> None:
    """Half of the experiments are decided between half and twice the foretold number."""
    rng = numpy.random.default_rng(25)
    ratios = []
    for _ in range(30):
        logs = list(effect + 1.5 * NOISE * rng.standard_normal(4000))
        first = of_rounds(logs[:12])
        if first.sure:
            continue
        assert first.more is not None
        low, high = 12, 4000
        while high - low > 1:  # verdicts of growing prefixes: nearly monotonous
            middle = (low + high) // 2
            low, high = (low, middle) if of_rounds(logs[:middle]).sure else (middle, high)
        ratios.append((high - 12) / first.more)
    assert len(ratios) >= 10 or effect == 0.05
    assert 0.4 <= sorted(ratios)[len(ratios) // 2] <= 2.5


def test_more_independent_samples_are_foretold_by_the_square_of_the_width() -> None:
    said = judge(Interval(0.96, 1.04), have=10, unit="samples")
    assert said.more is not None
    assert 25 <= said.more <= 35, "half a width of 4 % must become 2 %"
    assert said.words() == f"undecided: needs about {said.more} more samples"


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        (Interval(1.18, 1.22), "B is 1.18 to 1.22 times as fast"),
        (Interval(0.8, 0.85), "B is 0.80 to 0.85 times as fast"),
        (Interval(1.0003, 1.05), "B is 1.0003 to 1.0500 times as fast"),
        (Interval(3.9, 3.901), "B is 3.90 times as fast"),
        (Interval(0.011, 0.012), "B is 0.0110 to 0.0120 times as fast"),
        (Interval(12.04, 250), "B is 12.0 to 250.0 times as fast"),
        (Interval(0.995, 1.01), "no difference above 1 %"),
        (Interval(1.0, 1.0), "no difference above 0.1 %"),
        (Interval(0.99, 1.002), "no difference above 1.1 %"),
    ],
)
def test_the_words_of_a_verdict(interval: Interval, words: str) -> None:
    assert judge(interval).words() == words


def test_few_rounds_say_how_many_are_missing() -> None:
    assert of_rounds([]).words() == "undecided: needs about 3 more rounds"
    assert of_rounds([0.1, 0.1]).words() == "undecided: needs about 1 more round"
    assert of_rounds([1.0, -1.0] * 3, margin=1e-6).words() == "undecided: needs more than 10,000 more rounds"
    assert judge_single(1.05, None).words().startswith("undecided: one sample each")
    assert judge_single(2.0, None).words("new") == "new is 2.0 times as fast"
