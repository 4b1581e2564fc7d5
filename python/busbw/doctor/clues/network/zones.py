"""Clues of a host's own firewall as its tool lists it: zones of firewalld, and ufw."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_ZONE = re.compile(
    r"^(?P<name>[A-Za-z][\w-]{0,30}) \((?:default, )?active\)\s{0,4}\n(?P<rows>(?:[ \t]{1,8}\S[^\n]{0,300}\n){3,20})",
    re.MULTILINE,
)
"""A zone of `firewall-cmd --list-all`; only one that is active decides."""
_ROW = re.compile(r"^\s{1,8}(?P<key>target|interfaces|sources|services|ports): ?(?P<value>[^\n]{0,300})$", re.MULTILINE)
_RICH = re.compile(r"\brule family=\S{4,8} source address=\S{4,40} accept\s*$", re.MULTILINE)
_UFW = re.compile(
    r"^Status: active\s{0,4}\n(?P<rows>(?:[^\n]{0,200}\n){1,6}?To\s{1,40}Action\s{1,20}From[^\n]{0,20}\n"
    r"(?:[^\n]{1,200}\n?){1,40})",
    re.MULTILINE,
)
_ALLOWED = re.compile(
    r"^(?P<to>\d{1,5}(?::\d{1,5})?(?=[/\s])|Anywhere|[A-Z][\w ]{1,24}?)(?:/(?P<proto>tcp|udp))?"
    r"(?: on \S{1,20})?\s{1,40}(?:ALLOW|LIMIT)(?: IN)?\s{1,20}(?P<source>\S{3,40})",
    re.MULTILINE,
)
_DEFAULT = re.compile(r"^Default: (?P<what>deny|reject|allow) \(incoming\)", re.MULTILINE)
_ASKED = re.compile(r"(?P<host>\d{1,3}(?:\.\d{1,3}){3})(?:<|:| port |, ?)(?P<port>\d{2,5})\b")
_REFUSES = re.compile(
    r"No route|unable to complete a TCP|errno: 113|prohibited|Software caused connection abort", re.IGNORECASE
)
"""What tries meet that a firewall rejects; NCCL gives up with an abort, whatever each try met."""
_DROPS = re.compile(r"timed? ?-?out|unable to complete a TCP|no answer|Software caused connection abort", re.IGNORECASE)
_MOST = 12
_WIDE = 5000
"""So many ports in one rule are those from which the system chooses."""


@dataclass(frozen=True, slots=True)
class _Wall:
    """What one listing lets through: ports, or all from some addresses or interfaces."""

    name: str
    verdict: str
    spans: tuple[tuple[int, int], ...]
    words: str
    interfaces: tuple[str, ...]
    sources: tuple[str, ...]
    at: Evidence
    host: str


def closed_by_zone(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The firewall's own list on a host does not have the port that others ask for."""
    said = " ".join(seen.fact for seen in finding.evidence)
    asked = [(found["host"], int(found["port"])) for found in _ASKED.finditer(said)]
    walls = [wall for text in texts for wall in _walls(text)]
    open_ones = [wall for wall in walls if wall.verdict == "accept"]
    interface = (facts.value("NCCL_SOCKET_IFNAME") or "").lstrip("=^")
    for wall in walls:
        words = _DROPS if wall.verdict == "drop" else _REFUSES
        if wall.verdict == "accept" or not words.search(said) or _is_trusted(open_ones, interface, wall.host, asked):
            continue
        if interface and wall.interfaces and interface not in wall.interfaces:
            continue  # another interface than that of the job
        barred = [each for each in asked if not _lets(wall, each[1])]
        # From these addresses all may come in, and the nodes may be among them.
        wide = not asked and any(last - first >= _WIDE for first, last in wall.spans)
        if wide or (asked and not barred) or (wall.name == "ufw" and wall.sources):
            continue
        on = f" on {named(wall.host, 40)}" if wall.host else f" on {barred[0][0]}" if barred else " of a host"
        port = f"port {barred[0][1]}" if barred else "all others"
        does = "drops" if wall.verdict == "drop" else "rejects"
        return Sharper(
            f"a firewall{on} ({wall.name}) lets only {wall.words or 'named services'} through, and {does} {port}",
            _cure(wall, interface or (wall.interfaces or ("",))[-1]),
            (wall.at,),
        )
    return None


def _cure(wall: _Wall, interface: str) -> str:
    how = (
        "ufw allow from NETWORK (that of the nodes)"
        if wall.name == "ufw"
        else f"firewall-cmd --permanent --zone=trusted --change-interface={interface}, then --reload (or "
        "--zone=trusted --add-source=NETWORK)"
        if interface
        else "firewall-cmd --permanent --zone=trusted --add-source=NETWORK, then --reload"
    )
    return (
        f"trust the nodes' own network there, and on all nodes alike: {how}. Or stop that firewall as on the others. "
        "MPI and NCCL listen on ports that the system chooses: single open ports are not enough. Routes, names and "
        "interfaces are right"
    )


def _walls(text: Text) -> Iterator[_Wall]:
    """The listings of that log."""
    for found in islice(_ZONE.finditer(text.text), _MOST):
        rows = {row["key"]: row["value"].split() for row in _ROW.finditer(found["rows"])}
        after = text.text[found.end() : found.end() + 400]
        if "target" not in rows or _RICH.search(found["rows"] + after):
            continue
        target = rows["target"][0].strip("%").lower() if rows["target"] else "default"
        ports = rows.get("ports", [])
        numbers = ", ".join(each.removesuffix("/tcp") for each in ports[:4] if each.endswith("/tcp"))
        services = ", ".join(rows.get("services", [])[:4])
        words = " and ".join(filter(None, (named(services), f"port{'s' * (len(ports) > 1)} {numbers}" * bool(numbers))))
        yield _Wall(
            f"firewalld, zone {found['name']}",
            target if target in ("accept", "drop") else "reject",
            tuple(span for each in ports if each.endswith("/tcp") and (span := _span(each[:-4]))),
            words,
            tuple(rows.get("interfaces", ())),
            tuple(rows.get("sources", ())),
            text.evidence(found.start()),
            host_before(text, found.start()),
        )
    for found in islice(_UFW.finditer(text.text), _MOST):
        default = _DEFAULT.search(found["rows"])
        if default is not None and default["what"] == "allow":
            continue
        allowed = [row for row in _ALLOWED.finditer(found["rows"]) if row["proto"] != "udp"]
        spans = [span for row in allowed if (span := _span(row["to"])) is not None]
        yield _Wall(
            "ufw",
            "reject" if default is not None and default["what"] == "reject" else "drop",
            tuple(spans),
            ", ".join(dict.fromkeys(named(row["to"], 30) for row in allowed[:5] if row["to"] != "Anywhere")),
            (),
            tuple(row["source"] for row in allowed if row["to"] == "Anywhere"),
            text.evidence(found.start()),
            host_before(text, found.start()),
        )


def _span(said: str) -> tuple[int, int] | None:
    first, _, last = said.replace(":", "-").partition("-")
    return (int(first), int(last or first)) if first.isdecimal() and (last or first).isdecimal() else None


def _lets(wall: _Wall, port: int) -> bool:
    return any(first <= port <= last for first, last in wall.spans)


def _is_trusted(walls: Sequence[_Wall], interface: str, host: str, asked: Sequence[tuple[str, int]]) -> bool:
    """Whether another zone of the same host lets all through that come by that interface, or from those addresses."""
    return any(
        wall.host == host
        and (interface in wall.interfaces or any(_within(ip, net) for ip, _ in asked for net in wall.sources))
        for wall in walls
    )


def _within(ip: str, net: str) -> bool:
    try:
        return ip_address(ip) in ip_network(net, strict=False)
    except ValueError:
        return False
