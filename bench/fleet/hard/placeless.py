"""Fabrics of which no topology is given, or only a part: where a node is must be seen from what is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from hard.faults import draw, some
from hard.net import Case, Net, clos, fabric, truth

from busbw.fleet.fabric import Fabric


class _Asked(NamedTuple):
    """So many flows are carried above each leaf; names are shuffled, or go round over the pods."""

    sizes: Sequence[int]
    carried: float
    rails: int = 2
    shuffled: bool = True
    faults: int = 2
    known: Sequence[str] = ()


def _placeless(seed: int, asked: _Asked) -> Case:
    of, chance = fabric(asked.sizes, asked.rails, known=False), draw(seed)
    names = list(of.nodes)
    if asked.shuffled:
        chance.shuffle(names)
    pods, at = dict[str, str](), 0
    for pod, size in enumerate(asked.sizes):
        mine = names[at : at + size] if asked.shuffled else names[pod :: len(asked.sizes)]
        pods |= dict.fromkeys(mine, f"p{pod}")
        at += size
    of = Fabric(of.nodes, {node: pod for node, pod in pods.items() if pod in asked.known}, asked.rails)
    slow, truths = some(of, chance, asked.faults, 0.08, 0.3)
    net = Net(of, clos(of, seed=seed, pods=pods), seed, slow=slow)
    net.capacity = lambda link: asked.carried if link[0] == "up" else 1e9
    members = {pod: frozenset(node for node in pods if pods[node] == pod) for pod in set(pods.values())}
    return Case(net, truths, members=members)


def many(seed: int) -> Case:
    """128 nodes and four rails: rings first, which all pass what is full."""
    return _placeless(seed, _Asked([16] * 8, (4.0, 8.0)[seed % 2], 4))


def small_pods(seed: int) -> Case:
    """Pods of eight, and two flows above each."""
    return _placeless(seed, _Asked([8] * 6, (2.0, 4.0)[seed % 2]))


def half_known(seed: int) -> Case:
    """The topology names half of the pods."""
    return _placeless(seed, _Asked([16] * 4, 4.0, known=("p0", "p1")))


def two_rooms(seed: int) -> Case:
    """Two rooms with a few links between."""
    return _placeless(seed, _Asked([32, 24], (2.0, 6.0)[seed % 2]))


def in_turn(seed: int) -> Case:
    """Names go round over the pods: neighbours are never near."""
    return _placeless(seed, _Asked([12] * 5, (3.0, 6.0)[seed % 2], shuffled=False))


def free(seed: int) -> Case:
    """Names say nothing, and every link is wide enough."""
    return _placeless(seed, _Asked([16] * 4, 1e9, faults=3))


def slow_part(seed: int, link: str) -> Case:
    """A leaf or an uplink is slow; all that can be said is which nodes are behind."""
    case = _placeless(seed, _Asked([12] * 5, 1e9, faults=1))
    pod, loss = draw(seed + 5).choice(sorted(case.members)), draw(seed + 6).uniform(0.1, 0.4)
    net = replace(case.net, slow=case.net.slow | {(link, "1", pod): loss})
    hidden = [true for true in case.truths if true.places & case.members[pod] and "rail1" in true.channels]
    truths = [true for true in case.truths if true not in hidden]
    return replace(case, net=net, truths=[*truths, truth("shared leaf uplink spine", pod, "rail1")])


def cases() -> Iterator[tuple[str, Callable[[int], Case]]]:
    """By name."""
    for each in (many, small_pods, half_known, two_rooms, in_turn, free):
        yield f"placeless_{each.__name__}", each
    for link in ("leaf", "up"):
        yield f"placeless_slow_{link}", lambda seed, link=link: slow_part(seed, link)  # type: ignore[misc]
