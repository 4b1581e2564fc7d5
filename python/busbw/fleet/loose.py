"""Plans pairs of nodes whose pods are unknown, where so many are slow that links between places must be.

Each start of such a pair has other company, so that measuring it again says little: each suspect gets other partners,
one of another place each time, until it reaches somebody well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from busbw.fleet.knowledge import Knowledge
from busbw.fleet.options import Options
from busbw.fleet.pairs import TURNS, near
from busbw.fleet.places import CROWD, FEWEST_CROWD, Places, places_of
from busbw.fleet.trial import WITHIN, Key, Trial

MOST_PARTNERS = 9
"""Of a suspect, in all."""


class Asking(Protocol):
    """What the planner knows, and the list that it fills."""

    known: Knowledge
    options: Options
    wanted: list[Trial]

    def ask(self, kind: str, nodes: tuple[str, ...], channel: str) -> bool | None:
        """Slow or good where it is settled; else the trial is put on the list."""
        ...


def ask_by_places(state: Asking, nodes: Sequence[str], channel: str) -> bool:
    """Whether these nodes are measured so; what is wanted next is on the list."""
    found = state.known.found[WITHIN]
    first = [_key(nodes, pair, channel) for pair in near(len(nodes), 0)]
    if not all(key in found for key in first):
        return False
    places = places_of(found, channel, nodes, state.options)
    if sum(places.slow(found[key]) for key in first) < max(FEWEST_CROWD, CROWD * len(first)):
        return False
    for turn in range(1, TURNS):
        keys = [_key(nodes, pair, channel) for pair in near(len(nodes), turn)]
        if missing := [key for key in keys if key not in found]:
            state.wanted += [Trial(*key, state.options.repeats) for key in missing]
            return True
    met = _with_other_places(places, nodes, channel)
    state.wanted += [Trial(*key, state.options.repeats) for key in met]
    if not met:
        for node in nodes:
            if node in places.best and node not in places.good:
                state.ask(*places.best[node].key)
    return True


def _key(nodes: Sequence[str], pair: tuple[int, int], channel: str) -> Key:
    return WITHIN, (nodes[pair[0]], nodes[pair[1]]), channel


def _with_other_places(places: Places, nodes: Sequence[str], channel: str) -> list[Key]:
    """Each suspect with a good node of a place where it had no partner, the largest places first."""
    members: dict[str, list[str]] = {}
    for node in nodes:
        if node in places.good:
            members.setdefault(places.place_of[node], []).append(node)
    ordered = sorted(members, key=lambda place: -len(members[place]))
    keys: list[Key] = []
    for node in nodes:
        if node in places.good or node not in places.best:
            continue
        tried = places.tried(node)
        place = next((place for place in ordered if place not in tried and members[place]), None)
        if place is not None and len(tried) < MOST_PARTNERS:
            keys.append((WITHIN, (members[place].pop(), node), channel))
    return keys
