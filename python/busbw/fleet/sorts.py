"""Nodes of another kind: so many are slower by the same, in more than one part, that they are no faults.

They are compared with each other, measured apart, and told once. `Another.losses` is what they lose beside the others.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from busbw.fleet.trial import Deviation, Key

FEWEST = 4
SHARE, SHARE_ALONE = 0.08, 0.2
"""Of all nodes, where they are slow in several parts, and where only one part shows it."""
LEAST = 0.03
NEAR = 0.012
"""Nodes of a kind lie so near each other, as a share; faults differ."""
TRIES = 3


class Another(NamedTuple):
    """Nodes of another kind, and by channel without its number what they lose."""

    nodes: frozenset[str]
    losses: Mapping[str, Deviation]


def another_kind(found: Mapping[Key, Deviation], tries: Mapping[Key, int]) -> Another | None:
    """The nodes that are another kind by what was measured inside; None where there are none, or it is too early."""
    parts: dict[str, dict[str, list[Deviation]]] = {}
    early: set[str] = set()
    for key, one in found.items():
        if one.reason:
            continue
        parts.setdefault(key[2].rstrip("0123456789"), {}).setdefault(key[1][0], []).append(one)
        if one.loss > LEAST and tries[key] < TRIES:
            early.add(key[1][0])
    clusters: dict[str, frozenset[str]] = {}
    centres: dict[str, Deviation] = {}
    for part, nodes in parts.items():
        losses = {node: statistics.median(one.loss for one in ones) for node, ones in nodes.items()}
        cluster = _densest([(loss, node) for node, loss in losses.items() if loss > LEAST])
        if len(cluster) >= FEWEST:
            clusters[part] = frozenset(cluster)
            errors = [one.error for node in cluster for one in nodes[node]]
            middle = statistics.median(losses[node] for node in cluster)
            centres[part] = Deviation(middle, statistics.median(errors) / math.sqrt(len(cluster)))
    count = max((len(nodes) for nodes in parts.values()), default=0)
    for part in sorted(clusters, key=lambda part: -len(clusters[part])):
        mine = clusters[part]
        alike = [p for p in clusters if 2 * len(clusters[p] & mine) > len(clusters[p] | mine)]
        if len(mine) >= (SHARE if len(alike) > 1 else SHARE_ALONE) * count:
            # A node with a fault of its own in one part is of this kind by the others.
            every = frozenset().union(*(clusters[p] for p in alike))
            if 2 * len(every & early) > len(every) or 2 * len(every) > count:
                return None
            return Another(every, {p: centres[p] for p in alike})
    return None


def _densest(losses: Sequence[tuple[float, str]]) -> list[str]:
    """The nodes of the fullest window."""
    ordered = sorted(losses)
    best: list[str] = []
    first = 0
    for at, (loss, _) in enumerate(ordered):
        while loss - ordered[first][0] > 2 * NEAR:
            first += 1
        if at + 1 - first > len(best):
            best = [node for _, node in ordered[first : at + 1]]
    return best
