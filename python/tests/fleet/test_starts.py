"""Starts differ: samples of one start depend on each other, launches fail at times, nodes are slow at times or die."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pytest

from busbw.fleet.doubts import Judged, doubts
from busbw.fleet.judge import judge
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.options import Options, inside_of, is_slow
from busbw.fleet.plan import next_round
from busbw.fleet.results import Results
from busbw.fleet.scatter import Scatter, Seen, Spacing, spacing
from busbw.fleet.score import play
from busbw.fleet.simulate import Fault, World, make_fabric, run
from busbw.fleet.trial import INSIDE, WITHIN, Deviation, Outcome, Trial, beside, deviations
from busbw.fleet.verdict import Verdict

FABRIC = make_fabric(64, 16, 4)
OPTIONS = Options(inside=inside_of(4))
Runs = Callable[[Sequence[Trial], int], list[Outcome]]


def played(runs: Runs) -> tuple[list[Verdict], list[str]]:
    """Verdicts, and what makes them doubtful."""
    known, results = Knowledge(), Results()
    while trials := next_round(FABRIC, known, OPTIONS):
        assert all(len(set(trial.nodes)) == len(trial.nodes) for trial in trials)
        results.rounds.append(runs(trials, known.rounds))
        known.learn(results.rounds[-1])
    found = judge(FABRIC, known, OPTIONS)
    return found, doubts(results, Judged(FABRIC, known, OPTIONS, found), False)


def turns(worlds: Iterable[World]) -> Runs:
    """A world for each round."""
    each = list(worlds)
    return lambda trials, number: run(each[number % len(each)], trials, number)


@pytest.mark.parametrize("starts", [0.01, 0.02])
def test_starts_that_differ_accuse_nobody(starts: float) -> None:
    """Repeats of a start do not show it; without it hundreds of verdicts were noise."""
    accused = [play(World(FABRIC, seed=seed, starts=starts), OPTIONS).accused for seed in range(4)]
    assert sum(accused) <= 1


def test_through_starts_that_differ_a_slow_cable_is_seen() -> None:
    for seed in range(3):
        world = World(FABRIC, (Fault("cable1@node0020", 0.15),), seed=seed, starts=0.02)
        assert play(world, OPTIONS).named == 1


def test_few_nodes_whose_starts_differ_are_not_accused() -> None:
    """Six have no peers enough above what is usual: what they were before tells."""
    scores = [
        play(World(make_fabric(6, 8, 2), seed=seed, starts=0.02), Options(inside=inside_of(2))) for seed in range(10)
    ]
    assert sum(score.accused for score in scores) <= 2


def test_one_start_far_off_names_no_part_of_a_node() -> None:
    known, options = Knowledge(), Options(inside=("nvlink",))
    trials = [Trial(INSIDE, (f"n{at}",), "nvlink", 16) for at in range(20)]
    samples = [tuple(10 + 0.1 * (-1) ** each for each in range(16)) for _ in trials]
    samples[3] = tuple(0.97 * each for each in samples[3])
    known.learn([Outcome(trial, each) for trial, each in zip(trials, samples, strict=True)])
    assert is_slow(trials[3].key, known, options) is None
    known.learn([Outcome(trials[3], samples[3])])
    assert is_slow(trials[3].key, known, options) is True


@pytest.mark.parametrize(("parts", "sure"), [(10, True), (10_000, False)])
def test_of_many_parts_one_lies_far_off_by_noise_alone(parts: int, sure: bool) -> None:
    known, keys = Knowledge(), [(INSIDE, (f"n{at}",), "nvlink") for at in range(parts)]
    known.found[INSIDE].update(dict.fromkeys(keys, Deviation(0.0, 0.006)))
    known.found[INSIDE][keys[3]], known.tries[keys[3]] = Deviation(0.026, 0.006), 3
    assert is_slow(keys[3], known, Options()) is sure


def test_starts_of_the_same_groups_say_how_much_starts_scatter() -> None:
    scatter, keys = Scatter([Seen(0.1, 0.003, 9)]), [(WITHIN, (name,), "rail0") for name in "abcdef"]
    scatter.compare(dict.fromkeys(keys, 10.0), 0.003)
    scatter.compare(dict(zip(keys, (8.03, 8.0, 8.02, 7.98, 8.01, 8.0), strict=True)), 0.003)
    assert scatter.changed() is False, "they set groups apart, and lie where they were but for drift"
    scatter.compare(dict(zip(keys, (9.2, 8.3, 8.0, 7.6, 8.5, 8.1), strict=True)), 0.003)
    assert scatter.changed() is True
    assert 0.03 < scatter.between < 0.1


def at_two_levels(world: World, low: float, share: float) -> Runs:
    """Each start as a whole is at one of two levels: its samples do not show it."""

    def runs(trials: Sequence[Trial], number: int) -> list[Outcome]:
        chance = random.Random(f"{world.seed} {number}")
        shares = [low if chance.random() < share else 1.0 for _ in trials]
        return [one._replace(samples=tuple(sample * share for sample in one.samples))
                for one, share in zip(run(world, trials, number), shares, strict=True)]  # fmt: skip

    return runs


@pytest.mark.parametrize(("low", "share"), [(0.9, 0.5), (0.8, 0.3)])
def test_parts_inside_nodes_whose_starts_are_at_two_levels_are_not_accused(low: float, share: float) -> None:
    """One start in two or three was low, and half of all nodes were accused after it."""
    for seed in range(2):
        found, _ = played(at_two_levels(World(FABRIC, seed=seed), low, share))
        assert not [verdict for verdict in found if verdict.kind in {"nvlink", "pcie", "nic"}]


def test_steps_at_two_levels_show_though_their_median_is_none() -> None:
    keys = [(WITHIN, (f"n{at}",), "rail0") for at in range(20)]
    scatter, one = Scatter(), Scatter()
    for each in (scatter, one):
        each.compare(dict.fromkeys(keys, 10.0), 0.003)
    scatter.compare({key: 9.0 if at < 6 else 10.0 for at, key in enumerate(keys)}, 0.003)
    assert scatter.changed()
    assert 0.02 < scatter.between < 0.1
    one.compare({key: 9.0 if at < 2 else 10.0 for at, key in enumerate(keys)}, 0.003)
    assert not one.changed(), "two that became slow are no scatter of all"


def test_one_group_that_is_far_too_fast_is_no_scatter() -> None:
    levels = [10.0 + 0.01 * at for at in range(-10, 11)]
    assert (spacing([*levels, 99.0], 10.0, median=True) or Spacing(1.0, 0)).size < 0.02


def test_faults_that_set_groups_apart_are_no_scatter_of_starts() -> None:
    """Every ring has a slow node, each with a loss of its own: starts of the same group are alike."""
    faults = tuple(Fault(f"cable{at % 2}@node{7 * at % 64:04d}", 0.08 + 0.02 * at) for at in range(14))
    score = play(World(make_fabric(64, 16, 2), faults), replace(OPTIONS, inside=inside_of(2)))
    assert (score.named >= 12, score.accused) == (True, 0)


def test_what_two_levels_by_turns_say_of_their_median_is_little() -> None:
    trials = [Trial(INSIDE, (f"n{at}",), "nvlink", 16) for at in range(20)]
    steady, torn = (10.0, 10.1, 9.9, 10.05) * 4, (10.0, 7.0) * 8 + (7.0,)
    group = [Outcome(trials[0], torn), *(Outcome(trial, steady) for trial in trials[1:])]
    _, found = deviations(beside((INSIDE, "nvlink", 0), group), 0.0)
    (_, first), (_, second) = found[:2]
    assert (first.error > 0.05, second.error < 0.005) == (True, True)


def test_launches_that_fail_at_times_break_nothing() -> None:
    for seed in range(3):
        score = play(World(FABRIC, (Fault("nic1@node0007", 0.2),), seed=seed, lapses=0.05), OPTIONS)
        assert (score.named, score.accused, score.invented) == (1, 0, ())


def test_what_never_starts_is_told_apart_from_launches_that_fail_at_times() -> None:
    score = play(World(FABRIC, (Fault("nic1@node0007", 1.0),), seed=1, lapses=0.05), OPTIONS)
    assert (score.named, score.accused, score.invented) == (1, 0, ())


@pytest.mark.parametrize("dies", [1, 2, 3])
def test_a_node_that_dies_on_the_way_is_named_and_no_spine(dies: int) -> None:
    well = World(FABRIC, seed=dies)
    dead = replace(well, faults=(Fault("broken@node0037", 1.0),))
    found, _ = played(turns([well] * dies + [dead] * 40))
    assert {v.place for v in found} == {"node0037"}


@pytest.mark.parametrize("seed", [1, 7, 8, 9])
def test_a_cable_that_is_slow_at_times_is_told_and_no_spine(seed: int) -> None:
    well = World(FABRIC, seed=seed)
    slow = replace(well, faults=(Fault(f"cable2@node{7 * seed:04d}", 0.25),))
    rng = random.Random(seed)
    found, said = played(turns([slow if rng.random() < 0.5 else well for _ in range(40)]))
    assert {(v.kind, v.place) for v in found} <= {("cable", f"node{7 * seed:04d}")}
    assert found or any("on rail2" in line and "slow at times" in line for line in said)


def test_nobody_is_measured_with_itself() -> None:
    """A node of a slow quarter may be in a group that is settled as good by what is known now."""
    pods, known = FABRIC.pods(), Knowledge()
    for at, (pod, rail) in enumerate(itertools.product(pods, range(4))):
        nodes = pods[pod]
        parts = {nodes: 0.2, nodes[:8]: 0.2, nodes[8:]: 0.0, nodes[:4]: 0.2, nodes[4:8]: 0.0, nodes[:2]: 0.0}
        for group, loss in parts.items() if at == 0 else ((nodes, 0.0),):
            key = (WITHIN, group, f"rail{rail}")
            known.found[WITHIN][key], known.tries[key] = Deviation(loss, 0.001), 1
    asked = [trial for trial in next_round(FABRIC, known, Options(inside=())) if len(trial.nodes) == 2]
    assert asked
    assert all(len(set(trial.nodes)) == 2 for trial in asked)


def test_what_is_slow_only_in_large_groups_is_told_and_accuses_no_node() -> None:
    well = World(FABRIC, seed=4)
    slow = replace(well, faults=(Fault("cable2@node0021", 0.25),))
    found, _ = played(lambda trials, number: run(
        slow if any(t.kind == WITHIN and len(t.nodes) > 8 for t in trials) else well, trials, number))  # fmt: skip
    assert [(v.kind, v.place, v.reason) for v in found] == [
        ("leaf", "pod01", "only with most of its nodes at once")]  # fmt: skip


def test_a_node_that_was_away_for_a_round_is_told() -> None:
    well = World(FABRIC, seed=5)
    away = replace(well, faults=(Fault("broken@node0011", 1.0),))
    found, said = played(turns([away, *[well] * 40]))
    assert not found
    assert [line for line in said if "9 groups failed and went well another time, most with node0011: it did" in line]
