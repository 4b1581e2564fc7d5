"""Rounds go on when a candidate fails, drop who is far behind, and keep what they have when they are cut off."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.base.errors import UsageError, UserError
from busbw.experiment.loop import Stop
from busbw.experiment.plan import Plan
from busbw.experiment.trial import Outcome, Point, Trial, times_of
from busbw.experiment.tune.candidates import Asked, candidates, collectives_of, plan_of, types_of
from busbw.experiment.tune.choose import crossings
from busbw.experiment.tune.measure import Tuning, gpu_of, own_times
from busbw.records import Case, Device, Library, Rank, Record, Run, Tool

POINT = Point("all_reduce", 1024, "out_of_place")


class Machine:
    """Takes 10 us and a second for everything, but for what `special` says of a candidate's n-th trial."""

    def __init__(self, special: Callable[[str, int], float | Outcome | None] = lambda use, count: None) -> None:
        self.special = special
        self.now = 0.0
        self.random = random.Random(1)
        self.asked_for: list[tuple[int, str]] = []

    def take(self, plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Trial:
        use = plan.factors[0].levels[variant].label
        self.now += 1
        self.asked_for.append((number, use))
        said = self.special(use, [each for _, each in self.asked_for].count(use))
        if isinstance(said, Outcome):
            return Trial(number, variant, said, 1.0, reason=f"exit code 3: {said.value}")
        time_us = (said or 10.0) * math.exp(self.random.gauss(0, 0.002))
        return Trial(number, variant, Outcome.MEASURED, 1.0, {POINT: time_us}, {POINT: 1.0})

    def tuning(self, tmp_path: Path, lines: list[str] | None = None, **options: float) -> Tuning:
        asked = Asked(("all_reduce",), 4, 1024, 4096)
        tell = (lines if lines is not None else []).append
        return Tuning(asked, tmp_path, take=self.take, clock=lambda: self.now, tell=tell, **options)  # type: ignore[arg-type]


def test_nccl_comes_first_and_every_candidate_is_measured_in_every_round(tmp_path: Path) -> None:
    machine = Machine()
    tuning = machine.tuning(tmp_path, rounds=2)
    assert tuning.run() is Stop.ROUNDS
    assert machine.asked_for[0] == (0, "nccl")
    (found,) = tuning.collected()
    assert sorted(machine.asked_for) == sorted((number, use) for number in (0, 1) for use in found.uses)
    assert len(found.board.times[0][POINT]) == 2


def test_rounds_end_when_the_best_is_known_and_who_is_as_good_is_not_measured_for_ever(tmp_path: Path) -> None:
    machine = Machine(lambda use, _: 5.0 if use.startswith("one_shot") else None)
    tuning = machine.tuning(tmp_path, rounds=50)
    assert tuning.run() is Stop.SURE
    assert max(number for number, _ in machine.asked_for) < 10
    (found,) = tuning.collected()
    assert [each.use for each in crossings(found)] == ["one_shot/ll"]
    assert not crossings(found)[0].unsure


def test_who_is_far_behind_at_every_size_is_measured_once(tmp_path: Path) -> None:
    machine = Machine(lambda use, _: 20.0 if use == "one_shot/ll@8x128" else None)
    machine.tuning(tmp_path, rounds=3).run()
    assert machine.asked_for.count((0, "one_shot/ll@8x128")) == 1
    assert (1, "one_shot/ll@8x128") not in machine.asked_for
    assert (2, "one_shot/ll") in machine.asked_for


def test_a_candidate_that_crashes_is_a_line_and_the_others_go_on(tmp_path: Path) -> None:
    lines: list[str] = []
    machine = Machine(lambda use, _: Outcome.CRASHED if use == "one_shot/ll" else None)
    tuning = machine.tuning(tmp_path, lines, rounds=4)
    tuning.run()
    assert [use for _, use in machine.asked_for].count("one_shot/ll") == 2
    (found,) = tuning.collected()
    assert found.out == {"one_shot/ll": "exit code 3: crashed"}
    assert "round 1, all_reduce algorithm=one_shot/ll: crashed: exit code 3: crashed" in lines


def test_wrong_results_end_a_candidate_at_once_and_its_times_count_no_more(tmp_path: Path) -> None:
    machine = Machine(lambda use, count: Outcome.WRONG if use == "one_shot/ll" and count == 2 else None)
    tuning = machine.tuning(tmp_path, rounds=4)
    tuning.run()
    assert [use for _, use in machine.asked_for].count("one_shot/ll") == 2
    (found,) = tuning.collected()
    assert found.uses.index("one_shot/ll") not in found.board.medians


def test_the_budget_ends_it_before_a_trial_that_would_go_beyond(tmp_path: Path) -> None:
    machine = Machine()
    assert machine.tuning(tmp_path, budget_s=4.5).run() is Stop.TIME
    assert machine.now == 4


def test_what_was_measured_before_an_interrupt_is_there(tmp_path: Path) -> None:
    def special(use: str, count: int) -> None:
        if len(machine.asked_for) == 4:
            raise KeyboardInterrupt

    machine = Machine(special)
    tuning = machine.tuning(tmp_path)
    assert tuning.run() is Stop.INTERRUPTED
    (found,) = tuning.collected()
    assert len(found.board.times) == 3


def test_nothing_is_tried_where_nccl_itself_cannot_be_measured(tmp_path: Path) -> None:
    machine = Machine(lambda use, _: Outcome.HUNG)
    with pytest.raises(UserError, match="nothing can be tuned, since all_reduce by NCCL cannot be measured: exit code"):
        machine.tuning(tmp_path).run()
    assert len(machine.asked_for) == 1


def record(algorithm: str | None) -> Record:
    case = Case("r", 0, "all_reduce", 1024, "out_of_place", "measured", 10.0, algorithm=algorithm)
    device = Device("gpu", 0, "Made-up GPU")
    return Record(Run("r", None, Tool("busbw"), Library("L", "/l.so"), (Rank(0, "h", device=device),)), (case,))


def own(algorithm: str | None, use: str) -> list[int]:
    kept = record(algorithm)
    trial = Trial(0, 1, Outcome.MEASURED, 1.0, *times_of(kept))
    return [point.bytes for point in own_times(trial, kept, use).times_us]


def test_what_a_kernel_left_to_nccl_is_no_time_of_the_kernel() -> None:
    assert own("nccl: the message is too long", "one_shot/ll") == []
    assert own("one_shot/ll@8x128", "one_shot/ll") == [1024]
    assert own("nccl: asked for", "nccl") == [1024]
    assert gpu_of(record("nccl")) == "Made-up GPU"


def test_a_library_that_is_not_ours_is_named_in_one_sentence() -> None:
    with pytest.raises(UserError, match=r"^/l\.so does not say which algorithm it takes"):
        own(None, "one_shot/ll")


def test_candidates_are_looked_at_only_where_they_are_worth_it() -> None:
    asked = Asked(("all_reduce",), 4, 1024, 8192)
    uses = [each.use for each in candidates(asked, "all_reduce")]
    assert uses[0] == "nccl"
    assert "one_shot/ll" in uses
    assert not [use for use in uses if use.startswith("two_shot/simple")]
    level = plan_of(asked, "all_reduce").factors[0].levels[uses.index("two_shot/ll")]
    assert level.arguments == ("-b", "8192", "-e", "8192")


@pytest.mark.parametrize("size", [1, 1 << 14, 1 << 20, 1 << 30, 1 << 40])
def test_every_size_has_a_kernel_to_set_against_nccl(size: int) -> None:
    for collective in collectives_of([]):
        assert len(candidates(Asked((collective,), 4, size, size), collective)) >= 2


def test_rules_hold_for_the_types_that_a_kernel_treats_alike() -> None:
    assert types_of(Asked((), 4), "all_reduce") == ("half", "bfloat16", "float")
    assert types_of(Asked((), 4, type="int8"), "reduce_scatter") == ("int8",)
    assert types_of(Asked((), 4), "broadcast") == ()
    assert collectives_of(["alltoall"]) == ("all_to_all",)
    with pytest.raises(UsageError, match="'gather' has no kernels"):
        collectives_of(["gather"])
