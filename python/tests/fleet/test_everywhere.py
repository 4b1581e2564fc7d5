"""What a channel loses on all nodes is told once; no node is accused of it, and other faults are seen beside it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from busbw.fleet.fabric import Fabric
from busbw.fleet.judge import judge
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.options import Options, inside_of
from busbw.fleet.plan import next_round
from busbw.fleet.show import nodes_to_exclude
from busbw.fleet.simulate import Fault, World, make_fabric, run

TOLD, UNTOLD = make_fabric(64, 16, 4), Fabric(tuple(f"n{number}" for number in range(12)), rails=2)
SMALL, ONE_POD = Fabric(("a", "b", "c", "d"), rails=2), make_fabric(16, 16, 4)


def on_all(fabric: Fabric, kind: str, loss: float) -> list[Fault]:
    places = fabric.pods() if kind.startswith("leaf") else fabric.nodes
    return [Fault(f"{kind}@{place}", loss) for place in places]


def played(fabric: Fabric, faults: Sequence[Fault], seed: int) -> list[tuple[str, float]]:
    world, known, options = (
        World(fabric, tuple(faults), seed=seed),
        Knowledge(),
        Options(inside=inside_of(fabric.rails)),
    )
    while trials := next_round(fabric, known, options):
        known.learn(run(world, trials, known.rounds))
    found = judge(fabric, known, options)
    assert nodes_to_exclude(fabric, found).keys() <= {f.where.partition("@")[2] for f in faults if f.loss > 0.15}
    return [(v.name, v.loss) for v in found]


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    ("fabric", "kind", "more", "named"),
    [
        (TOLD, "pcie2", [], ["pcie2 level of all nodes"]),
        (TOLD, "nic0", [Fault("cable0@node0007", 0.2)], ["rail0 cable of node0007", "nic0 level of all nodes"]),
        (TOLD, "leaf1", [], ["rail1 level of all nodes"]),
        (TOLD, "leaf1", [Fault("cable1@node0042", 0.3)], ["rail1 cable of node0042", "rail1 level of all nodes"]),
        (UNTOLD, "cable1", [Fault("cable0@n3", 0.2)], ["rail0 cable of n3", "rail1 level of all nodes"]),
        (UNTOLD, "pcie1", [Fault("nic1@n3", 0.2)], ["nic1 of n3", "pcie1 level of all nodes"]),
        (SMALL, "cable1", [], ["rail1 level of all nodes"]),
        (ONE_POD, "leaf2", [], ["rail2 leaf of pod00"]),
    ],
)
def test_it_is_one_verdict_and_other_faults_are_seen_beside_it(
    fabric: Fabric, kind: str, more: list[Fault], named: list[str], seed: int
) -> None:
    found = played(fabric, [*on_all(fabric, kind, 0.08), *more], seed)
    assert [name for name, _ in found] == named
    assert found[-1][1] == pytest.approx(0.08, abs=0.012)


def test_half_of_the_rails_on_another_socket_are_told_and_no_node() -> None:
    faults = [fault for kind in ("pcie2", "pcie3") for fault in on_all(TOLD, kind, 0.05)]
    assert {name for name, _ in played(TOLD, faults, 1)} == {f"pcie{rail} level of all nodes" for rail in (2, 3)}


@pytest.mark.parametrize("loss", [0.2, 0.3, 0.4])
def test_faults_of_one_rail_in_every_pod_are_the_faults_of_their_nodes(loss: float) -> None:
    faults = [Fault(f"cable1@node{16 * pod + 3:04}", loss - 0.04 * pod) for pod in range(4) if loss - 0.04 * pod > 0.16]
    assert {name for name, _ in played(TOLD, faults, 1)} == {f"rail1 cable of {f.where[7:]}" for f in faults}
