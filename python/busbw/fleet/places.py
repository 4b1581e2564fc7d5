"""Nodes whose pod is unknown: a slow pair of them may pass a link that others share, and neither is to blame.

Who reached each other well is near each other: a place. A node is slow when it is slow with partners of several places.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from busbw.fleet.options import Options
from busbw.fleet.trial import WITHIN, Deviation, Key

CROWD = 0.2
"""Of the pairs of unknown places, so many slow ones are more than faults of nodes usually are."""
FEWEST_CROWD = 4
FEWEST_SHARED = 3
"""Slow pairs without a common node, of nodes that are all good with others: they share something."""
FEWEST_ALIKE = 4
ALIKE = 0.012
"""Nodes behind one part lose the same."""


class Pair(NamedTuple):
    """What was measured between two nodes of unknown places."""

    key: Key
    one: Deviation


@dataclass(frozen=True)
class Places:
    """What the pairs of one channel say of where their nodes are."""

    pairs: Sequence[Pair]
    threshold: float

    @functools.cached_property
    def best(self) -> Mapping[str, Pair]:
        """Of each node the pair that lost least."""
        found: dict[str, Pair] = {}
        for pair in self.pairs:
            for node in pair.key[1]:
                if node not in found or pair.one.loss < found[node].one.loss:
                    found[node] = pair
        return found

    @functools.cached_property
    def good(self) -> frozenset[str]:
        """Nodes that reached somebody well."""
        return frozenset(node for node, pair in self.best.items() if not self.slow(pair.one))

    @functools.cached_property
    def place_of(self) -> Mapping[str, str]:
        """Of each good node the first one of its place."""
        parent = {node: node for node in self.best}

        def root(node: str) -> str:
            while parent[node] != node:
                parent[node] = parent[parent[node]]
                node = parent[node]
            return node

        for pair in self.pairs:
            if not self.slow(pair.one):
                a, b = sorted(map(root, pair.key[1]))
                parent[b] = a
        return {node: root(node) for node in self.good}

    @functools.cached_property
    def shared(self) -> list[Pair]:
        """Slow pairs of nodes that are both good with others: what they share is slow."""
        return [pair for pair in self.pairs if self.slow(pair.one) and self.good.issuperset(pair.key[1])]

    @functools.cached_property
    def crowded(self) -> bool:
        """Whether several pairs show that links between places are slow, or full."""
        used: set[str] = set()
        count = 0
        for pair in self.shared:
            if used.isdisjoint(pair.key[1]) and pair.one.loss > 2 * self.threshold:
                used.update(pair.key[1])
                count += 1
        return count >= FEWEST_SHARED

    def slow(self, one: Deviation) -> bool:
        """By what is known now, settled or not."""
        return bool(one.reason) or one.loss > self.threshold

    def tried(self, node: str) -> frozenset[str]:
        """The places of its partners, and partners of no place."""
        mine = {other for pair in self.pairs if node in pair.key[1] for other in pair.key[1]} - {node}
        return frozenset(self.place_of.get(other, other) for other in mine)


def places_of(found: Mapping[Key, Deviation], channel: str, nodes: Iterable[str], options: Options) -> Places:
    """Of these nodes, whose pods are unknown."""
    loose = frozenset(nodes)
    pairs = [Pair(key, one) for key, one in found.items()
             if key[0] == WITHIN and key[2] == channel and len(key[1]) == 2 and loose.issuperset(key[1])]  # fmt: skip
    return Places(pairs, options.on(channel).threshold)


def alike(losses: Mapping[str, float]) -> list[str]:
    """The largest group of nodes that lose the same, as those behind one part do; none where they are few."""
    ordered = sorted((loss, node) for node, loss in losses.items() if loss < 1)
    best: list[str] = []
    first = 0
    for at, (loss, _) in enumerate(ordered):
        while loss - ordered[first][0] > 2 * max(ALIKE, 0.05 * loss):
            first += 1
        if at + 1 - first > len(best):
            best = [node for _, node in ordered[first : at + 1]]
    return sorted(best) if len(best) >= FEWEST_ALIKE else []
