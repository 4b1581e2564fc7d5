"""Small fleets with much noise: no verdict from noise alone, and a large fault is still named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.fleet.fabric import Fabric
from busbw.fleet.judge import judge
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.options import Options, inside_of
from busbw.fleet.plan import next_round
from busbw.fleet.score import play
from busbw.fleet.simulate import Fault, World, make_fabric, run
from busbw.fleet.trial import INSIDE, Outcome, Trial

OPTIONS = Options(inside=inside_of(2))


@pytest.mark.parametrize("nodes", [4, 8])
def test_noise_of_five_percent_condemns_nobody(nodes: int) -> None:
    for seed in range(1, 9):
        score = play(World(make_fabric(nodes, 32, 2), noise=0.05, seed=seed), OPTIONS)
        assert (score.invented, score.accused) == ((), 0)


def test_a_fault_of_ten_percent_is_named_through_the_noise() -> None:
    world = World(make_fabric(8, 32, 2), noise=0.05, seed=3)
    score = play(replace(world, faults=(Fault("nic1@node0005", 0.10),)), OPTIONS)
    assert (score.named, score.accused) == (1, 0)


@pytest.mark.parametrize("dead", [("n2", "n3", "n4"), ("n1", "n2", "n6"), ("n1", "n2", "n3"), ("n5", "n6")])
def test_a_slow_node_among_dead_ones_is_named(dead: tuple[str, ...]) -> None:
    """Its partners may all be dead, and a pair may be alone in its round: then its level says what it is worth."""
    nodes = tuple(f"n{number}" for number in range(1, 9))
    for slow in sorted(set(nodes) - set(dead)):
        faults = (*(Fault(f"cable0@{node}", 1.0) for node in dead), Fault(f"cable0@{slow}", 0.3))
        world, known = World(Fabric(nodes), faults, bursts=0.0), Knowledge()
        options = Options(smallest_loss=0.1, repeats=4, most_repeats=16, inside=())
        while trials := next_round(world.fabric, known, options):
            known.learn(run(world, trials, known.rounds))
        losses = {verdict.place: round(verdict.loss, 1) for verdict in judge(world.fabric, known, options)}
        assert losses == {**dict.fromkeys(dead, 1.0), slow: 0.3}


def test_of_three_nodes_a_slow_one_is_named() -> None:
    nodes = ("a", "b", "c")
    for slow in nodes:
        world, known = World(Fabric(nodes), (Fault(f"cable0@{slow}", 0.2),), bursts=0.0), Knowledge()
        options = Options(inside=())
        while trials := next_round(world.fabric, known, options):
            known.learn(run(world, trials, known.rounds))
        assert [verdict.place for verdict in judge(world.fabric, known, options)] == [slow]


def test_a_part_inside_that_is_measured_again_has_good_peers() -> None:
    world, known, options = World(make_fabric(64, 16, 4), seed=1), Knowledge(), Options(inside=inside_of(4))
    known.learn(run(world, next_round(world.fabric, known, options), 0))
    again = next_round(world.fabric, known, options)
    asked = {trial.channel.rstrip("0123456789") for trial in again if trial.kind == INSIDE and not trial.control}
    assert asked
    for part in asked:
        assert sum(trial.control for trial in again if trial.channel.startswith(part)) == options.controls


def test_one_failed_launch_condemns_no_group_that_was_measured_before() -> None:
    known, pair = Knowledge(), Trial("within", ("a", "b"), "rail0", 4)
    others = [Trial("within", tuple(each), "rail0", 4) for each in ("cd", "ef", "gh")]
    good = [Outcome(trial, (1.0, 1.01, 0.99, 1.0)) for trial in (pair, *others)]
    failed = [Outcome(pair, (), "mpirun ended with 1"), *good[1:]]
    known.learn(good)
    known.learn(failed)
    assert not known.found["within"][pair.key].reason
    known.learn(failed)
    assert known.found["within"][pair.key].reason == "mpirun ended with 1"
