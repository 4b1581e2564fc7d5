"""The test for late ranks in drawn noise: it names what it says it can, and nobody whom nobody slowed."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest

from busbw.watch.arrivals import Meeting
from busbw.watch.late import Stragglers
from busbw.watch.noise import Noise

BENCH = Path(__file__).resolve().parents[3] / "bench" / "watch" / "straggler_noise.py"


@pytest.fixture(scope="module")
def drawn() -> ModuleType:
    spec = importlib.util.spec_from_file_location("straggler_noise", BENCH)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("noise", ["gaussian", "sleeps", "few_outliers", "student", "one_busy_core"])
def test_stragglers_that_were_called_nameable_are_named_within_three_steps_and_nobody_else(
    drawn: ModuleType, noise: str
) -> None:
    score = drawn.tried(getattr(drawn, noise), range(4), 1500, 4, 300.0)
    assert score.false == 0
    assert score.ever == score.spells == 32
    assert score.sure_soon >= 0.9 * score.sure


@pytest.mark.parametrize("noise", ["lognormal", "pareto", "wandering", "ticks", "two_levels"])
def test_in_noise_that_is_as_large_nobody_is_accused_wrongly(drawn: ModuleType, noise: str) -> None:
    score = drawn.tried(getattr(drawn, noise), range(4), 1500, 4, 0.0)
    assert (score.false, score.steps) == (0, 6000)


def test_in_bursts_of_noise_a_rank_is_seldom_accused_wrongly(drawn: ModuleType) -> None:
    assert drawn.tried(drawn.bursts, range(8), 1500, 4, 0.0).false <= 1


def test_noise_of_300_us_hides_stragglers_of_300_us_for_three_steps_and_the_tool_says_so(drawn: ModuleType) -> None:
    score = drawn.tried(drawn.periodic, range(4), 1500, 4, 300.0)
    assert (score.sure, score.false, score.ever) == (0, 0, 32)
    assert drawn.tried(drawn.periodic, range(2), 1500, 4, 800.0).sure >= 14, "larger ones are not hidden"


def test_the_smallest_nameable_straggler_grows_with_the_noise(drawn: ModuleType) -> None:
    least = {}
    for noise in ("gaussian", "few_outliers", "lognormal"):
        score = drawn.tried(getattr(drawn, noise), range(3), 1500, 4, 200.0)
        least[noise] = sorted(score.nameable_us)[len(score.nameable_us) // 2]
    assert 100 < least["gaussian"] < least["few_outliers"] < least["lognormal"]


def test_before_the_noise_is_known_nothing_is_nameable_and_nobody_named(drawn: ModuleType) -> None:
    stragglers = Stragglers()
    assert stragglers.nameable_ns(1) == math.inf
    for step in range(4):
        meeting: Meeting = drawn._meeting(step, 10**9 * (step + 1), [0, 0, 300_000, 0])
        assert stragglers.take(meeting) == []
    assert stragglers.nameable_ns(1) == math.inf


def test_what_a_named_straggler_did_is_taken_out_of_the_noise() -> None:
    noise = Noise(100_000.0)
    for _ in range(500):
        noise.begin_call({})
        for rank in range(4):
            noise.add(rank, None, 5_000)
    before = noise.likely(0, 5)
    for _ in range(3):
        noise.begin_call({2: 5})
        noise.add(2, 5, 330_000)
    assert noise.likely(0, 5) > 2 * before and noise.likely_again(0, 5) > 2 * before
    noise.forget(2, [5, 5, 5])
    assert noise.likely(0, 5) == pytest.approx(before, rel=0.01)
    assert noise.likely_again(0, 5) == pytest.approx(max(before, 0.002), rel=0.01)


def test_several_late_ranks_at_once_are_the_machines_noise() -> None:
    noise = Noise(100_000.0)
    for _ in range(500):
        noise.begin_call({})
        for rank in range(8):
            noise.add(rank, None, 5_000)
    quiet = noise.likely(0, 5)
    noise.begin_call({0: 5, 3: 5})
    assert noise.likely(0, 5) == quiet, "one other rank may be a straggler of its own"
    noise.burst.pop()
    noise.begin_call({0: 5, 3: 5, 4: 6, 5: 4})
    assert noise.likely(0, 5) > 0.2


def test_old_calls_count_less_and_the_sums_stay_those_of_the_ranks() -> None:
    noise = Noise(100_000.0)
    for step in range(12_000):
        noise.add(step % 2, 4 if step % 50 < 2 else None, 1_000)
    assert all(each.calls <= 4001 for each in noise.ranks.values())
    assert noise.calls == pytest.approx(sum(each.calls for each in noise.ranks.values()))
    assert noise._late[4] == pytest.approx(sum(each.late[4] for each in noise.ranks.values()))
    assert noise.likely(0, 4) == pytest.approx(0.04, rel=0.2)


def test_a_rank_is_measured_by_its_own_noise_too() -> None:
    """As one whose processor is shared: late in 3 % of its calls, the others never."""
    noise = Noise(100_000.0)
    for step in range(500):
        noise.begin_call({})
        for rank in range(4):
            is_late = rank == 0 and step % 33 == 0
            noise.add(rank, 5 if is_late else None, 330_000 if is_late else 5_000)
    assert noise.likely(0, 5) > 0.015
    assert noise.likely(0, 5, [5] * 10) < 0.012, "but for the calls of which it is suspected now"
    assert noise.likely(0, 9) < 0.002


def test_a_rank_that_was_late_by_anything_lately_is_so_by_noise() -> None:
    noise = Noise(100_000.0)
    for _ in range(500):
        noise.begin_call({})
        for rank in range(4):
            noise.add(rank, None, 5_000)
    quiet = noise.likely(0, 5)
    for class_ in (5, 5, 6, 4):
        noise.begin_call({0: class_})
    assert noise.likely(0, 5) == quiet, "by the same again and again is no noise of its own"
    for class_ in (1, 9, 14, 17):
        noise.begin_call({0: class_})
    assert noise.likely(0, 5) > 5 * quiet
