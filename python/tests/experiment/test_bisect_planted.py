"""Forty planted regressions are named or left open, and never placed where there is none."""

from __future__ import annotations

import math
from pathlib import Path

import planted
import planted_kinds
import pytest
from test_bisect import MIB, RELEASES, Releases, stepped

from busbw.analysis.statistics import Interval
from busbw.analysis.verdict import Judgement, Verdict
from busbw.experiment.bisect.search import Bisection, Change
from busbw.experiment.bisect.text import sure_of
from busbw.experiment.factors import Level
from busbw.experiment.loop import Stop
from busbw.experiment.plan import Limits, Plan
from busbw.experiment.trial import Trial


def unsure(said: list[str]) -> bool:
    return all(each.startswith("unsure") for each in said)


@pytest.mark.parametrize("half", [0, 1])
def test_no_step_is_claimed_where_there_is_none_and_most_are_named(tmp_path: Path, half: int) -> None:
    found = {}
    for number in range(half, 40, 2):
        one = planted.plant(number)
        done, changes = planted.bisected(one, tmp_path / str(number))
        found[number] = planted.wrong(one, done, changes)
    assert {number: said for number, said in found.items() if not unsure(said)} == {}
    # 17 and 15 at first sight; what is left open is noise of 15 %, steps of 3.5 % and a creep.
    assert sum(not said for said in found.values()) >= (17, 15)[half]


@pytest.mark.parametrize("number", [18, 19])
def test_a_later_release_that_makes_up_for_a_part_is_told(tmp_path: Path, number: int) -> None:
    one = planted.plant(number)
    assert one.shape == "faster in the middle"
    text = planted.remarks(*planted.bisected(one, tmp_path))
    assert "other steps make up for a part of it: over all it is 1.2" in text


def test_every_shape_is_planted_twice_and_once_in_each_half() -> None:
    shapes = [planted.plant(number).shape for number in range(40)]
    assert shapes[::2] == shapes[1::2] == list(planted.SHAPES)


class Interrupted(Releases):
    """Ctrl-C in the second step, after some trials whose noise points the wrong way."""

    def measure(self, plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Trial:
        if folder.name == "000-007" and number == 2:
            raise KeyboardInterrupt
        return super().measure(plan, number, variant, folder, limit_s)


def bisected(machine: Releases, folder: Path, **limits: float) -> tuple[Bisection, Change]:
    plan = Plan((), ("all_reduce",), limits=Limits(seconds=1e6, **limits))  # type: ignore[arg-type]
    done = Bisection(RELEASES[:16], lambda number: Level(str(number)), plan, folder, machine.measure,
                     lambda: machine.now)  # fmt: skip
    (change,) = done.run()
    return done, change


@pytest.mark.parametrize("at", [3, 12])
def test_a_step_that_was_interrupted_before_it_was_sure_narrows_nothing(tmp_path: Path, at: int) -> None:
    done, change = bisected(Interrupted({MIB: stepped(16, (at, 1.3))}), tmp_path)
    assert done.stop is Stop.INTERRUPTED and len(done.probes) == 2
    assert (change.before, change.at) == (0, 15) and not sure_of(change)


class Noisy(Releases):
    """One release whose times say nothing within the rounds that there are."""

    def measure(self, plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Trial:
        self.noise = 0.5 if int(plan.factors[0].levels[variant].label) == 7 else 0.02
        return super().measure(plan, number, variant, folder, limit_s)


def test_a_release_that_was_passed_without_being_sure_leaves_the_answer_to_its_own_step(tmp_path: Path) -> None:
    open_ones = 0
    for seed in range(12):
        _, change = bisected(Noisy({MIB: stepped(16, (12, 1.3))}, seed), tmp_path / str(seed), rounds=12)
        open_ones += not change.sure
        assert change.at == 12 or not sure_of(change)
        if change.at == 12 and not change.sure and change.step is not None and change.step.interval is not None:
            assert sure_of(change) == (math.log(change.step.interval.high) < math.log(change.whole.ratio or 1) / 3)
    assert open_ones >= 3


@pytest.mark.parametrize(
    ("low", "high", "sure"), [(0.7, 0.8, True), (0.85, 0.88, True), (0.85, 0.92, False), (0.97, 0.99, False)]
)
def test_a_small_step_at_the_end_of_an_unsure_way_is_no_answer(low: float, high: float, sure: bool) -> None:
    whole = Judgement(Verdict.SLOWER, "", 0.7, Interval(0.68, 0.72))
    step = Judgement(Verdict.SLOWER, "", (low * high) ** 0.5, Interval(low, high))
    assert sure_of(Change(("all_reduce", MIB), 3, 4, step, whole, sure=False)) is sure
    assert sure_of(Change(("all_reduce", MIB), 3, 4, step, whole, sure=True))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("kind", planted_kinds.KINDS)
def test_twenty_more_kinds_are_named_or_left_open(kind: str, seed: int, tmp_path: Path) -> None:
    """Seed 1 was set aside. At first sight 19 and 16 of 20 were named, and none wrongly."""
    one = planted_kinds.make(kind, seed)
    said = planted.wrong(one, *planted.bisected(one, tmp_path))
    assert unsure(said)
    assert not said or (kind, seed) == ("levels 1.5", 1)
