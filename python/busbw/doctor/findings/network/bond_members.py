"""A bond of ports by LACP of which a port with a link takes no part: the switch does not have it in the same group."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named, texts_of
from busbw.doctor.signature import Stage

NAME = "bond-members"
_BOND = re.compile(r"^Bonding Mode: IEEE 802\.3ad", re.MULTILINE)
"""The head of /proc/net/bonding/NAME, where LACP is used."""
_FILE = re.compile(r"/proc/net/bonding/(?P<name>[\w.-]{1,20})\b")
_ACTIVE = re.compile(r"^Active Aggregator Info:\s*\n\s{1,12}Aggregator ID: (?P<id>\d{1,5})\b", re.MULTILINE)
_PORT = re.compile(r"^Slave Interface: (?P<name>[\w.-]{1,20})\s*$", re.MULTILINE)
_STATE = re.compile(r"^MII Status: (?P<state>\w{2,12})", re.MULTILINE)
_OWN = re.compile(r"^Aggregator ID: (?P<id>\d{1,5})\b", re.MULTILINE)
_PARTNER = re.compile(
    r"^details partner lacp pdu:\s*\n(?:\s{1,12}[^\n]{0,80}\n){0,3}?\s{1,12}system mac address: (?P<mac>[0-9a-f:]{17})",
    re.MULTILINE,
)
_NOBODY = "00:00:00:00:00:00"
_BONDS, _PORTS, _LONGEST, _ABOVE = 64, 16, 2000, 400


@dataclass(frozen=True, slots=True)
class _Port:
    name: str
    takes_part: bool
    partner: str
    seen: Evidence


def examine(facts: Facts) -> Iterator[Finding]:
    for text in texts_of(facts):
        heads = list(islice(_BOND.finditer(text.text), _BONDS))
        for number, head in enumerate(heads, 1):
            end = heads[number].start() if number < len(heads) else len(text.text)
            active = _ACTIVE.search(text.text, head.end(), end)
            if active is None:
                continue
            ports = list(_ports(text, active, end))
            left_out = [each for each in ports if not each.takes_part and each.partner == _NOBODY]
            if len(ports) > len(left_out) > 0:
                yield _finding(text, head.start(), ports, left_out)


def _ports(text: Text, active: re.Match[str], end: int) -> Iterator[_Port]:
    """The ports of the bond that have a link, and tell of their group and their partner."""
    rows = list(islice(_PORT.finditer(text.text, active.end(), end), _PORTS))
    for number, row in enumerate(rows, 1):
        until = min(rows[number].start() if number < len(rows) else end, row.end() + _LONGEST)
        state, own, partner = (each.search(text.text, row.end(), until) for each in (_STATE, _OWN, _PARTNER))
        if state is not None and state["state"] == "up" and own is not None and partner is not None:
            seen = text.evidence(partner.start("mac"))
            yield _Port(row["name"], own["id"] == active["id"], partner["mac"], seen)


def _finding(text: Text, at: int, ports: list[_Port], left_out: list[_Port]) -> Finding:
    files = [found["name"] for found in _FILE.finditer(text.text, max(0, at - _ABOVE), at)]
    bond = named(files[-1]) if files else "a bond"
    host = host_before(text, at)
    on = f" on {named(host, 40)}" if host else ""
    names = named(", ".join(each.name for each in left_out))
    who = f"port {names} of {bond}{on} takes" if len(left_out) == 1 else f"ports {names} of {bond}{on} take"
    carry = len(ports) - len(left_out)
    return Finding(
        NAME,
        Severity.WARNING,
        f"{who} no part in it, though the link is up: the switch answers no LACP there (partner {_NOBODY}), "
        f"so that only {carry} of its {len(ports)} ports carr{'ies' if carry == 1 else 'y'} traffic",
        tuple(each.seen for each in left_out[:3]),
        Cost(f"{carry} of {len(ports)} parts of the bond's bandwidth, for all that goes through it"),
        f"put the switch port of {names} into the same LACP port channel as the others (of both switches, where it "
        "is an MLAG), and see that the cable is in the right port (lldpctl). Then all ports have one Aggregator ID. "
        "Hash policy, cables' quality and NCCL's settings are not it",
        Proof(instruction="cat /proc/net/bonding/NAME: one Aggregator ID, Churn State none; then the same run again"),
        stage=Stage.NETWORK,
    )
