"""A clue of one host's rail: its own list of neighbours lacks all of them, where another host's finds them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_IP = r"\d{1,3}(?:\.\d{1,3}){3}"
_STATES = r"(?:REACHABLE|STALE|DELAY|PROBE|PERMANENT|FAILED|INCOMPLETE)"
_LIST = re.compile(
    r"\bip (?:-\w{1,6} )?n(?:eigh(?:bou?r)?)? (?:show |list |ls )?dev (?P<dev>[\w.-]{1,30})[^\n]{0,80}\n"
    rf"(?P<rows>(?:\s{{0,4}}{_IP}\b[^\n]{{0,100}}?\b{_STATES}\s{{0,4}}(?:\n|$)){{1,64}})"
)
"""The list of one interface, whose rows do not name it again."""
_ROW = re.compile(rf"(?P<ip>{_IP})\b[^\n]{{0,100}}?\b(?P<state>{_STATES})\b")
_LOST = frozenset({"FAILED", "INCOMPLETE"})
_GID = re.compile(
    rf"\b(?:local|remote) ?G[Ii][Dd]s?\W{{0,3}}(?:::ffff:)?(?P<ip>{_IP})\b|\bdgid=::ffff:(?P<only>{_IP})\b"
)
_QP = re.compile(r"\b(?:on dev|hca|dev(?:ice)?) (?P<dev>(?:mlx\d|bnxt_re|irdma|rocep?\d?)\w{0,14})\b")
_FEWEST = 2


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """What one host's kernel knows on one interface."""

    text: Text
    at: int
    host: str
    dev: str
    found: frozenset[str]
    lost: frozenset[str]


def rail_of_host(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """One host finds nobody on the interface, and another host finds others there."""
    lists = [each for text in texts for each in _lists(text)]
    said = "\n".join(seen.fact for seen in finding.evidence)
    failed = {found["ip"] or found["only"] for found in _GID.finditer(said)}
    for bad in lists:
        good = next(
            (each for each in lists if each.dev == bad.dev and each.host != bad.host and each.found & bad.lost), None
        )
        if bad.found or len(bad.lost) < _FEWEST or good is None or (failed and not failed & (bad.lost | good.lost)):
            continue
        nic = next((found["dev"] for found in _QP.finditer(said)), "")
        own = sorted(good.lost - bad.lost)
        dev, host = named(bad.dev, 30), named(bad.host, 40)
        whose = f"{dev}{f' ({nic})' if nic else ''} on {host}{f' ({own[0]})' if len(own) == 1 else ''}"
        return Sharper(
            f"the rail of {whose} has no way on layer 2: ARP gets no answer from any of {len(bad.lost)} peers there, "
            f"while {named(good.host, 40)} finds {len(good.found & bad.lost)} of them on its {dev}",
            f"look at the switch port of {dev} on {host}: VLAN, cabling (lldpctl there and on {named(good.host, 40)}: "
            f"do both ports belong to one rail?), MAC table. Then ping -I {own[0] if len(own) == 1 else dev} reaches "
            f"{sorted(good.found & bad.lost)[0]}. Until then leave that host out, or NCCL_IB_HCA=^{nic or 'NAME'} on "
            "all hosts. GID index, other rails and NCCL's settings are not it",
            (bad.text.evidence(bad.at), good.text.evidence(good.at)),
        )
    return None


def _lists(text: Text) -> Iterator[_Neighbours]:
    for listed in islice(_LIST.finditer(text.text), 64):
        rows = {row["ip"]: row["state"] for row in _ROW.finditer(listed["rows"])}
        lost = frozenset(ip for ip, state in rows.items() if state in _LOST)
        host = host_before(text, listed.start("rows"))
        if host:
            yield _Neighbours(text, listed.start("rows"), host, listed["dev"], frozenset(rows) - lost, lost)
