"""What may be slow on a rail, and which of it a group of nodes uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from busbw.fleet.fabric import Fabric
from busbw.fleet.trial import ACROSS


class Candidate(NamedTuple):
    kind: str
    place: str


MOST = "leaf of most"
BUSY = {"leaf of 3 or more": "3 or more", "leaf of 5 or more": "5 or more", MOST: "most"}
"""A leaf that is slow only while so many of its nodes are in one group."""
SHARE = 0.75
"""Of the nodes of a leaf: most of them."""

SPINES = (Candidate("spine", ""), Candidate("spine", "second"))
"""Of the spines of a rail up to two may be slow, each in its own way; which of them they are is not seen."""


_LEAST = (("leaf of 3 or more", 3), ("leaf of 5 or more", 5))


def users(fabric: Fabric, kind: str, nodes: Sequence[str], sizes: Mapping[str, int]) -> Iterator[Candidate]:
    """Components that a group uses; `sizes` are the nodes of each pod."""
    pods = {fabric.pod_of.get(node, "") for node in nodes} - {""}
    yield from (Candidate("link", node) for node in nodes)
    yield from (Candidate("leaf", pod) for pod in pods)
    below = Counter(fabric.pod_of.get(node, "") for node in nodes)
    for pod, count in below.items():
        if pod:
            yield from (Candidate(busy, pod) for busy, least in _LEAST if count >= least)
            if count > max(5, SHARE * sizes[pod]):
                yield Candidate(MOST, pod)
    if kind == ACROSS:
        yield from (Candidate("uplink", pod) for pod in pods)
        above = {fabric.above.get(pod, "") for pod in pods}
        yield from (Candidate("uplink", switch) for switch in above - {""} if len(above) > 1)
        yield from SPINES
