"""RDMA ports as `ibstat`, `ibstatus`, `ibdev2netdev` and `ibv_devinfo` list them: by device its rate and state."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

MAX_PORTS = 256
_STARTS = re.compile(r"(?:CA '|Infiniband device '|hca_id:\s{1,16})(?P<name>[\w.-]{2,40})(?:'|\s*$)")
_RATE = re.compile(r"\s{1,24}[Rr]ate:\s{1,16}(?P<rate>\d{1,5}(?:\.\d)?)(?:\s*Gb/sec.*)?\s*$")
_STATE = re.compile(r"\s{1,24}[Ss]tate:\s{1,16}(?:\d: )?(?:PORT_)?(?P<state>[A-Za-z]{2,12})\b")
_LAYER = re.compile(r"\s{1,24}[Ll]ink[_ ]layer:\s{1,16}(?P<layer>\w{2,12})")
_MAPPED = re.compile(r"(?P<name>[\w.-]{2,40}) port (?P<port>\d{1,2}) ==> (?P<net>\S{1,40}) \((?P<state>Up|Down)\)\s*$")


@dataclass(frozen=True, slots=True)
class Port:
    """The first port of a device. `rate_Gbps` is None where no listing says it."""

    name: str
    line: int
    rate_Gbps: float | None = None
    up: bool | None = None
    layer: str | None = None


def read_ports(lines: Sequence[str]) -> dict[str, Port]:
    """By device what the listings say of it; of one with several ports what they say of the best."""
    found: dict[str, Port] = {}
    now: Port | None = None
    for number, line in enumerate(lines, 1):
        if start := _STARTS.match(line):
            now = _kept(found, Port(start["name"], number))
        elif row := _MAPPED.match(line):
            up = row["state"] == "Up"
            known = _kept(found, Port(row["name"], number))
            if known is not None:
                found[known.name] = replace(known, up=up or bool(known.up))
            now = None
        elif now is None:
            continue
        elif line and not line[0].isspace():
            now = None
        else:
            now = found[now.name] = _told(now, line)
    return found


def is_mapped(line: str) -> bool:
    """Whether the line is one of `ibdev2netdev`."""
    return _MAPPED.match(line) is not None


def _kept(found: dict[str, Port], port: Port) -> Port | None:
    if port.name not in found and len(found) >= MAX_PORTS:
        return None
    return found.setdefault(port.name, port)


def _told(port: Port, line: str) -> Port:
    if row := _RATE.match(line):
        return replace(port, rate_Gbps=max(float(row["rate"]), port.rate_Gbps or 0.0))
    if row := _STATE.match(line):
        # "Physical state" of ibstat stands behind a word and does not match.
        return replace(port, up=row["state"].upper() == "ACTIVE" or bool(port.up))
    if row := _LAYER.match(line):
        return replace(port, layer=row["layer"])
    return port
