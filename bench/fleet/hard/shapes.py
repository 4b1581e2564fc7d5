"""Fabrics of other shapes than leaf and spine, or with too few links."""

from __future__ import annotations

from collections.abc import Sequence

from hard.faults import draw, plain, some, switch_fault
from hard.net import Case, Link, Net, clos, fabric


def torus(seed: int) -> Case:
    """Nodes in a torus of 4 x 4 x 6 without leaves: far ones share links."""
    shape = (4, 4, 6)
    of, chance = fabric([96], 1, known=False), draw(seed)
    at = {node: (n % 4, n // 4 % 4, n // 16) for n, node in enumerate(of.nodes)}

    def paths(a: str, b: str, _: int) -> Sequence[Link]:
        here, there, found = list(at[a]), at[b], []
        for axis, size in enumerate(shape):
            while here[axis] != there[axis]:
                step = 1 if (there[axis] - here[axis]) % size <= size // 2 else -1
                before = tuple(here)
                here[axis] = (here[axis] + step) % size
                found.append(("hop", str(before), str(tuple(here))))
        return found

    slow, truths = some(of, chance, 2, 0.1, 0.3)
    return Case(Net(of, paths, seed, slow=slow, capacity=lambda link: 2.0 if link[0] == "hop" else 1e9), truths)


def dragonfly(seed: int) -> Case:
    """Groups of four routers, each with four nodes; one global link between two groups, of four flows."""
    of, chance = fabric([16] * 8, 2), draw(seed)

    def paths(a: str, b: str, rail: int) -> Sequence[Link]:
        p, q = sorted((of.pod_of[a], of.pod_of[b]))
        return (("leaf", str(rail), p),) if p == q else (("leaf", str(rail), p), ("global", str(rail), p, q))

    slow, truths = some(of, chance, 3)
    return Case(Net(of, paths, seed, slow=slow, capacity=lambda link: 4.0 if link[0] == "global" else 1e9), truths)


def rail_only(seed: int) -> Case:
    """No spines: rails of a pod meet no other pod, and groups over pods fail."""
    net, truths = plain([16] * 4, 4, seed, 3)
    pods = net.fabric.pod_of
    net.fails = lambda _c, trial, _n: "no route to host" if len({pods[n] for n in trial.nodes}) > 1 else ""
    return Case(net, truths)


def three_levels(seed: int) -> Case:
    """Three levels, and half as many links above each leaf as below it."""
    of, chance = fabric([16] * 8, 2, below=2), draw(seed)
    slow, truths = some(of, chance, 2)
    link, loss, true = switch_fault(of, chance, "leaf")
    capacity = {"up": 8.0, "spine": 16.0}
    net = Net(of, clos(of, seed=seed), seed, slow=slow | {link: loss}, capacity=lambda link: capacity.get(link[0], 1e9))
    return Case(net, [*truths, true])


def tight(seed: int) -> Case:
    """Four flows are all that a leaf's uplinks carry: any round of many pairs is slow."""
    net, truths = plain([16] * 8, 2, seed, 3)
    net.capacity = lambda link: 4.0 if link[0] == "up" else 1e9
    return Case(net, truths)
