"""Rounds go on when a candidate fails, drop who is far behind, and keep what they have when they are cut off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.base.errors import UsageError, UserError
from busbw.experiment.plan import Plan
from busbw.experiment.tune.candidates import Asked, candidates, collectives_of, plan_of, types_of
from busbw.experiment.tune.measure import Taken, Tuning
from busbw.records import Case, Device, Library, Rank, Record, Run, Tool

Outcome = Callable[[str], "Taken | None"]


def record(use: str, time_us: float, *, named: bool = True) -> Record:
    word = "nccl: asked for" if use == "nccl" else use
    case = Case("r", 0, "all_reduce", 1024, "out_of_place", "measured", time_us, algorithm=word if named else None)
    device = Device("gpu", 0, "Made-up GPU")
    return Record(Run("r", None, Tool("busbw"), Library("L", "/l.so"), (Rank(0, "h", device=device),)), (case,))


class Machine:
    """Takes 10 us and a second for everything, but for what `special` says."""

    def __init__(self, special: Outcome = lambda _: None) -> None:
        self.special = special
        self.now = 0.0
        self.asked_for: list[tuple[int, str]] = []

    def take(self, plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Taken:
        use = plan.factors[0].levels[variant].label
        self.now += 1
        self.asked_for.append((number, use))
        return self.special(use) or Taken(1.0, record(use, 10.0))

    def tuning(self, tmp_path: Path, lines: list[str] | None = None, **options: float) -> Tuning:
        asked = Asked(("all_reduce",), 4, 1024, 4096)
        tell = (lines if lines is not None else []).append
        return Tuning(asked, tmp_path, take=self.take, clock=lambda: self.now, tell=tell, **options)  # type: ignore[arg-type]


def test_nccl_comes_first_and_every_candidate_is_measured_in_every_round(tmp_path: Path) -> None:
    machine = Machine()
    tuning = machine.tuning(tmp_path, rounds=2)
    assert tuning.run() == "all rounds are done"
    assert machine.asked_for[0] == (0, "nccl")
    uses = tuning.collected[0].uses
    assert sorted(machine.asked_for) == sorted((number, use) for number in (0, 1) for use in uses)
    assert tuning.collected[0].times["nccl"] == {1024: [10.0, 10.0]}
    assert tuning.gpu == "Made-up GPU"


def test_who_is_far_behind_at_every_size_is_measured_once(tmp_path: Path) -> None:
    machine = Machine(lambda use: Taken(1.0, record(use, 20.0)) if use == "one_shot/ll@8x128" else None)
    machine.tuning(tmp_path, rounds=3).run()
    assert machine.asked_for.count((0, "one_shot/ll@8x128")) == 1
    assert (1, "one_shot/ll@8x128") not in machine.asked_for
    assert (2, "one_shot/ll") in machine.asked_for


def test_a_candidate_that_crashes_is_a_line_and_the_others_go_on(tmp_path: Path) -> None:
    lines: list[str] = []
    machine = Machine(lambda use: Taken(1.0, reason="exit code 3: boom") if use == "one_shot/ll" else None)
    tuning = machine.tuning(tmp_path, lines, rounds=4)
    tuning.run()
    assert [use for _, use in machine.asked_for].count("one_shot/ll") == 2
    assert tuning.collected[0].out == {"one_shot/ll": "exit code 3: boom"}
    assert "all_reduce one_shot/ll failed: exit code 3: boom" in lines


def test_wrong_results_end_a_candidate_at_once_and_its_times_count_no_more(tmp_path: Path) -> None:
    tries: list[str] = []

    def special(use: str) -> Taken | None:
        tries.append(use)
        good = tries.count("one_shot/ll") < 2
        return Taken(1.0, reason="the results were wrong", wrong=True) if use == "one_shot/ll" and not good else None

    tuning = Machine(special).tuning(tmp_path, rounds=4)
    tuning.run()
    assert tries.count("one_shot/ll") == 2
    assert "one_shot/ll" not in tuning.collected[0].medians()


def test_the_budget_ends_it_before_a_trial_that_would_go_beyond(tmp_path: Path) -> None:
    machine = Machine()
    assert machine.tuning(tmp_path, budget_s=4.5).run() == "the budget is spent"
    assert machine.now == 4


def test_what_was_measured_before_an_interrupt_is_there(tmp_path: Path) -> None:
    def special(use: str) -> Taken | None:
        if len(machine.asked_for) == 4:
            raise KeyboardInterrupt
        return None

    machine = Machine(special)
    tuning = machine.tuning(tmp_path)
    assert tuning.run() == "interrupted"
    assert len(tuning.collected[0].times) == 3


def test_what_a_kernel_left_to_nccl_is_no_time_of_the_kernel(tmp_path: Path) -> None:
    machine = Machine(lambda use: Taken(1.0, record("nccl", 1.0)) if use == "one_shot/ll" else None)
    tuning = machine.tuning(tmp_path, rounds=1)
    tuning.run()
    assert tuning.collected[0].times["one_shot/ll"] == {}


def test_a_library_that_is_not_ours_is_named_in_one_sentence(tmp_path: Path) -> None:
    machine = Machine(lambda use: Taken(1.0, record(use, 1.0, named=False)))
    with pytest.raises(UserError, match=r"^/l\.so does not say which algorithm it takes"):
        machine.tuning(tmp_path).run()


def test_nothing_is_tried_where_nccl_itself_cannot_be_measured(tmp_path: Path) -> None:
    machine = Machine(lambda _: Taken(1.0, reason="no GPU"))
    with pytest.raises(UserError, match="nothing can be tuned, since all_reduce by NCCL cannot be measured: no GPU"):
        machine.tuning(tmp_path).run()


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
