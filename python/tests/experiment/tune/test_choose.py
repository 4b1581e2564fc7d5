"""The best candidate of each size becomes a rule, and noise makes no crossings."""

from __future__ import annotations

from collections.abc import Mapping

from busbw.experiment.best import Board
from busbw.experiment.factors import Factor, Level
from busbw.experiment.plan import Limits, Plan
from busbw.experiment.trial import Outcome, Point, Trial
from busbw.experiment.tune.candidates import NOISE
from busbw.experiment.tune.choose import copies, copies_begin, crossings, rules_of
from busbw.experiment.tune.measure import Collected

USES = ["nccl", "one_shot/ll", "two_shot/ll", "two_shot/ll@64x512"]


def of(times: Mapping[str, Mapping[int, float]], uses: list[str] = USES, rounds: int = 1) -> Collected:
    """What is known when every round measures the same."""
    plan = Plan((Factor("algorithm", tuple(map(Level, uses))),), ("all_reduce",), limits=Limits(margin=NOISE))
    trials = []
    for number in range(rounds):
        for use, by in times.items():
            points = {Point("all_reduce", size, "out_of_place"): value for size, value in by.items()}
            trials.append(Trial(number, uses.index(use), Outcome.MEASURED, 1.0, points, dict.fromkeys(points, 1.0)))
    return Collected("all_reduce", tuple(uses), Board(plan, trials))


def test_neighbouring_sizes_with_one_winner_are_one_crossing_with_its_gains() -> None:
    found = crossings(
        of(
            {
                "nccl": {1024: 9.0, 2048: 9.0, 4096: 10.0, 8192: 12.0},
                "one_shot/ll": {1024: 3.0, 2048: 4.5, 4096: 9.0},
                "two_shot/ll": {4096: 5.0, 8192: 13.0},
            }
        )
    )
    assert [(each.use, list(each.times)) for each in found] == [
        ("one_shot/ll", [1024, 2048]), ("two_shot/ll", [4096]), ("nccl", [8192]),
    ]  # fmt: skip
    assert found[0].gains == (2.0, 3.0)
    assert found[2].gains == (1.0, 1.0)


def test_the_simpler_is_taken_where_noise_cannot_tell() -> None:
    medians = {"nccl": {1024: 9.0}, "two_shot/ll": {1024: 5.1}, "two_shot/ll@64x512": {1024: 5.0}}
    assert [each.use for each in crossings(of(medians))] == ["two_shot/ll"]
    medians["two_shot/ll"] = {1024: 5.2}
    assert [each.use for each in crossings(of(medians))] == ["two_shot/ll@64x512"]


def test_a_choice_goes_on_while_it_is_as_good_as_the_best() -> None:
    medians = {
        "nccl": {1024: 9.0, 2048: 9.0},
        "one_shot/ll": {1024: 6.0, 2048: 5.0},
        "two_shot/ll": {1024: 5.0, 2048: 5.1},
    }
    assert [each.use for each in crossings(of(medians))] == ["two_shot/ll"]


def test_sizes_at_which_nccl_was_not_measured_are_left_out() -> None:
    assert crossings(of({"one_shot/ll": {1024: 1.0}})) == []


def test_copy_engines_are_a_rule_of_their_own_from_where_they_stay_faster() -> None:
    medians = {
        "nccl": {1024: 9.0, 4096: 9.0, 16384: 9.0, 65536: 40.0},
        "direct/ll": {1024: 3.0, 4096: 6.0},
        "direct/copy": {1024: 2.0, 4096: 7.0, 16384: 8.0, 65536: 30.0},
    }
    uses = ["nccl", "direct/ll", "direct/copy"]
    found = crossings(of(medians, uses))
    assert [each.use for each in found] == ["direct/ll", "nccl"]
    into_windows = copies(of(medians, uses), found)
    assert into_windows is not None
    assert into_windows.times == {65536: (30.0, 40.0), 16384: (8.0, 9.0)}
    assert copies_begin(into_windows, found) == 8192
    assert copies(of({**medians, "direct/copy": {65536: 39.9}}, uses), found) is None
    assert copies(of({"nccl": medians["nccl"]}, uses), found) is None


def test_rules_meet_half_way_between_the_sizes_and_end_at_the_largest() -> None:
    medians = {"nccl": {1024: 9.0, 4096: 3.0}, "one_shot/ll": {1024: 3.0, 4096: 9.0}}
    rules = rules_of("all_reduce", crossings(of(medians)), 4, ("float",), "NVIDIA H200")
    assert [str(rule) for rule in rules] == [
        "all_reduce ranks=4 type=float to=2048 one_shot/ll",
        "all_reduce ranks=4 type=float from=2049 to=4096 nccl",
    ]


def test_sizes_at_which_another_may_be_better_are_named_until_rounds_have_told() -> None:
    medians = {"nccl": {1024: 9.0}, "one_shot/ll": {1024: 5.0}, "two_shot/ll": {1024: 5.3}}
    assert crossings(of(medians))[0].unsure == {1024}
    assert crossings(of(medians, rounds=5))[0].unsure == frozenset()
    assert of(medians, USES[:3], rounds=5).board.settled
    assert of(medians, rounds=5).board.alive == [0, 3], "a candidate that nobody has measured yet"
