"""The best candidate of each size becomes a rule, and noise makes no crossings."""

from __future__ import annotations

from busbw.experiment.tune.choose import copies, copies_begin, crossings, rules_of

USES = ["nccl", "one_shot/ll", "two_shot/ll", "two_shot/ll@64x512"]


def test_neighbouring_sizes_with_one_winner_are_one_crossing_with_its_gains() -> None:
    found = crossings(
        {
            "nccl": {1024: 9.0, 2048: 9.0, 4096: 10.0, 8192: 12.0},
            "one_shot/ll": {1024: 3.0, 2048: 4.5, 4096: 9.0},
            "two_shot/ll": {4096: 5.0, 8192: 13.0},
        },
        USES,
    )
    assert [(each.use, list(each.times)) for each in found] == [
        ("one_shot/ll", [1024, 2048]), ("two_shot/ll", [4096]), ("nccl", [8192]),
    ]  # fmt: skip
    assert found[0].gains == (2.0, 3.0)
    assert found[2].gains == (1.0, 1.0)


def test_the_simpler_is_taken_where_noise_cannot_tell() -> None:
    medians = {"nccl": {1024: 9.0}, "two_shot/ll": {1024: 5.1}, "two_shot/ll@64x512": {1024: 5.0}}
    assert [each.use for each in crossings(medians, USES)] == ["two_shot/ll"]
    medians["two_shot/ll"] = {1024: 5.2}
    assert [each.use for each in crossings(medians, USES)] == ["two_shot/ll@64x512"]


def test_a_choice_goes_on_while_it_is_as_good_as_the_best() -> None:
    medians = {
        "nccl": {1024: 9.0, 2048: 9.0},
        "one_shot/ll": {1024: 6.0, 2048: 5.0},
        "two_shot/ll": {1024: 5.0, 2048: 5.1},
    }
    assert [each.use for each in crossings(medians, USES)] == ["two_shot/ll"]


def test_sizes_at_which_nccl_was_not_measured_are_left_out() -> None:
    assert crossings({"one_shot/ll": {1024: 1.0}}, USES) == []


def test_copy_engines_are_a_rule_of_their_own_from_where_they_stay_faster() -> None:
    medians = {
        "nccl": {1024: 9.0, 4096: 9.0, 16384: 9.0, 65536: 40.0},
        "direct/ll": {1024: 3.0, 4096: 6.0},
        "direct/copy": {1024: 2.0, 4096: 7.0, 16384: 8.0, 65536: 30.0},
    }
    uses = ["nccl", "direct/ll", "direct/copy"]
    found = crossings(medians, uses)
    assert [each.use for each in found] == ["direct/ll", "nccl"]
    into_windows = copies(medians, found)
    assert into_windows is not None
    assert into_windows.times == {65536: (30.0, 40.0), 16384: (8.0, 9.0)}
    assert copies_begin(into_windows, found) == 8192
    assert copies({**medians, "direct/copy": {65536: 39.9}}, found) is None
    assert copies({"nccl": medians["nccl"]}, found) is None


def test_rules_meet_half_way_between_the_sizes_and_end_at_the_largest() -> None:
    medians = {"nccl": {1024: 9.0, 4096: 3.0}, "one_shot/ll": {1024: 3.0, 4096: 9.0}}
    rules = rules_of("all_reduce", crossings(medians, USES), 4, ("float",), "NVIDIA H200")
    assert [str(rule) for rule in rules] == [
        "all_reduce ranks=4 type=float to=2048 one_shot/ll",
        "all_reduce ranks=4 type=float from=2049 to=4096 nccl",
    ]
