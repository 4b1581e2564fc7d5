"""A switch that sends nearly all over one or two of its uplinks while the others rest, by its own table of rates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from busbw.base.secrets import shortened
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.reading.shown import Shown
from busbw.doctor.signature import Stage

NAME = "uplinks-uneven"
FEWEST, FULL, RESTS = 4, 80.0, 25.0
"""Uplinks in the table, per cent of a full one, and per cent that half of them stay below."""
_PORT = re.compile(
    r"\s{0,6}(?P<port>(?:Ethernet|Eth|Et|swp|et-|xe-|hundredGigE|fourHundredGigE|Te|Hu|Fo)\s?\d[\w/.:-]{0,14})[\s|]"
)
_UP = re.compile(r"\b(?:super-?)?(?:spine|uplink|core|fabric|agg(?:regation)?)s?(?![a-z])", re.IGNORECASE)
_PERCENT = re.compile(r"(?<![\w.])(?P<part>\d{1,3}(?:\.\d{1,2})?) ?%")
_PROMPT = re.compile(
    r"\s{0,2}(?:[\w.-]{1,40}@)?(?P<switch>[\w.-]{1,60})(?:\([\w-]{1,20}\))?[#>:$~ ]{1,4}(?:show|sh|portstat|net|nv)\b"
)
_HASH = re.compile(
    r"\bload-(?:sharing|balance)\b.{0,120}(?:source-ip|destination-ip|address)|\becmp\b.{0,40}\bhash\b.{0,80}(?:src|dst|source)"
    r"|\bhash-key\b.{0,60}\blayer-3\b|\bSRC_IP\b.{0,60}\bDST_IP\b",
    re.IGNORECASE,
)
_OF_PORTS = re.compile(r"l4|layer-4|\bports?\b|src_port|sport|source-port|destination-port|udp|tcp", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Row:
    switch: str
    port: str
    parts: tuple[float, ...]
    seen: Evidence


def examine(facts: Facts) -> Iterator[Finding]:
    for shown in facts.shown:
        rows = list(_rows(shown))
        for switch in dict.fromkeys(each.switch for each in rows):
            mine = [each for each in rows if each.switch == switch]
            if (found := _uneven(mine)) is not None:
                yield _finding(switch, mine, found, shown)
                break


def _rows(shown: Shown) -> Iterator[_Row]:
    """Uplinks of tables of rates: a port, what it is called, and the parts of its rate in use, in and out."""
    switch = ""
    for number, line in enumerate(shown.lines, 1):
        if any(each in line for each in "#>:$") and (found := _PROMPT.match(line)):
            switch = found["switch"]
        if "%" not in line or (port := _PORT.match(line)) is None or _UP.search(line, port.end() - 1) is None:
            continue
        parts = tuple(float(each["part"]) for each in _PERCENT.finditer(line))
        if 0 < len(parts) <= 2:
            yield _Row(switch, port["port"].strip(), parts, Evidence(
                shortened(" ".join(line.split()), 160), shown.source, number))  # fmt: skip


def _uneven(rows: Sequence[_Row]) -> list[tuple[str, float, _Row]] | None:
    """Of each direction that is uneven the fullest uplink: full, where half of them hardly carry anything."""
    found = []
    for at, way in enumerate(("in", "out") if all(len(each.parts) == 2 for each in rows) else ("",)):
        parts = [each.parts[at] for each in rows]
        if len(parts) >= FEWEST and max(parts) >= FULL and median(parts) <= RESTS:
            row = max(rows, key=lambda each: each.parts[at])
            found.append((way, row.parts[at], row))
    return found or None


def _finding(switch: str, rows: list[_Row], found: list[tuple[str, float, _Row]], shown: Shown) -> Finding:
    full = ", ".join(f"{row.port} {part:g}%{f' {way}' if way else ''}" for way, part, row in found)
    at = {"": 0, "in": 0, "out": 1}
    resting = max(sum(row.parts[at[way]] <= RESTS for row in rows) for way, _, _ in found)
    said = _hash(shown)
    how = ": its hash takes addresses alone" if said else ""
    return Finding(
        NAME, Severity.WARNING,
        f"the uplinks{f' of {switch}' if switch else ''} are loaded unevenly ({full}, {resting} of {len(rows)} nearly "
        f"idle){how}",
        (*(row.seen for _, _, row in found), *([said] if said else [])),
        Cost("flows that the switch's hash (ECMP) puts on one uplink share its rate, and the collective waits for it"),
        "let the switches spread flows: hash on UDP's source port too (RoCE puts its entropy there), or adaptive "
        "routing, dynamic load balancing or packet spraying. On the hosts more flows: NCCL_IB_QPS_PER_CONNECTION=4, "
        "NCCL_IB_SPLIT_DATA_ON_QPS=1",
        Proof(instruction="the same table in a run with NCCL_IB_QPS_PER_CONNECTION=4, and the same job under one leaf"),
        stage=Stage.NETWORK,
    )  # fmt: skip


def _hash(shown: Shown) -> Evidence | None:
    """The line of a switch that names what its hash takes, where that is no port of UDP."""
    for number, line in enumerate(shown.lines, 1):
        if _HASH.search(line):
            return None if _OF_PORTS.search(line) else Evidence(shortened(line.strip(), 160), shown.source, number)
    return None
