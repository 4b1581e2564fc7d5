"""Clues of IMEX's own table: the one node of an NVLink domain that the others are not connected to, and why."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_HEAD = re.compile(r"^[ \t]{0,8}Nodes From\\To(?P<numbers>(?:\s{1,8}\d{1,4}){2,72})\s{0,4}$", re.MULTILINE)
_ROW = re.compile(r"^[ \t]{1,12}(?P<node>\d{1,4})(?P<states>(?:\s{1,8}(?:!?[A-Z]!?)){2,72})\s{0,4}$", re.MULTILINE)
_NODE = re.compile(
    r"^\s{0,4}Node #(?P<node>\d{1,4})\s{1,4}- (?P<ip>[\d.]{7,15})\s{1,16}\*?- (?P<state>\w{2,20})", re.MULTILINE
)
_WHY: Mapping[str, tuple[str, str]] = {
    "!M!": (
        "has another list of the domain's nodes (node map mismatch)",
        "give that node the same nodes_config.cfg, in the same order, as all others, and restart its nvidia-imex. In "
        "Kubernetes delete its pod of the compute domain's daemon, so that it starts anew",
    ),
    "!V!": (
        "has another version of IMEX (version mismatch)",
        "install the same driver and nvidia-imex on that node as on all others, and restart nvidia-imex there",
    ),
    "N": (
        "was never connected",
        "start nvidia-imex on that node and open its port (50000) to all others; its nodes_config.cfg must hold the "
        "address by which they reach it",
    ),
}
_LOST = ("is no longer connected", "look at nvidia-imex of that node (its log, its port 50000), and restart it")


def node_apart(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """All nodes are connected with each other but for one."""
    for text in texts:
        head = _HEAD.search(text.text)
        if head is None:
            continue
        numbers = head["numbers"].split()
        rows = {
            row["node"]: dict(zip(numbers, row["states"].split(), strict=False))
            for row in _ROW.finditer(text.text, head.end(), head.end() + 8000)
        }
        apart = [
            node
            for node in rows
            if all(states.get(node, "C") != "C" for other, states in rows.items() if other != node)
        ]
        joined = [node for node in rows if node not in apart]
        if len(apart) != 1 or len(joined) < 2 or any(rows[a].get(b) != "C" for a in joined for b in joined):
            continue
        node = apart[0]
        said = rows[joined[0]][node]
        why, cure = _WHY.get(said, _LOST)
        listed = {each["node"]: each for each in _NODE.finditer(text.text)}
        at = f" ({named(listed[node]['ip'], 20)})" if node in listed else ""
        ready = all(each["state"] == "READY" for each in listed.values())
        though = ", though all say READY" if listed and ready else ""
        return Sharper(
            f"node #{node}{at} of the IMEX domain {why}{though}: GPUs of it cannot share memory with those of the "
            f"other {len(joined)} nodes",
            f"{cure}. nvidia-imex-ctl -N must show C everywhere and Domain State UP. Until then leave the node out, or "
            "NCCL_MNNVL_ENABLE=0",
            (text.evidence(head.start()), *([text.evidence(listed[node].start())] if node in listed else [])),
        )
    return None
