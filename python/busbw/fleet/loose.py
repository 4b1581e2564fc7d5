"""Plans pairs of nodes whose pods are unknown, where so many are slow that links between places must be.

Each start of such a pair has other company, so that measuring it again says little: each suspect gets other partners,
one of another place each time, until it reaches somebody well.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from busbw.fleet.knowledge import Knowledge
from busbw.fleet.options import Options
from busbw.fleet.places import Places, places_of
from busbw.fleet.trial import WITHIN, Key, Trial

MOST_PARTNERS = 8
"""Of a suspect, in all."""
MOST_ALONE = 4
"""Suspects that are measured by themselves; of many these few tell whether a part is slow, or only full."""


class Asking(Protocol):
    """What the planner knows, and the list that it fills."""

    known: Knowledge
    options: Options
    wanted: list[Trial]
    quiet: set[str]

    def ask(self, kind: str, nodes: tuple[str, ...], channel: str) -> bool | None:
        """Slow or good where it is settled; else the trial is put on the list."""
        ...


def ask_by_places(state: Asking, nodes: Sequence[str], channel: str) -> bool:
    """Whether these nodes are measured so; what is wanted next is on the list."""
    places = places_of(state.known, channel, nodes, state.options)
    if not places.crowded:
        return False
    met = _with_other_places(places, nodes, channel)
    state.wanted += [Trial(*key, state.options.repeats) for key in met]
    if not met:
        _alone(state, places, nodes)
    return True


def _alone(state: Asking, places: Places, nodes: Sequence[str]) -> None:
    """The pairs that may condemn their nodes, one at a time: nothing but the node is slow then."""
    bad = [node for node in nodes if node in places.best and node not in places.good]
    keys = dict.fromkeys(places.best[node].key for node in bad)
    left = [key for key in keys if key not in places.quiet]
    if len(keys) - len(left) < MOST_ALONE:
        state.wanted += [Trial(*key, state.options.repeats) for key in left[:1]]
        state.quiet.update(key[2] for key in left[:1])


def _with_other_places(places: Places, nodes: Sequence[str], channel: str) -> list[Key]:
    """Each suspect with a good node of a place where it had no partner, the largest places first; else with another
    suspect that it has not met."""
    members: dict[str, list[str]] = {}
    for node in nodes:
        if node in places.good:
            members.setdefault(places.place_of[node], []).append(node)
    ordered = sorted(members, key=lambda place: -len(members[place]))
    tried = {node: places.tried(node) for node in nodes if node not in places.good}
    keys: list[Key] = []
    left: list[str] = []
    for node, mine in tried.items():
        if len(mine) >= MOST_PARTNERS:
            continue
        place = next((place for place in ordered if place not in mine and members[place]), None)
        if place is None:
            left.append(node)
        else:
            keys.append((WITHIN, (members[place].pop(), node), channel))
    # Names that go round over the pods, or follow each other in them, are mixed.
    random.Random(len(places.pairs)).shuffle(left)
    while len(left) > 1:
        node = left.pop()
        if (other := next((each for each in left if each not in tried[node]), None)) is not None:
            left.remove(other)
            keys.append((WITHIN, (node, other), channel))
    return keys
