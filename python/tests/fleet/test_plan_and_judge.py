"""The planner and the judge against a simulated fabric: each kind of fault, noise, drift, and who is left alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from busbw.fleet.judge import judge
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.options import Options, inside_of
from busbw.fleet.plan import next_round
from busbw.fleet.score import component, play
from busbw.fleet.show import nodes_to_exclude
from busbw.fleet.simulate import Fault, World, draw_faults, make_fabric, run
from busbw.fleet.trial import INSIDE, reference
from busbw.fleet.verdict import Verdict

FABRIC = make_fabric(64, 16, 4)
OPTIONS = Options(inside=inside_of(4))


def verdicts(faults: Sequence[Fault], seed: int = 1, fabric=FABRIC, options=OPTIONS) -> tuple[list[Verdict], int]:
    world = World(fabric, tuple(faults), seed=seed)
    known = Knowledge()
    while trials := next_round(fabric, known, options):
        busy = [(node, t.channel) for t in trials for node in t.nodes]
        assert len(set(busy)) == len(busy), "a node is in two groups on one channel"
        known.learn(run(world, trials, known.rounds))
    return judge(fabric, known, options), known.rounds


@pytest.mark.parametrize("loss", [0.04, 0.2, 1.0])
@pytest.mark.parametrize(
    "where",
    [
        "nic1@node0005",
        "cable2@node0033",
        "pcie0@node0063",
        "nvlink@node0000",
        "leaf3@pod01",
        "uplink0@pod02",
        "spine1.3",
    ],
)
def test_one_fault_of_each_kind_is_named_and_nothing_else(where: str, loss: float) -> None:
    found, rounds = verdicts([Fault(where, loss)])
    assert [component(v) for v in found] == [where.partition(".")[0] if "spine" in where else where]
    assert (found[0].loss, found[0].runner_up) == (pytest.approx(loss, abs=0.015), "")
    assert rounds <= 17


def test_a_node_on_which_nothing_works_is_broken_once() -> None:
    found, _ = verdicts([Fault("broken@node0007", 1.0)])
    assert [(v.kind, v.place, v.reason) for v in found] == [("broken", "node0007", "it did not end within its time")]


@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_named_where_nothing_is_slow(seed: int) -> None:
    found, _ = verdicts([], seed)
    assert found == []


def test_two_cables_of_one_pod_and_rail_and_a_leaf_elsewhere_are_told_apart() -> None:
    faults = [Fault("cable0@node0001", 0.05), Fault("cable0@node0002", 0.25), Fault("leaf2@pod03", 0.1)]
    found, _ = verdicts(faults)
    assert {component(v) for v in found} == {f.where for f in faults}


def test_a_cable_worse_than_its_slow_leaf_is_seen_through_it() -> None:
    found, _ = verdicts([Fault("leaf2@pod03", 0.06), Fault("cable2@node0050", 0.3)])
    assert {component(v) for v in found} == {"leaf2@pod03", "cable2@node0050"}


@pytest.mark.parametrize("spine", [(), (Fault("spine2.1", 0.05),)])
def test_an_uplink_is_seen_behind_its_leaf_that_is_less_slow(spine: tuple[Fault, ...]) -> None:
    found, _ = verdicts([Fault("leaf2@pod03", 0.04), Fault("uplink2@pod03", 0.09), *spine])
    assert {component(v) for v in found} == {"leaf2@pod03", "uplink2@pod03", *(["spine2"] if spine else [])}


@pytest.mark.parametrize(("nodes", "pod", "rails"), [(12, 4, 1), (24, 8, 1), (9, 3, 1), (40, 8, 1), (12, 4, 2)])
@pytest.mark.parametrize("seed", [0, 2])
def test_an_uplink_of_few_pods_on_few_rails_is_seen(nodes: int, pod: int, rails: int, seed: int) -> None:
    found, _ = verdicts([Fault("uplink0@pod01", 0.3)], seed, make_fabric(nodes, pod, rails), Options(inside=()))
    assert [component(v) for v in found] == ["uplink0@pod01"]
    found, _ = verdicts([], seed, make_fabric(nodes, pod, rails), Options(inside=()))
    assert found == []


def test_an_uplink_is_seen_beside_a_worse_spine() -> None:
    found, _ = verdicts([Fault("uplink1@pod02", 0.07), Fault("spine1.0", 0.26)], fabric=make_fabric(128, 16, 3))
    assert {component(v) for v in found} == {"uplink1@pod02", "spine1"}
    assert {v.reason for v in found} == {"it is full or slow"}


def test_a_leaf_and_a_cable_are_not_called_full() -> None:
    found, _ = verdicts([Fault("leaf1@pod02", 0.2), Fault("cable2@node0001", 0.2)])
    assert len(found) == 2 and {v.reason for v in found} == {""}


def test_a_slow_pcie_link_is_not_blamed_on_its_nic_but_a_worse_nic_is() -> None:
    found, _ = verdicts([Fault("pcie1@node0004", 0.1), Fault("nic1@node0005", 0.3), Fault("pcie1@node0005", 0.05)])
    assert {component(v) for v in found} == {"pcie1@node0004", "nic1@node0005", "pcie1@node0005"}


def test_without_the_loopback_nic_and_cable_cannot_be_told_apart() -> None:
    found, _ = verdicts([Fault("cable2@node0033", 0.1)], options=Options())
    assert [(v.kind, v.place) for v in found] == [("link", "node0033")]


def test_of_two_nodes_none_is_accused_since_they_cannot_be_told_apart() -> None:
    # Two nodes in a pod of their own: whatever is slow between them may be either, or their leaf.
    found, _ = verdicts([Fault("cable2@node0001", 0.2)], fabric=make_fabric(2, 2, 4), options=Options())
    assert [(v.kind, v.place) for v in found] == [("either", "leaf pod00 or link node0000 or link node0001")]
    assert found[0].runner_up == ""
    assert nodes_to_exclude(make_fabric(2, 2, 4), found) == {}


def test_with_a_third_node_the_slow_one_of_two_is_named() -> None:
    fabric = replace(make_fabric(3, 3, 4), pod_of={})
    found, _ = verdicts([Fault("cable2@node0001", 0.2)], fabric=fabric, options=Options())
    assert [(v.kind, v.place) for v in found] == [("link", "node0001")]


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_where_noise_hides_which_of_two_switches_it_is_the_runner_up_is_named(seed: int) -> None:
    fabric, options = make_fabric(9, 3, 1), Options(inside=())
    world, known = World(fabric, (Fault("uplink0@pod01", 0.06),), seed=seed, noise=0.03), Knowledge()
    while trials := next_round(fabric, known, options):
        known.learn(run(world, trials, known.rounds))
    (found,) = judge(fabric, known, options)
    assert {f"{found.kind} {found.place}".strip(), found.runner_up} == {"uplink pod01", "spine"}


def test_two_slow_spines_of_a_rail_are_no_uplinks() -> None:
    # The worse one hides the other wherever both are met.
    found, _ = verdicts([Fault("spine2.3", 0.06), Fault("spine2.0", 0.1)], fabric=make_fabric(128, 16, 3))
    assert {(v.kind, v.place, round(v.loss, 2)) for v in found} == {("spine", "", 0.1), ("spine", "second", 0.06)}
    assert len({v.name for v in found}) == 2


def test_fleets_of_one_rail_and_without_pods_are_judged_by_pairs() -> None:
    fabric = replace(make_fabric(8, 8, 1), pod_of={})
    found, _ = verdicts(
        [Fault("cable0@node0002", 0.1), Fault("cable0@node0006", 0.15)], fabric=fabric, options=Options()
    )
    assert {(v.kind, v.place) for v in found} == {("link", "node0002"), ("link", "node0006")}


def test_results_across_the_threshold_are_measured_again_with_more_repeats() -> None:
    known = Knowledge()
    first = next_round(FABRIC, known, OPTIONS)
    world = World(FABRIC, (Fault("nic0@node0001", OPTIONS.threshold),), drift=0, noise=0.01, bursts=0, seed=2)
    known.learn(run(world, first, 0))
    again = {t.key: t.repeats for t in next_round(FABRIC, known, OPTIONS)}
    assert again[INSIDE, ("node0001",), "nic0"] == 2 * OPTIONS.repeats


def test_planning_ends_whatever_the_results_are() -> None:
    known = Knowledge()
    world = World(FABRIC, noise=0.3, bursts=0.3, seed=5)
    while trials := next_round(FABRIC, known, OPTIONS):
        known.learn(run(world, trials, known.rounds))
    assert known.rounds <= OPTIONS.most_rounds


def test_of_few_peers_most_may_be_slow() -> None:
    assert reference([9.0, 9.1, 8.9, 10.0], []) == 10.0
    assert reference([9.0, 9.1, 8.9, 9.0], [10.0, 10.1, 9.9]) == 10.0


def test_half_of_many_peers_may_be_slow_as_all_rings_of_a_rail_with_a_slow_uplink_are() -> None:
    assert reference([8.5] * 18 + [10.0] * 16, []) == 10.0


@pytest.mark.parametrize("seed", range(2))
def test_fleets_with_several_faults_reach_the_figures(seed: int) -> None:
    world = World(make_fabric(256, 32, 8), seed=seed + 7000)
    world = replace(world, faults=draw_faults(world, 5, 0.03))
    score = play(world, Options(inside=inside_of(8)))
    assert (score.named, score.accused, score.invented) == (5, 0, ())
    assert score.rounds <= 20


def test_behind_a_dead_leaf_one_turn_of_pairs_says_all() -> None:
    fabric = make_fabric(128, 16, 4)
    leaf = f"leaf1@{sorted(set(fabric.pod_of.values()))[3]}"
    world = replace(World(fabric, noise=0.01, seed=5), faults=(Fault(leaf, 1.0),))
    score = play(world, Options(smallest_loss=0.03, inside=inside_of(4)))
    assert (score.named, score.accused, score.invented) == (1, 0, ())
    assert score.rounds <= 12, "three turns of pairs, each measured twice, take 15"
