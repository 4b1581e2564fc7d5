"""Clues of RoCE connections that time out: neighbours whose hardware address the kernel does not find (ARP)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_IP = r"\d{1,3}(?:\.\d{1,3}){3}"
_NEIGHBOUR = re.compile(
    rf"^[^\n]{{0,40}}?(?P<ip>{_IP}) dev (?P<dev>[\w.-]{{1,30}})\s{{1,4}}(?:lladdr [0-9a-f:]{{17,59}} )?(?:router )?"
    r"(?P<state>REACHABLE|STALE|DELAY|PROBE|PERMANENT|FAILED|INCOMPLETE)\b"
    rf"|^\S{{0,60}}? ?\(?(?P<old>{_IP})\)?\s[^\n]{{0,40}}?[<(]incomplete[>)]\s[^\n]{{0,24}}?"
    r"(?P<on>[a-z][\w.-]{1,30})$",
    re.MULTILINE,
)
"""A row of `ip neigh`, and the row of an address without an answer of `arp`."""
_FOUND = frozenset({"REACHABLE", "STALE", "DELAY", "PROBE", "PERMANENT"})
_PEER = re.compile(rf"\bremote ?G[Ii][Dd]s?\W{{0,3}}(?:::ffff:)?(?P<peer>{_IP})\b|\bdgid=::ffff:(?P<only>{_IP})\b")
_QP = re.compile(
    r"\bon dev (?P<dev>[a-z]\w{2,20}):\d{1,3}\b|\b(?:hca|dev(?:ice)?) (?P<hca>(?:mlx5|bnxt_re|irdma)\w{1,12})\b"
)
_SILENT = re.compile(r"^0 packets captured", re.MULTILINE)
_UP = re.compile(r"Link detected: yes|^\s{0,8}[a-z][\w.-]{1,30}\s{1,20}UP\s", re.MULTILINE)
_MOST = 2000


def unresolved(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The kernel's list of neighbours lacks the address of the peer's NIC, while others are in it."""
    rows = [(text, found) for text in texts for found in islice(_NEIGHBOUR.finditer(text.text), _MOST)]
    lost = {(found["ip"] or found["old"]): (text, found) for text, found in rows if found["state"] not in _FOUND}
    well = {found["dev"] for _, found in rows if found["state"] in _FOUND}
    said = "\n".join(seen.fact for seen in finding.evidence)
    asked = {found["peer"] or found["only"] for found in _PEER.finditer(said)}
    mine = {ip: each for ip, each in lost.items() if not asked or ip in asked}
    if not mine or not well:
        return None
    ip, (text, row) = next(iter(mine.items()))
    dev = row["dev"] or row["on"]
    if dev in well or len(mine) > len(well):
        return None  # one host that is down, or a network that is not there at all
    nic = next((found["dev"] or found["hca"] for found in _QP.finditer(said)), "")
    silent = next(((each, found) for each in texts if (found := _SILENT.search(each.text))), None)
    up = any(_UP.search(each.text) for each in texts)
    on = f"{named(dev, 30)} ({nic})" if nic else named(dev, 30)
    nothing = ", and nothing of it arrives at the peer" if silent else ""
    links = ", though links are up" if up else ""
    return Sharper(
        f"the rail of {on} alone has no way on layer 2 to {ip}: {len(well)} other "
        f"interface{'s find their peers' if len(well) > 1 else ' finds its peer'}. ARP gets no answer{links}{nothing}",
        f"look at the switch ports of {named(dev, 30)} on both hosts: VLAN (access or trunk, native), cabling "
        f"(lldpctl on both ends: do both ports belong to the same rail?), MAC table. `ip neigh` must then have {ip} as "
        f"REACHABLE. Until then leave it out: NCCL_IB_HCA=^{nic or 'NAME'} on all hosts. GID index and NCCL's "
        "settings are not it",
        (text.evidence(row.start()), *([silent[0].evidence(silent[1].start())] if silent else [])),
    )
