"""The latency-bandwidth line finds what simulated sweeps were made of, and its errors are what they claim."""

from __future__ import annotations

import random
import statistics

import pytest

from busbw.analysis.fit import LatencyBandwidth, fit_latency_bandwidth

SIZES = [2**power for power in range(3, 31)]


def _sweep(rng: random.Random, noise: float) -> list[float]:
    return [(12 + size / 200e3) * (1 + noise * rng.gauss(0, 1)) for size in SIZES]


def test_an_exact_line_is_found_exactly() -> None:
    line = fit_latency_bandwidth(SIZES, [12 + size / 200e3 for size in SIZES])
    assert line is not None
    assert line.alpha_us == pytest.approx(12)
    assert line.algbw_GBps == pytest.approx(200)


def test_the_standard_errors_are_the_spread_over_many_sweeps() -> None:
    rng = random.Random(1)
    lines = [line for _ in range(400) if (line := fit_latency_bandwidth(SIZES, _sweep(rng, 0.02)))]
    alpha = [(line.alpha_us - 12) / line.alpha_error_us for line in lines]
    beta = [(line.beta_us_per_byte * 200e3 - 1) / (line.beta_error_us_per_byte * 200e3) for line in lines]
    assert 0.85 < statistics.stdev(alpha) < 1.25
    assert 0.85 < statistics.stdev(beta) < 1.25
    assert abs(statistics.mean(alpha)) < 0.25


def test_one_disturbed_size_does_not_tilt_the_line() -> None:
    times = _sweep(random.Random(2), 0.005)
    times[-2] *= 3
    line = fit_latency_bandwidth(SIZES, times)
    assert line is not None
    assert line.algbw_GBps == pytest.approx(200, rel=0.02)


@pytest.mark.parametrize(
    ("sizes", "times"),
    [([], []), ([8, 16, 32], [1.0, 1.0, 1.0]), ([8, 8, 8, 8], [1.0] * 4), ([8, 16, 32, 64], [4.0, 3.0, 2.0, 1.0])],
)
def test_where_no_line_can_be_had_there_is_none(sizes: list[int], times: list[float]) -> None:
    assert fit_latency_bandwidth(sizes, times) is None


def test_a_line_knows_its_own_times() -> None:
    assert LatencyBandwidth(10, 0, 1e-3, 0, 5, 0).time_us(1000) == pytest.approx(11)
