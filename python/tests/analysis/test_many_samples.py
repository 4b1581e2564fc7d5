"""Of very many samples medians of resamples come from their distribution, and none is drawn."""

from __future__ import annotations

from typing import Any

import pytest

np = pytest.importorskip("numpy")

from busbw.analysis import statistics  # noqa: E402


class OnlyPlaces:
    """A generator that cannot draw samples."""

    def __init__(self) -> None:
        self._generator = np.random.default_rng(3)

    def normal(self, *given: Any, **more: Any) -> Any:
        return self._generator.normal(*given, **more)


def test_of_many_samples_nothing_is_drawn() -> None:
    values = np.random.default_rng(1).normal(100.0, 10.0, 30_000)
    medians = statistics._bootstrap_medians(values, 2000, OnlyPlaces())  # type: ignore[arg-type]
    assert medians.shape == (2000,)
    assert abs(medians.mean() - np.median(values)) < 0.05
    assert medians.std() == pytest.approx(1.2533 * 10.0 / 30_000**0.5, rel=0.15)


@pytest.mark.parametrize("alike", [False, True])
def test_the_interval_is_that_of_drawn_samples(alike: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(2)
    values = generator.normal(100.0, 10.0, 1200)
    if alike:  # neighbours
        values = np.convolve(values, np.ones(8) / 8, "same")[8:-8]
    spread = []
    for most in (500, 5000):
        monkeypatch.setattr(statistics, "DRAWN_UP_TO", most)
        medians = statistics._bootstrap_medians(values, 2000, np.random.default_rng(5))
        spread.append(float(np.quantile(medians, 0.975) - np.quantile(medians, 0.025)))
    assert spread[0] == pytest.approx(spread[1], rel=0.3)
