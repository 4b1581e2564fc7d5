"""The judge of bench/settings: what it calls the best fixed setting is not the luckiest one, and its intervals hold."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from statistics import fmean, median
from types import ModuleType

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench" / "settings" / "gpus.py"


@pytest.fixture(scope="module")
def judge() -> ModuleType:
    spec = importlib.util.spec_from_file_location("settings_gpus", BENCH)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def test_the_best_of_alike_settings_is_as_fast_as_they_are(judge: ModuleType) -> None:
    chance, cross, lucky = random.Random(3), [], []
    for _ in range(300):
        rounds = [{name: 10 * chance.gauss(1, 0.2) for name in "abcdef"} for _ in range(6)]
        cross.append(median(judge.best_fixed(rounds)[1]))
        lucky.append(min(median(each[name] for each in rounds) for name in "abcdef"))
    # All settings take 10: the smallest of six medians does not.
    assert fmean(cross) == pytest.approx(10, rel=0.02)
    assert fmean(lucky) < 9.2


def test_the_best_that_is_clear_is_chosen_by_both_halves(judge: ModuleType) -> None:
    rounds = [{"slow": 20.0 + each, "fast": 10.0 + each} for each in range(6)]
    assert judge.best_fixed(rounds) == ("fast", [10.0 + each for each in range(6)])
    mixed = [{"one": 1.0 + each % 2, "other": 2.0 - each % 2} for each in range(4)]
    assert judge.best_fixed(mixed)[0] == "other or one"


@pytest.mark.parametrize("count", [6, 10, 15])
def test_an_interval_holds_the_median_as_often_as_it_says(judge: ModuleType, count: int) -> None:
    chance, held = random.Random(count), 0
    for _ in range(2000):
        low, high = judge.interval_of([chance.gauss(5, 1) for _ in range(count)])
        held += low <= 5 <= high
    assert 0.94 <= held / 2000 <= 0.995
    assert judge.interval_of([1.0, 2.0]) == (1.0, 2.0)
