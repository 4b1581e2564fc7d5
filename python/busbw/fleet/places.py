"""Nodes whose pod is unknown: a slow pair of them may pass a link that others share, and neither is to blame.

Who reached each other well is near each other: a place. A node is slow when it is slow with partners of several places.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from busbw.fleet.knowledge import Knowledge
from busbw.fleet.options import Options
from busbw.fleet.trial import WITHIN, Deviation, Key

CROWD = 0.2
"""Of the pairs of unknown places, so many that are far slower than the quickest: more than faults of nodes are."""
FEWEST_CROWD = 4
FAR = 0.85
"""Of the level of the quickest pairs: what is slower is far below it."""
TOP = 3
NEAR = 0.03
"""So many pairs without a common node, so near each other, show the level that the network can have."""
DRIFTS = 0.8
"""Of the best level: a round whose quickest pairs are below that has none at the level."""
UNSURE = 0.01
"""Standard error of a level of another round."""
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
    crowded: bool
    """Whether so many pairs are far slower that links between places must be slow, or full."""
    quiet: frozenset[Key] = frozenset()
    """Pairs that were measured beside no other one."""

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

    def slow(self, one: Deviation) -> bool:
        """By what is known now, settled or not."""
        return bool(one.reason) or one.loss > self.threshold

    def tried(self, node: str) -> frozenset[str]:
        """The places of its partners, and partners of no place."""
        mine = {other for pair in self.pairs if node in pair.key[1] for other in pair.key[1]} - {node}
        return frozenset(self.place_of.get(other, other) for other in mine)


def places_of(known: Knowledge, channel: str, nodes: Iterable[str], options: Options) -> Places:
    """Of these nodes, whose pods are unknown.

    Where links are full most pairs of a round may be slow, and are no peers. Then each is compared with the quickest of
    its round, or of all rounds, and its best start counts: company makes it slower, and nothing makes it quicker.
    """
    loose, threshold = frozenset(nodes), options.on(channel).threshold
    measured: dict[int, dict[Key, tuple[float, float]]] = {}
    for number, outcome, level, error in known.raw(WITHIN, 2) if loose else ():
        trial = outcome.trial
        if trial.channel == channel and len(trial.nodes) == 2 and loose.issuperset(trial.nodes):
            measured.setdefault(number, {})[trial.key] = level, error
    tops = {number: _top(of) for number, of in measured.items()}
    best = max(tops.values(), default=0.0)
    levels: dict[Key, float] = {}
    for of in measured.values():
        for key, (level, _) in of.items():
            levels[key] = max(level, levels.get(key, 0.0))
    far = sum(0 < level < FAR * best for level in levels.values())
    if far < max(FEWEST_CROWD, CROWD * len(levels)):
        return Places([Pair(key, known.found[WITHIN][key]) for key in levels if key in known.found[WITHIN]],
                      threshold, crowded=False)  # fmt: skip
    found: dict[Key, Deviation] = {}
    for number, of in measured.items():
        own = tops[number] > DRIFTS * best
        for key, (level, error) in of.items():
            one = Deviation(1 - level / (tops[number] if own else best), math.hypot(error, 0.0 if own else UNSURE))
            if level <= 0:
                one = Deviation(1.0, 0.0, known.found[WITHIN][key].reason or "nothing was measured")
            if key not in found or one.loss < found[key].loss:
                found[key] = one
    quiet = frozenset(key for of in measured.values() if len(of) == 1 for key in of)
    return Places([Pair(key, one) for key, one in found.items()], threshold, crowded=True, quiet=quiet)


def _top(of: Mapping[Key, tuple[float, float]]) -> float:
    """The highest level at which several pairs without a common node are."""
    ordered = sorted(((level, key) for key, (level, _) in of.items()), reverse=True)
    for at, (level, _) in enumerate(ordered):
        used: set[str] = set()
        near = []
        for other, key in ordered[at:]:
            if other < (1 - NEAR) * level:
                break
            if used.isdisjoint(key[1]):
                used.update(key[1])
                near.append(other)
        if len(near) >= TOP:
            return statistics.median(near)
    return 0.0


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
