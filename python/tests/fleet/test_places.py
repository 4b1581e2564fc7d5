"""Nodes whose pods are unknown: what they share is told instead of each of them."""

from __future__ import annotations

import random

import pytest

from busbw.fleet.doubts import Judged, doubts
from busbw.fleet.fabric import Fabric
from busbw.fleet.judge import judge
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.options import Options, inside_of
from busbw.fleet.places import FEWEST_ALIKE, Pair, Places, _top, alike, places_of
from busbw.fleet.plan import _controls, _State, next_round
from busbw.fleet.results import Results
from busbw.fleet.simulate import Fault, World, make_fabric, run
from busbw.fleet.together import Loose, behind_one
from busbw.fleet.trial import INSIDE, WITHIN, Deviation, Outcome, Trial
from busbw.fleet.verdict import Verdict

OPTIONS = Options(inside=inside_of(2))


def played(seed: int, carried: float, *faults: Fault, nodes: int = 64) -> tuple[list[Verdict], list[str], Knowledge]:
    """Names say nothing of the pods of 16, above each of which so many flows are carried."""
    real = make_fabric(nodes, 16, 2)
    names = list(real.nodes)
    random.Random(seed).shuffle(names)
    pods = {node: f"p{at // 16}" for at, node in enumerate(names)}
    blind = Fabric(real.nodes, {}, 2)
    world, known, rounds = World(Fabric(real.nodes, pods, 2), faults, seed=seed), Knowledge(), list[list[Outcome]]()
    while trials := next_round(blind, known, OPTIONS):
        rounds.append(full(run(world, trials, known.rounds), pods, carried))
        known.learn(rounds[-1])
    verdicts = judge(blind, known, OPTIONS)
    return verdicts, doubts(Results(rounds), Judged(blind, known, OPTIONS, verdicts), expected=False), known


def full(outcomes: list[Outcome], pods: dict[str, str], carried: float) -> list[Outcome]:
    """With what a pod's uplinks leave to each flow."""
    load: dict[tuple[str, str], int] = {}
    for trial in (o.trial for o in outcomes if o.trial.kind != INSIDE):
        for pod in crossed(trial, pods):
            load[pod, trial.channel] = load.get((pod, trial.channel), 0) + 2
    found = []
    for o in outcomes:
        share = min([1.0, *(carried / load[pod, o.trial.channel] for pod in crossed(o.trial, pods))])
        found.append(o._replace(samples=tuple(sample * share for sample in o.samples)))
    return found


def crossed(trial: Trial, pods: dict[str, str]) -> set[str]:
    """The pods between which a group sends."""
    mine = {pods[node] for node in trial.nodes}
    return mine if len(mine) > 1 and trial.kind != INSIDE else set()


@pytest.mark.parametrize("seed", range(4))
def test_nobody_is_accused_of_full_links_between_unknown_places(seed: int) -> None:
    verdicts, said, known = played(seed, 4.0)
    assert not verdicts
    assert any("links that they share are full or slow" in line for line in said)
    assert known.rounds <= 24


def test_a_cable_is_named_beside_full_links() -> None:
    verdicts, _, known = played(1, 4.0, Fault("cable1@node0021", 0.2))
    quiet = places_of(known, "rail1", make_fabric(64, 16, 2).nodes, OPTIONS).quiet
    assert any("node0021" in key[1] for key in quiet), "it was measured beside nobody"
    assert [(v.kind, v.place, v.channel) for v in verdicts] == [("cable", "node0021", "rail1")]
    assert verdicts[0].loss == pytest.approx(0.2, abs=0.02)


def test_a_leaf_of_unknown_place_is_one_verdict_with_its_nodes() -> None:
    verdicts, _, _ = played(2, 1e9, Fault("leaf1@p1", 0.25))
    assert [(v.kind, v.channel) for v in verdicts] == [("shared", "rail1")]
    assert verdicts[0].place.count(",") + verdicts[0].place.count("-") >= FEWEST_ALIKE


def test_few_or_unlike_losses_are_no_shared_part() -> None:
    assert alike({"a": 0.2, "b": 0.201, "c": 0.199}) == []
    assert alike({"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4}) == []
    assert alike({"a": 0.2, "b": 0.201, "c": 0.199, "d": 0.205, "e": 0.5, "f": 1.0}) == ["a", "b", "c", "d"]


def test_a_node_that_is_slow_on_all_rails_of_one_pod_is_named() -> None:
    """Rings of one pod are no peers: each has that node."""
    fabric, known, options = make_fabric(32, 32, 8), Knowledge(), Options(inside=())
    world = World(fabric, tuple(Fault(f"cable{rail}@node0007", 0.2) for rail in range(8)), seed=3)
    while trials := next_round(fabric, known, options):
        known.learn(run(world, trials, known.rounds))
    assert {(v.place, v.channel) for v in judge(fabric, known, options)} == {
        ("node0007", f"rail{rail}") for rail in range(8)
    }


def test_which_results_say_something_of_a_node_where_links_are_full() -> None:
    good, far = Deviation(0.0, 0.002), Deviation(0.6, 0.002)
    pairs = [Pair((WITHIN, nodes, "rail0"), one) for nodes, one in (
        (("a", "b"), good), (("c", "d"), good), (("a", "c"), far), (("a", "e"), far),
        (("c", "e"), Deviation(0.4, 0.002)),
    )]  # fmt: skip
    alone = frozenset([pairs[4].key])
    loose = Loose(Places(pairs, 0.015, crowded=True, quiet=alone))
    assert [loose.counts(pair.key, pair.one) for pair in pairs] == [True, True, False, False, True]
    assert loose.places.good == {"a", "b", "c", "d"}
    assert loose.places.tried("e") == {"a", "c"}
    assert loose.doubt("e"), "two places are too few"
    more = [*pairs, Pair((WITHIN, ("f", "e"), "rail0"), far), Pair((WITHIN, ("f", "g"), "rail0"), good)]
    assert not Loose(Places(more, 0.015, crowded=True, quiet=alone)).doubt("e")
    assert Loose(Places(more, 0.015, crowded=True)).doubt("e"), "it was never measured by itself"
    assert not Loose(Places(pairs, 0.015, crowded=False)).doubt("e")


def accused_of(losses: dict[str, float], *, crowded: bool, alone: int) -> tuple[list[tuple[str, ...]], set[str]]:
    """What is named instead of these nodes, so many of which were measured by themselves."""
    pairs = [Pair((WITHIN, (f"good{at}{node}", node), "rail0"), Deviation(loss, 0.002))
             for node, loss in losses.items() for at in range(3)]  # fmt: skip
    pairs += [Pair((WITHIN, (pair.key[1][0], f"x{pair.key[1][0]}"), "rail0"), Deviation(0.0, 0.002)) for pair in pairs]
    quiet = frozenset(pair.key for pair in pairs[: 3 * alone : 3])
    behind, spared = behind_one(Loose(Places(pairs, 0.015, crowded, quiet)),
                                {node: Deviation(loss, 0.002) for node, loss in losses.items()})  # fmt: skip
    return [each.nodes for each in behind], spared


def test_what_nodes_share_is_named_only_on_evidence() -> None:
    alike_four = dict.fromkeys("abcd", 0.2)
    assert accused_of(alike_four, crowded=False, alone=0) == ([tuple("abcd")], set("abcd"))
    assert accused_of(alike_four, crowded=True, alone=2) == ([tuple("abcd")], set("abcd"))
    assert accused_of(alike_four, crowded=True, alone=1) == ([], set("abcd")), "full links may slow them alike"
    unlike = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4}
    assert accused_of(unlike, crowded=False, alone=0) == ([], set())
    assert accused_of(unlike, crowded=True, alone=4) == ([], set("abcd")), "company slows each by its own amount"
    assert accused_of({"a": 0.1}, crowded=True, alone=1) == ([], set())


def test_one_quick_pair_is_no_level() -> None:
    levels = {("within", (f"n{at}", f"m{at}"), "rail0"): (level, 0.01) for at, level in enumerate([9, 8, 8.1, 7.9, 3])}
    assert _top(levels) == 8
    same = {("within", ("n", f"m{at}"), "rail0"): (8.0, 0.01) for at in range(5)}
    assert _top(same) == 0.0, "all have one node in common"


def test_nodes_that_are_slow_with_all_but_near_ones_share_something() -> None:
    def pair(a: str, b: str, loss: float) -> Pair:
        return Pair((WITHIN, (a, b), "rail0"), Deviation(loss, 0.002))

    near = [pair("a0", "a1", 0.0), pair("a2", "a3", 0.0), *(pair(f"b{at}", f"b{at + 1}", 0.0) for at in range(9))]
    away = [pair(f"a{at}", f"b{2 * at + far}", 0.3) for at in range(4) for far in (0, 1)]
    [one], spared = behind_one(Loose(Places([*near, *away], 0.015, crowded=True)), {})
    assert (one.nodes, one.loss) == (("a0", "a1", "a2", "a3"), 0.3)
    assert spared == {"a0", "a1", "a2", "a3"}
    others = [pair("b0", "b5", 0.3), pair("b1", "b6", 0.3), pair("b2", "b7", 0.3)]
    assert behind_one(Loose(Places([*near, *away, *others], 0.015, crowded=True)), {})[0] == [], "others are slow too"
    assert behind_one(Loose(Places([*near, *away], 0.015, crowded=False)), {})[0] == []


def test_beside_what_is_measured_alone_no_good_pair_of_its_rail_is() -> None:
    fabric, known = make_fabric(16, 16, 2), Knowledge()
    for rail in range(2):
        for at in range(2, 16, 2):
            key = (WITHIN, (fabric.nodes[at], fabric.nodes[at + 1]), f"rail{rail}")
            known.found[WITHIN][key], known.tries[key] = Deviation(0.0, 0.001), 1
    state, alone = _State(fabric, OPTIONS, known), Trial(WITHIN, fabric.nodes[:2], "rail0", 16)
    assert {trial.channel for trial in _controls(state, [alone])} == {"rail0"}
    state.quiet.add("rail0")
    assert {trial.channel for trial in _controls(state, [alone])} == {"rail1"}
