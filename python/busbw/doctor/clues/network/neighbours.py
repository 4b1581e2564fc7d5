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
_ALONE = re.compile(
    rf"\bip (?:-\w{{1,6}} )?n(?:eigh(?:bou?r)?)? (?:show |list )?dev (?P<dev>[\w.-]{{1,30}})[^\n]{{0,80}}\n"
    rf"(?:[^\n]{{0,200}}\n){{0,12}}?[^\n]{{0,40}}?(?P<ip>{_IP})\s{{1,4}}(?:FAILED|INCOMPLETE)\b"
)
"""The list of one interface, whose rows do not name it again."""
_TRIED = re.compile(
    rf"(?<![\w.-])(?P<dev>[a-z][\w.-]{{1,20}})\W{{1,6}}(?P<ip>{_IP})\W{{1,6}}"
    r"(?:(?P<well>ok|OK|PASS(?:ED)?|pass(?:ed)?|alive)|FAIL(?:ED)?|fail(?:ed)?|TIMEOUT|timeout|unreachable|no reply)\b"
)
"""How scripts sum up a ping over each interface."""
_SILENT = re.compile(r"^0 packets captured", re.MULTILINE)
_UP = re.compile(r"Link detected: yes|^\s{0,8}[a-z][\w.-]{1,30}\s{1,20}UP\s", re.MULTILINE)
_MOST = 2000


def rail_apart(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The address that NCCL could not connect is the one that a test of all rails did not reach."""
    said = "\n".join(seen.fact for seen in finding.evidence)
    asked = {found["peer"] or found["only"] for found in _PEER.finditer(said)}
    tried = [(text, found) for text in texts for found in islice(_TRIED.finditer(text.text), _MOST)]
    well = {found["dev"] for _, found in tried if found["well"]}
    lost = [(text, found) for text, found in tried if not found["well"] and found["ip"] in asked]
    if not lost or len(well) < 2 or len({found["dev"] for _, found in tried} - well) > 1:
        return None
    text, row = lost[0]
    rest = [(each, found) for each in texts for found in _ALONE.finditer(each.text) if found["ip"] == row["ip"]]
    nic = next((found["dev"] or found["hca"] for found in _QP.finditer(said)), "")
    return _told(
        (row["dev"], nic, row["ip"]), len(well), texts, [(text, row.start()), *((t, f.start("ip")) for t, f in rest)]
    )


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
    return _told((dev, nic, ip), len(well), texts, [(text, row.start())])


def _told(rail: tuple[str, str, str], well: int, texts: Sequence[Text], seen: Sequence[tuple[Text, int]]) -> Sharper:
    """One interface of several finds nobody (it, its NIC, the address): which, to whom, and where to look."""
    dev, nic, ip = rail
    silent = next(((each, found) for each in texts if (found := _SILENT.search(each.text))), None)
    up = any(_UP.search(each.text) for each in texts)
    on = f"{named(dev, 30)} ({nic})" if nic else named(dev, 30)
    nothing = ", and nothing of it arrives at the peer" if silent else ""
    links = ", though links are up" if up else ""
    return Sharper(
        f"the rail of {on} alone has no way on layer 2 to {ip}: {well} other "
        f"interface{'s find their peers' if well > 1 else ' finds its peer'}. ARP gets no answer{links}{nothing}",
        f"look at the switch ports of {named(dev, 30)} on both hosts: VLAN (access or trunk, native), cabling "
        f"(lldpctl on both ends: do both ports belong to the same rail?), MAC table. `ip neigh` must then have {ip} as "
        f"REACHABLE. Until then leave it out: NCCL_IB_HCA=^{nic or 'NAME'} on all hosts. GID index and NCCL's "
        "settings are not it",
        (*(text.evidence(at) for text, at in seen[:2]), *([silent[0].evidence(silent[1].start())] if silent else [])),
    )
