"""Intervals that allow looking after every round, against simulated runs whose truth is known."""

from __future__ import annotations

import math
import random

import pytest

from busbw.analysis.sequence import centre, critical_t, mean_sequence, median_sequence, ratio_sequence
from busbw.analysis.verdict import Verdict, judge

SIMULATIONS = 300
ROUNDS = 40


def gauss(rng: random.Random) -> float:
    return rng.gauss(0, 0.02)


def laplace(rng: random.Random) -> float:
    return rng.expovariate(70) * rng.choice((-1, 1))


def spiky(rng: random.Random) -> float:
    return rng.gauss(0, 0.02) + (rng.expovariate(2) if rng.random() < 0.1 else 0.0)


NOISES = [gauss, laplace, spiky]


def first_verdict(effect, noise, rng, alpha=0.05):
    """What somebody says who looks after every round and stops at the first verdict, and after how many."""
    logs = []
    for rounds in range(1, ROUNDS + 1):
        logs.append(effect + noise(rng) - noise(rng))
        interval = ratio_sequence(logs, alpha)
        if interval and (verdict := judge(interval).verdict) is not Verdict.UNDECIDED:
            return verdict, rounds
    return Verdict.UNDECIDED, ROUNDS


@pytest.mark.parametrize("noise", NOISES)
def test_looking_after_every_round_calls_equals_different_in_at_most_five_percent(noise):
    rng = random.Random(7)
    said = [first_verdict(0.0, noise, rng)[0] for _ in range(SIMULATIONS)]
    assert sum(each in {Verdict.FASTER, Verdict.SLOWER} for each in said) / SIMULATIONS <= 0.05


@pytest.mark.parametrize("noise", NOISES)
def test_five_percent_in_two_percent_of_noise_is_found_in_95_of_100(noise):
    rng = random.Random(8)
    said = [first_verdict(math.log(1.05), noise, rng)[0] for _ in range(SIMULATIONS)]
    assert sum(each is Verdict.FASTER for each in said) / SIMULATIONS >= 0.95


def test_a_fixed_interval_would_call_equals_different_far_more_often():
    # The reason for this module: Student's interval at every look, on the same kind of runs.
    from busbw.analysis.statistics import student_quantile

    rng = random.Random(7)
    wrong = 0
    for _ in range(SIMULATIONS):
        logs = []
        for rounds in range(1, ROUNDS + 1):
            logs.append(gauss(rng) - gauss(rng))
            if rounds < 3:
                continue
            mean = sum(logs) / rounds
            error = math.sqrt(sum((x - mean) ** 2 for x in logs) / (rounds - 1) / rounds)
            if abs(mean) > student_quantile(rounds - 1) * error:
                wrong += 1
                break
    assert wrong / SIMULATIONS > 0.15


def test_the_truth_stays_inside_at_every_look():
    rng = random.Random(9)
    missed = 0
    for _ in range(SIMULATIONS):
        logs = [math.log(1.3) + gauss(rng) - gauss(rng) for _ in range(ROUNDS)]
        seen = [ratio_sequence(logs[:rounds], 0.05) for rounds in range(1, ROUNDS + 1)]
        missed += any(interval is not None and not interval.contains(1.3) for interval in seen)
    assert missed / SIMULATIONS <= 0.05


def test_a_large_effect_is_sure_after_three_rounds():
    interval = ratio_sequence([math.log(4.0), math.log(4.02), math.log(3.99)], 0.05)
    assert interval is not None
    assert interval.low > 3.5
    assert ratio_sequence([math.log(4.0), math.log(4.02)], 0.05) is None


def test_outliers_on_one_side_do_not_hide_what_almost_every_round_shows():
    logs = [0.3] * 14 + [-6.0]
    mean = mean_sequence(logs, 0.05)
    assert mean is not None
    assert mean[0] < 0 < mean[1]
    median = median_sequence(logs, 0.05)
    assert median == (0.3, 0.3)


def test_the_critical_value_solves_the_bayes_factor():
    for rounds, alpha in ((3, 0.05), (10, 0.05), (40, 0.001)):
        x = critical_t(rounds, alpha) ** 2 / (rounds - 1)
        spread = 1 + 100 * rounds
        factor = spread**-0.5 * ((1 + x) / (1 + x / spread)) ** (rounds / 2)
        assert factor == pytest.approx(1 / alpha)


def test_nothing_is_claimed_of_too_few_rounds_or_absurd_ones():
    assert ratio_sequence([], 0.05) is None
    assert ratio_sequence([0.1], 0.05) is None
    assert ratio_sequence([0.0, 1e5, -1e5], 0.05) is None
    with pytest.raises(ValueError, match="error rate"):
        critical_t(5, 0.0)


def test_the_shown_ratio_lies_in_its_interval():
    rng = random.Random(3)
    for _ in range(50):
        logs = [spiky(rng) for _ in range(12)]
        interval = ratio_sequence(logs, 0.05)
        assert interval is None or interval.contains(centre(logs, interval))


@pytest.mark.parametrize("rounds", [1, 2, 9, 10, 40, 333])
def test_the_median_leaves_out_as_many_values_as_the_exact_sum_says(rounds):
    values = [float(value) for value in range(rounds)]
    least = next(
        (k for k in range(rounds // 2 + 1) if math.comb(rounds, k) * (rounds + 1) > 0.05 * 2**rounds), rounds // 2
    )
    assert median_sequence(values, 0.05) == ((values[least - 1], values[rounds - least]) if least else None)


def test_ten_thousand_rounds_have_an_interval():
    rng = random.Random(11)
    interval = ratio_sequence([0.01 + gauss(rng) for _ in range(10_000)], 0.05)
    assert interval is not None
    assert 1.008 < interval.low < math.exp(0.01) < interval.high < 1.012
