"""Clues of RoCE ports that nobody set up: they have no IP address, and link-local GIDs lead to no other host."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.network.gids import GIDS, program_of
from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_FAILED = re.compile(
    r"local ?[Gg][Ii][Dd] fe80:[0-9a-f:]{2,40}[^\n]{0,60}remote ?[Gg][Ii][Dd]s? ?fe80:|GID \d{1,3} \(80FE/",
    re.IGNORECASE,
)
"""NCCL's own words where both ends used such an address."""
_ETHERNET = re.compile(r"NET/IB ?: (?:Using|Made)[^\n]{0,300}/RoCE|link_layer:\s{1,30}Ethernet|\bRoCE v[12]\b")
_ADDRESS = re.compile(
    r"^(?P<name>(?!lo\b|docker|veth|br-|virbr|cni|flannel|cali)[a-z][\w.-]{1,20})(?:@\S{1,20})?\s{1,20}UP\s{1,20}"
    r"\d{1,3}(?:\.\d{1,3}){3}/",
    re.MULTILINE,
)
_SOCKETS = re.compile(r"NCCL INFO Bootstrap ?: ?Using (?P<name>[a-z][\w.-]{1,20}):\d")

_GLOBAL = re.compile(
    r"^\s{0,8}(?:\S{1,40}/gids/)?(?P<index>\d{1,3})\s{0,3}:?\s{1,4}(?P<gid>(?!fe80|0000:0000)[0-9a-f]{4}(?::[0-9a-f]{4}){7})\s{1,8}"
    r"(?P<kind>RoCE v2)\b",
    re.MULTILINE,
)
"""An entry of /sys/class/infiniband/*/ports/*/gids with its type below or beside it, which leads to other hosts."""


def _routable(texts: Sequence[Text]) -> tuple[Text, str, str, int] | None:
    """The first RoCE v2 entry that is not link-local, in a list of show_gids or of the kernel: index and address."""
    for text in texts:
        for row in GIDS.finditer(text.text):
            if row["kind"] == "v2" and not row["gid"].startswith(("fe80", "0000")):
                return text, row["index"], row["gid"], row.start()
        if found := _GLOBAL.search(text.text):
            return text, found["index"], found["gid"], found.start("gid")
    return None


def _of_other_index(finding: Finding, texts: Sequence[Text]) -> Sharper | None:
    """Both ends are link-local, and the ports have an IPv6 address that leads on, at another index."""
    there = _routable(texts)
    if there is None or not any(_FAILED.search(each.fact) for each in finding.evidence):
        return None
    text, index, gid, at = there
    return Sharper(
        "NCCL took link-local GIDs (fe80::) at both ends, which do not lead to the other node, though index "
        f"{index} is RoCE v2 with a routable address ({gid})",
        f"set NCCL_IB_GID_INDEX={index} on all nodes, where the same index is RoCE v2 with a routable address "
        "(show_gids). Or NCCL_IB_ADDR_FAMILY=AF_INET6, by which NCCL 2.21 and newer looks for such an entry itself. "
        "Cables, timeouts and retries are not at fault",
        (text.evidence(at),),
    )


def roce_without_address(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """All GIDs of all RoCE ports are link-local."""
    if program_of(finding):
        return None
    if (other := _of_other_index(finding, texts)) is not None:
        return other
    rows = [(text, row) for text in texts for row in GIDS.finditer(text.text)]
    # InfiniBand's GIDs begin so, too: RoCE v2 is of Ethernet alone.
    roce = any(row["kind"] == "v2" for _, row in rows) or any(_ETHERNET.search(text.text) for text in texts)
    seen: list[Evidence] = []
    why = "nobody set these ports up, and NCCL took them for its network"
    if rows and roce:
        if any(row["ip"] or not row["gid"].startswith("fe80") for _, row in rows):
            return None
        devices = list(dict.fromkeys(row["dev"] for _, row in rows))
        who = f"the RoCE ports ({named(', '.join(devices[:4]))}) have no IP address, only link-local GIDs (fe80::)"
        seen = [text.evidence(row.start()) for text, row in rows[:1]]
    elif roce and any(_FAILED.search(each.fact) for each in finding.evidence):
        who = "the RoCE ports that NCCL took have link-local GIDs (fe80::) at both ends"
        why = "they were not set up with IP addresses, or NCCL_IB_GID_INDEX is of the wrong entry"
    else:
        return None
    named_ones = [
        found["name"] for words in (_ADDRESS, _SOCKETS) for text in texts for found in words.finditer(text.text)
    ]
    name = named(named_ones[0]) if named_ones else "NAME"
    return Sharper(
        f"{who}, which do not lead to the other node: {why}",
        f"NCCL_IB_DISABLE=1 with NCCL_SOCKET_IFNAME={name} sends all over that interface. Or set the ports up on all "
        "nodes (IP addresses in one network, switch, MTU): show_gids then lists RoCE v2 with an IPv4 address for "
        "NCCL_IB_GID_INDEX. NCCL_SOCKET_IFNAME alone does not keep NCCL from RDMA. Cables need no repair for it",
        tuple(seen),
    )
