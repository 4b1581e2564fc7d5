"""What decides close calls of the judge: shapes of groups, rings that surely meet a slow spine, runners-up."""

from __future__ import annotations

import pytest

from busbw.fleet.fabric import Fabric
from busbw.fleet.judge import _of_rail, _tests, judge
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.likelihood import penalty
from busbw.fleet.options import Options
from busbw.fleet.plan import next_round
from busbw.fleet.simulate import Fault, World, make_fabric, run
from busbw.fleet.tables import of_table
from busbw.fleet.together import loose_of
from busbw.fleet.trial import ACROSS, WITHIN, Deviation


def test_groups_of_other_shapes_lose_a_little_more_or_less_of_the_same_fault() -> None:
    assert penalty(Deviation(0.41, 0.002), 0.4) < 3
    assert penalty(Deviation(0.01, 0.002), 0.0) > 10, "where nothing is slow there is no such excuse"


@pytest.mark.parametrize(("nodes", "certain"), [(8, False), (9, True)])
def test_a_ring_of_many_nodes_surely_meets_a_slow_spine(nodes: int, certain: bool) -> None:
    names = tuple(f"n{at}" for at in range(nodes))
    known = Knowledge()
    known.found[ACROSS][ACROSS, names, "rail0"] = Deviation(0.1, 0.002)
    fabric = Fabric(names, {name: f"leaf{at}" for at, name in enumerate(names)}, 1)
    assert [test.certain for test in _tests(fabric, known, "rail0", loose_of(fabric, known, "rail0", Options()))] == [
        certain
    ]


def test_a_second_spine_is_no_runner_up_of_a_first() -> None:
    for seed in range(4):
        fabric, options, known = make_fabric(64, 8, 4), Options(), Knowledge()
        world = World(fabric, (Fault("spine1.3", 0.3),), seed=seed)
        while trials := next_round(fabric, known, options):
            known.learn(run(world, trials, known.rounds))
        spines = [verdict for verdict in judge(fabric, known, options) if verdict.kind == "spine"]
        assert spines
        assert not [verdict for verdict in spines if "second" in verdict.runner_up]


def test_what_was_never_measured_apart_has_no_runner_up_beside() -> None:
    fabric, options, known = make_fabric(2, 8, 1), Options(inside=()), Knowledge()
    while trials := next_round(fabric, known, options):
        outcomes = run(World(fabric, (Fault("cable0@node0001", 1.0),)), trials, known.rounds)
        known.learn(outcomes)
    verdicts = judge(fabric, known, options)
    assert [(verdict.kind, verdict.runner_up) for verdict in verdicts] == [("either", "")]


def test_where_another_fault_explains_nearly_as_much_it_is_the_runner_up() -> None:
    fabric, known = Fabric(("n1", "n2", "n3", "n4"), {}, 1), Knowledge()
    found = known.found[WITHIN]
    found[WITHIN, ("n1", "n2"), "rail0"] = found[WITHIN, ("n1", "n2", "n4"), "rail0"] = Deviation(0.2, 0.01)
    found[WITHIN, ("n1", "n3"), "rail0"] = Deviation(0.12, 0.05)  # three to one that n1 is slow
    found[WITHIN, ("n3", "n4"), "rail0"] = Deviation(0.0, 0.01)
    verdicts = list(
        _of_rail(list(_tests(fabric, known, "rail0", loose_of(fabric, known, "rail0", Options()))), "rail0", Options())
    )
    assert [(verdict.place, verdict.runner_up) for verdict in verdicts] == [("n1", "link n2")]


@pytest.mark.parametrize(("columns", "read"), [(64, True), (65, False)])
def test_a_table_is_read_up_to_its_sixty_fourth_column(columns: int, read: bool) -> None:
    head = ["node", *(f"x{at}" for at in range(columns - 2)), "leaf"]
    rows = ["n1", *["0"] * (columns - 2), "l1"]
    found = of_table(",".join(head) + "\n" + ",".join(rows) + "\n", lambda labels: [None] * len(labels))
    assert (found is not None) is read


@pytest.mark.parametrize(("groups", "named"), [(1, False), (3, True)])
def test_a_leaf_that_is_slow_with_most_of_its_nodes_needs_several_groups(groups: int, named: bool) -> None:
    names, known = tuple(f"n{at:02d}" for at in range(16)), Knowledge()
    for ring in (names, names[2:], names[:-2])[:groups]:
        known.found[WITHIN][WITHIN, ring, "rail0"] = Deviation(0.2, 0.002)
    for half in (names[:8], names[8:], *((names[at], names[at + 1]) for at in range(15))):
        known.found[WITHIN][WITHIN, half, "rail0"] = Deviation(0.0, 0.002)
    known.tries.update(dict.fromkeys(known.found[WITHIN], 3))
    found = judge(Fabric(names, dict.fromkeys(names, "leaf1"), 1), known, Options())
    assert [(v.kind, v.place) for v in found] == ([("leaf", "leaf1")] if named else [])
