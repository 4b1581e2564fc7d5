"""Clues of ranks that share GPUs: a cluster of Ray that has one machine twice."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text

_IP = r"\d{1,3}(?:\.\d{1,3}){3}"
_NODE = re.compile(
    rf"^[ \t|]{{0,4}}\d{{1,5}}\s{{1,6}}(?P<id>[0-9a-f]{{40,64}})\s{{1,6}}(?P<ip>{_IP})\s{{1,20}}"
    r"(?:(?:True|False)\s{1,20})?ALIVE\b"
    rf"|['\"]NodeID['\"]: ?['\"](?P<told>[0-9a-f]{{40,64}})['\"], ?['\"]Alive['\"]: ?True, ?"
    rf"['\"]NodeManagerAddress['\"]: ?['\"](?P<at>{_IP})",
    re.MULTILINE,
)
"""A node as `ray list nodes` and `ray.nodes()` show it."""


def node_twice(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Two living nodes of Ray have one address."""
    nodes: dict[str, dict[str, Evidence]] = defaultdict(dict)
    for text in texts:
        for found in _NODE.finditer(text.text):
            ip = found["ip"] or found["at"]
            nodes[ip].setdefault(found["id"] or found["told"], text.evidence(found.start()))
    twice = next(((ip, seen) for ip, seen in nodes.items() if len(seen) > 1), None)
    if twice is None:
        return None
    ip, seen = twice
    return Sharper(
        f"{len(seen)} nodes of Ray run on one machine ({ip}), so that its GPUs count {len(seen)} times: "
        f"{finding.title}",
        f"ray stop on {ip}, and start one node there alone. Then ray start --address=HEAD:6379 on the other machine: "
        "ray list nodes must show a different address for each node. With one machine set nnodes=1. Devices that the "
        "program chooses, and NCCL_HOSTID, are not it",
        tuple(seen.values())[:3],
    )
