"""Scripts that operators use today, on the same simulated fabric: pairs of whole nodes, one number for each pair.

All rails of a pair work together, and the pair is as fast as its slowest part. A pair is bad when it is slower than the
median of all by more than half of the smallest loss. Each pair has 16 samples, as a first group of ours has.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from busbw.fleet.score import SAMPLE_S, START_S
from busbw.fleet.simulate import World, components
from busbw.fleet.trial import ACROSS, WITHIN, Trial

REPEATS = 16
Pair = tuple[str, str]


@dataclass(frozen=True)
class Found:
    """What a script says of one fleet."""

    bad: int  # nodes with a fault
    found: int
    accused: int
    rounds: int
    node_minutes: float


class Pairs:
    """Measures pairs of one simulated fleet."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._losses = {fault.where: fault.loss for fault in world.faults}
        self._random = random.Random(f"pairs {world.seed}")
        self.measured = 0

    def loss(self, pair: Pair) -> float:
        """How much slower than a good pair, with noise."""
        self.measured += 1
        worst = max(self._losses.get(f"nvlink@{node}", 0.0) for node in pair)
        if self._losses:
            across = self._world.fabric.pod_of[pair[0]] != self._world.fabric.pod_of[pair[1]]
            for rail in range(self._world.fabric.rails):
                trial = Trial(ACROSS if across else WITHIN, pair, f"rail{rail}", REPEATS)
                worst = max(worst, *(self._losses.get(c, 0.0) for c in components(self._world, trial)))
        return worst + self._random.gauss(0, 1.2533 * self._world.noise / math.sqrt(REPEATS))

    def answer(self, accused: set[str], rounds: int) -> Found:
        """The count."""
        bad = {f.where.partition("@")[2] for f in self._world.faults} & set(self._world.fabric.nodes)
        spent = 2 * self.measured * (START_S + SAMPLE_S * REPEATS) / 60
        return Found(len(bad), len(bad & accused), len(accused - bad), rounds, spent)


def all_pairs(world: World, smallest: float) -> Found:
    """Who is slow in most of 31 of the N - 1 rounds; all rounds are paid for."""
    pairs, nodes = Pairs(world), world.fabric.nodes
    rounds = len(nodes) - 1
    chosen = random.Random(f"rounds {world.seed}").sample(range(rounds), min(31, rounds))
    of: dict[str, list[float]] = {node: [] for node in nodes}
    for turn in chosen:
        for pair in _turn(nodes, turn):
            loss = pairs.loss(pair)
            for node in pair:
                of[node].append(loss)
    usual = statistics.median(loss for losses in of.values() for loss in losses)
    accused = {node for node, losses in of.items() if statistics.median(losses) - usual > smallest / 2}
    pairs.measured = rounds * len(nodes) // 2
    return pairs.answer(accused, rounds)


def two_pass(world: World, smallest: float) -> Found:
    """Neighbours in pairs; then each node of a bad pair with one of a good pair."""
    pairs, nodes = Pairs(world), world.fabric.nodes
    first = {pair: pairs.loss(pair) for pair in zip(nodes[::2], nodes[1::2], strict=True)}
    usual = statistics.median(first.values())
    suspects = [node for pair, loss in first.items() if loss - usual > smallest / 2 for node in pair]
    good = [pair[0] for pair, loss in first.items() if loss - usual <= smallest / 2]
    accused = {node for node, partner in zip(suspects, good, strict=False)
               if pairs.loss((partner, node)) - usual > smallest / 2}  # fmt: skip
    return pairs.answer(accused, 2)


def topology_aware(world: World, smallest: float) -> Found:
    """A round of pairs for each distance: same leaf twice, then another pod; bad is who is slow in all of his."""
    pairs, pods = Pairs(world), list(world.fabric.pods().values())
    near = [pair for nodes in pods for pair in zip(nodes[::2], nodes[1::2], strict=False)]
    other = [pair for nodes in pods for pair in zip(nodes[1::2], (*nodes[2::2], nodes[0]), strict=False)]
    far = [pair for a, b in zip(pods[::2], pods[1::2], strict=False) for pair in zip(a, b, strict=False)]
    slow: dict[str, int] = {}
    for round_ in (near, other, far):
        losses = {pair: pairs.loss(pair) for pair in round_}
        usual = statistics.median(losses.values())
        for pair, loss in losses.items():
            for node in pair:
                slow[node] = slow.get(node, 0) + (loss - usual > smallest / 2)
    return pairs.answer({node for node, count in slow.items() if count == 3}, 3)


def _turn(nodes: tuple[str, ...], turn: int) -> Iterator[Pair]:
    rest = nodes[1:]
    order = [nodes[0], *rest[turn:], *rest[:turn]]
    yield from zip(order[: len(order) // 2], reversed(order[len(order) // 2 :]), strict=False)


METHODS: dict[str, Callable[[World, float], Found]] = {
    "all pairs": all_pairs,
    "two passes": two_pass,
    "pairs by distance": topology_aware,
}
