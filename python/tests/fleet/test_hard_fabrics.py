"""Fabrics for which planner and judge were not built: bench/fleet/hard_fabrics.py has more of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from busbw.fleet.fabric import Fabric
from busbw.fleet.judge import judge
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.likelihood import penalty
from busbw.fleet.options import Options, inside_of
from busbw.fleet.plan import near, next_round
from busbw.fleet.show import nodes_to_exclude
from busbw.fleet.simulate import Fault, World, make_fabric, run
from busbw.fleet.sorts import another_kind
from busbw.fleet.starts import Law, by_law, law_of
from busbw.fleet.trial import INSIDE, WITHIN, Deviation, Key, Outcome, Trial, beside, usual_of
from busbw.fleet.verdict import Verdict

Change = Callable[[random.Random, Trial], float]


def played(fabric: Fabric, faults: Sequence[Fault], change: Change | None = None, seed: int = 1) -> list[Verdict]:
    """Verdicts where each start is multiplied by what `change` says."""
    options, known = Options(inside=inside_of(fabric.rails)), Knowledge()
    world = World(fabric, tuple(faults), seed=seed, bursts=0.0)
    while trials := next_round(fabric, known, options):
        chance = random.Random(f"{seed} {known.rounds}")
        found = []
        for outcome in run(world, trials, known.rounds):
            factor = change(chance, outcome.trial) if change else 1.0
            found.append(outcome._replace(samples=tuple(factor * sample for sample in outcome.samples)))
        known.learn(found)
    return judge(fabric, known, options)


def named(verdicts: Sequence[Verdict]) -> set[tuple[str, str, str]]:
    return {(v.kind, v.place, v.channel) for v in verdicts}


@pytest.mark.parametrize("share", [0.2, 0.3])
def test_a_cable_is_named_through_starts_at_two_levels(share: float) -> None:
    fabric = make_fabric(64, 16, 2)
    for seed in range(2):
        found = played(fabric, [Fault("cable1@node0020", 0.2)], lambda c, _: 1 - 0.1 * (c.random() < share), seed)
        assert named(found) == {("cable", "node0020", "rail1")}


def test_large_groups_that_are_slow_by_nature_hide_no_cable() -> None:
    fabric = make_fabric(64, 16, 2)
    found = played(fabric, [Fault("cable1@node0020", 0.1)],
                   lambda c, t: 1 - 0.15 * (c.random() < 1 - 0.8 ** len(t.nodes)))  # fmt: skip
    assert named(found) == {("cable", "node0020", "rail1")}


def test_nodes_of_another_kind_are_told_once_and_a_fault_among_them_is_named() -> None:
    fabric = make_fabric(64, 16, 2)
    others = set(random.Random(3).sample(fabric.nodes, 20)) | {"node0009"}
    found = played(fabric, [Fault("nic1@node0009", 0.2)], lambda _, t: 0.75 if others & set(t.nodes) else 1.0)
    assert {v.place for v in found if v.kind != "level"} == {"node0009"}
    assert [round(v.loss, 2) for v in found if v.kind == "level"] == [0.25]
    assert set(nodes_to_exclude(fabric, found)) == {"node0009"}


def test_a_kind_needs_many_nodes_that_are_alike_after_three_starts() -> None:
    def kind(losses: Sequence[float], tries: int) -> frozenset[str]:
        found: dict[Key, Deviation] = {
            (INSIDE, (f"n{at}",), "nvlink"): Deviation(loss, 0.003) for at, loss in enumerate(losses)
        }
        another = another_kind(found, dict.fromkeys(found, tries))
        return another.nodes if another else frozenset()

    assert len(kind([0.2] * 6 + [0.0] * 14, 3)) == 6
    assert not kind([0.2] * 6 + [0.0] * 14, 2), "too early"
    assert not kind([0.2] * 3 + [0.0] * 10, 3), "too few"
    assert not kind([0.2] * 6 + [0.0] * 60, 3), "too small a share for one part"
    assert not kind([0.1, 0.16, 0.22, 0.28, 0.34, 0.4] + [0.0] * 14, 3), "faults differ"
    assert not kind([0.2] * 14 + [0.0] * 6, 3), "most are no other kind"


def test_a_leaf_that_is_slow_with_three_nodes_and_not_with_two_is_named() -> None:
    fabric = make_fabric(64, 16, 2)
    mine = set(fabric.pods()["pod01"])
    found = played(fabric, [], lambda _, t: 1 - 0.2 * (t.channel == "rail1" and len(mine & set(t.nodes)) > 2))
    assert named(found) == {("leaf", "pod01", "rail1")}
    assert found[0].reason == "only with 3 or more of its nodes at once"


def test_of_a_pod_with_two_good_cables_each_slow_one_is_named() -> None:
    fabric, chance = make_fabric(64, 16, 2), random.Random(4)
    bad = chance.sample(fabric.pods()["pod02"], 14)
    found = played(fabric, [Fault(f"cable0@{node}", chance.uniform(0.08, 0.4)) for node in bad])
    assert named(found) == {("cable", node, "rail0") for node in bad}


def test_pairs_of_good_pods_are_beside_those_of_a_slow_leaf() -> None:
    """As many pairs as a reference needs, all behind the leaf, would call it good."""
    fabric, options, known = make_fabric(136, 24, 4), Options(inside=inside_of(4)), Knowledge()
    world, leaf = World(fabric, (Fault("leaf1@pod05", 0.09),), seed=1), fabric.pods()["pod05"]
    first: dict[bool, int] = {}
    while trials := next_round(fabric, known, options):
        pairs = [t for t in trials if t.kind == "across" and len(t.nodes) == 2 and not t.control]
        for trial in pairs:
            first.setdefault(set(leaf).isdisjoint(trial.nodes), known.rounds)
        known.learn(run(world, trials, known.rounds))
    assert first[True] == first[False]
    assert named(judge(fabric, known, options)) == {("leaf", "pod05", "rail1")}


def test_two_quick_nodes_of_ten_accuse_nobody() -> None:
    quick = {"node0001", "node0006"}
    assert not played(make_fabric(10, 10, 2), [], lambda _, t: 1.1 if quick.issuperset(t.nodes) else 1.0)


def test_of_groups_between_pods_two_thirds_may_be_slow() -> None:
    def usual(kind: str) -> float:
        group = [Outcome(Trial(kind, (f"a{at}", f"b{at}"), "rail0", 8), (level,) * 8)
                 for at, level in enumerate([10.0, 10.0, 8.0, 8.0, 8.0, 8.0, 8.0])]  # fmt: skip
        return usual_of(beside((kind, "rail", 1), group), 0.0)

    assert usual(WITHIN) == 8.0
    assert usual("across") == 10.0


def test_foreign_load_in_spells_is_no_loss() -> None:
    trials = [Trial(WITHIN, (f"a{at}", f"b{at}"), "rail0", 16) for at in range(20)]
    known, chance = Knowledge(), random.Random(1)
    steady = [tuple(10 + chance.gauss(0, 0.05) for _ in range(16)) for _ in trials]
    steady[4] = tuple(sample * (0.8 if at % 16 < 10 else 1.0) for at, sample in enumerate(steady[4]))
    steady[5] = tuple(0.8 * sample for sample in steady[5])
    known.learn([Outcome(trial, samples) for trial, samples in zip(trials, steady, strict=True)])
    busy, slow = (known.found[WITHIN][trials[at].key] for at in (4, 5))
    assert busy.wide and busy.loss < 0.01
    assert not slow.wide and slow.loss == pytest.approx(0.2, abs=0.01)


def test_starts_that_disagree_are_unsure_and_told() -> None:
    trials = [Trial(WITHIN, (f"a{at}", f"b{at}"), "rail0", 16) for at in range(20)]
    known, chance = Knowledge(), random.Random(1)
    for number in range(2):
        known.learn([
            Outcome(t, tuple((0.8 if at == 3 and number else 1) * (10 + chance.gauss(0, 0.05)) for _ in range(16)))
            for at, t in enumerate(trials)
        ])  # fmt: skip
    one, usual = known.found[WITHIN][trials[3].key], known.found[WITHIN][trials[4].key]
    assert one.wide and one.error > 10 * usual.error
    assert list(known.torn) == [trials[3].key]
    assert known.torn[trials[3].key] == pytest.approx(0.2, abs=0.01)


def test_one_good_start_acquits_and_many_low_ones_accuse() -> None:
    law = Law(0.1, 0.4)
    low, high, other = Deviation(0.1, 0.003), Deviation(0.0, 0.003), Deviation(0.06, 0.003)
    acquitted = by_law([low, low, low, high], law, 0.015)
    assert acquitted.loss == 0.0 and acquitted.error == pytest.approx(0.0015)
    once, often = by_law([low], law, 0.015), by_law([low] * 20, law, 0.015)
    assert 0.1 - 2.6 * once.error < 0.015 < 0.1 - 2.6 * often.error
    assert often.loss == pytest.approx(0.1)
    between = by_law([other], law, 0.015)
    assert between.loss == pytest.approx(0.06) and between.loss > 4 * between.error


def test_a_law_has_two_levels_with_nothing_between() -> None:
    chance = random.Random(2)
    losses = [0.12 * (chance.random() < 0.4) + chance.gauss(0, 0.004) for _ in range(100)]
    law = law_of(losses)
    assert law and law.gap == pytest.approx(0.12, abs=0.005) and law.share == pytest.approx(0.4, abs=0.1)
    assert law_of([chance.uniform(0, 0.2) for _ in range(100)]) is None
    assert law_of([chance.gauss(0, 0.004) for _ in range(100)]) is None


@pytest.mark.parametrize("count", [*range(2, 20), 63, 64])
def test_neighbours_meet_and_nobody_twice_in_a_turn(count: int) -> None:
    met: dict[int, set[int]] = {node: set() for node in range(count)}
    for turn in range(3):
        pairs = near(count, turn)
        busy = [node for pair in pairs for node in pair]
        assert len(busy) == len(set(busy)) and set(busy) <= met.keys()
        for a, b in pairs:
            met[a].add(b)
            met[b].add(a)
            assert b - a <= 2 or (a, b) == (0, count - 1)
    assert min(len(others) for others in met.values()) >= min(2, count - 1)


def test_what_is_quicker_than_a_fault_lets_it_be_says_more_than_what_is_slower() -> None:
    slow, good = Deviation(0.3, 0.003), Deviation(0.0, 0.003)
    assert penalty(good, 0.3) > 2 * penalty(slow, 0.0), "one good result outweighs two slow ones"
    assert penalty(slow._replace(wide=True), 0.0) < 0.2 * penalty(slow, 0.0), "load that comes and goes tells little"
    assert penalty(slow, 0.3) < 5


def test_a_cable_that_was_slow_in_one_ring_and_its_half_is_no_busy_leaf() -> None:
    nodes = tuple(f"n{at}" for at in range(16))
    known = Knowledge()
    for group, loss in ((nodes, 0.2), (nodes[:8], 0.2), (nodes[:4], 0.0), (nodes[4:8], 0.0)):
        known.found[WITHIN][WITHIN, group, "rail0"] = Deviation(loss, 0.003)
    fabric = Fabric(nodes, dict.fromkeys(nodes, "leaf1"))
    assert not [v for v in judge(fabric, known, Options(inside=())) if v.kind == "leaf"]
