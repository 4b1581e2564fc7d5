"""What is said of nodes whose pods are unknown, where a part that they share may be slow instead of them."""

from __future__ import annotations

import functools
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from busbw.fleet.fabric import Fabric
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.options import Options
from busbw.fleet.places import FEWEST_ALIKE, Places, alike, places_of
from busbw.fleet.trial import WITHIN, Deviation, Key
from busbw.fleet.words import compressed

FEWEST_PLACES = 3
"""A node is accused where links are full only after it was slow with partners of so many places."""
MOSTLY = 0.75
"""Of the accused nodes: so many that lose the same are behind one part, also where links are full."""
FEWEST_ALONE = 2
"""Of them, that were measured beside nobody: what is only full is quick then."""
FEWEST_CROSSED = 2
MOST_BEHIND = 0.5
"""Of all nodes: what is slow for more of them is no single part."""


@dataclass(frozen=True)
class Loose:
    """What one channel says of nodes without a pod."""

    places: Places

    def counts(self, key: Key, one: Deviation) -> bool:
        """Whether a result says something of its nodes: a slow one of nodes that reach others well does not."""
        places = self.places
        one = self.own(key, one)
        if key[0] != WITHIN or not places.crowded or not places.slow(one) or not places.best.keys() & set(key[1]):
            return True
        return any(node not in places.good and node in places.best and places.best[node].key == key for node in key[1])

    def own(self, key: Key, one: Deviation) -> Deviation:
        """What a pair says: where links are full, beside the quickest."""
        return self._found.get(key, one) if self.places.crowded else one

    @functools.cached_property
    def _found(self) -> dict[Key, Deviation]:
        return {pair.key: pair.one for pair in self.places.pairs}

    def doubt(self, node: str) -> bool:
        """Whether too little is known of a node to accuse it."""
        places = self.places
        if not places.crowded or node not in places.best:
            return False
        return len(places.tried(node)) < FEWEST_PLACES or places.best[node].key not in places.quiet


def loose_of(fabric: Fabric, known: Knowledge, channel: str, options: Options) -> Loose:
    """Of one rail."""
    nodes = [node for node in fabric.nodes if not fabric.pod_of.get(node)]
    return Loose(places_of(known, channel, nodes, options))


class Behind(NamedTuple):
    """Nodes that are slow together."""

    nodes: tuple[str, ...]
    loss: float
    error: float


def behind_one(loose: Loose, accused: dict[str, Deviation]) -> tuple[list[Behind], set[str]]:
    """Nodes behind a part that is slow, and all of the accused for which no node is to blame."""
    doubted = {node for node in accused if loose.doubt(node)}
    together, crowded = alike({node: one.loss for node, one in accused.items()}), loose.places.crowded
    if crowded and len(accused) >= FEWEST_ALIKE:
        doubted |= accused.keys()  # company makes each slow, by amounts of its own
    found = []
    alone = [node for node in together if loose.places.best[node].key in loose.places.quiet]
    if together and (not crowded or (len(alone) >= FEWEST_ALONE and len(together) >= MOSTLY * len(accused))):
        found.append(_behind(together, [accused[node] for node in together]))
    elif cut_off := _cut_off(loose.places):
        ones = [pair.one for pair in loose.places.shared if not cut_off.isdisjoint(pair.key[1])]
        found.append(_behind(sorted(cut_off), ones))
    return found, doubted.union(*(each.nodes for each in found))


def _behind(nodes: Sequence[str], ones: Sequence[Deviation]) -> Behind:
    loss = statistics.median(one.loss for one in ones)
    return Behind(tuple(nodes), loss, max(0.001, statistics.median(one.error for one in ones)))


def _cut_off(places: Places) -> frozenset[str]:
    """Nodes that are slow with everybody but a few near ones, where the others reach each other well."""
    if not places.crowded:
        return frozenset()
    slow, well = Counter[str](), Counter[str]()
    for pair in places.pairs:
        (slow if places.slow(pair.one) else well).update(pair.key[1])
    away = frozenset(node for node in slow.keys() & places.good
                     if slow[node] >= FEWEST_CROSSED and slow[node] > well[node])  # fmt: skip
    if all(away.isdisjoint(pair.key[1]) for pair in places.shared):
        return frozenset()
    # Pairs that are slow without one of them are no fault of what is above them.
    others = sum(away.isdisjoint(pair.key[1]) for pair in places.shared)
    few = FEWEST_ALIKE <= len(away) <= MOST_BEHIND * len(places.best)
    return away if few and 10 * others <= len(places.shared) else frozenset()


def full_links(fabric: Fabric, known: Knowledge, options: Options) -> dict[str, str]:
    """A sentence for each rail on which links between nodes of unknown places are full."""
    found: dict[str, str] = {}
    for channel in (f"rail{rail}" for rail in range(fabric.rails)):
        places = loose_of(fabric, known, channel, options).places
        if places.crowded and not _cut_off(places):
            slow = [pair for pair in places.pairs if places.slow(pair.one)]
            worst = 100 * max((pair.one.loss for pair in slow), default=0.0)
            far = [node for node in places.best if node not in places.good]
            said = f"; nothing is known of {compressed(far)[:120]}" if far else ""
            found[channel] = (f"on {channel} {len(slow)} of {len(places.pairs)} pairs were slower than others of the "
                              f"same nodes, by up to {worst:.0f} %: links that they share are full or slow, and a "
                              f"smaller fault may hide behind them{said}; give --topology")  # fmt: skip
    return found
