"""The one port of a host that is slower than all its neighbours, in what `ibstat`, `ibstatus` and `ethtool` list."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

NEIGHBOURS = 3
"""So many others must have one rate: ports of storage and management are slower by intent, and come in pairs."""
_LEAST = 25
"""Gbit/s below which no port carries a job."""
_PORT = re.compile(
    r"(?P<host>(?:[A-Za-z][\w.-]{0,80}: )?)\s{0,4}"
    r"(?:CA '(?P<ca>[\w.-]{2,40})'|Infiniband device '(?P<device>[\w.-]{2,40})'"
    r" port \d+ status:|Settings for (?P<name>[\w.-]{2,40}):)"
)
_RATE = re.compile(r"(?:\S{1,80}: )?\s{0,16}(?:Rate: (\d{1,4})\b|rate:\s{1,8}(\d{1,4}) Gb/sec|Speed: (\d{4,7})Mb/s)")
_OFF = re.compile(
    r"\b(?:State: (?:Down|Initializing|Armed)|Physical state: (?:Polling|Disabled)|state:\s{1,8}[123]: "
    r"|phys state:\s{1,8}[23]: |Link detected: no)\b|Link layer: Ethernet|link_layer:\s{1,8}Ethernet"
)


@dataclass(slots=True)
class _Port:
    """A port, and its rate in Gbit/s with the line that tells it; `off` where it is down, or of another kind."""

    host: str
    name: str
    rate: int = 0
    line: int = 0
    off: bool = False


def told(lines: list[str]) -> list[str]:
    """The lines, with a sentence in place of the rate of a port that alone is slower than its neighbours."""
    ports = [each for each in _ports(lines) if each.rate >= _LEAST and not each.off]
    kept = lines
    for host in dict.fromkeys(each.host for each in ports):
        mine = [each for each in ports if each.host == host]
        usual, many = Counter(each.rate for each in mine).most_common(1)[0]
        others = [each for each in mine if each.rate != usual]
        if many >= NEIGHBOURS and len(others) == 1 and 2 * others[0].rate <= usual:
            kept = list(kept)
            only = others[0]
            kept[only.line] = f"{only.name} runs at {only.rate} Gbit/s where all its neighbours run at {usual} Gbit/s"
    return kept


def _ports(lines: list[str]) -> list[_Port]:
    found: list[_Port] = []
    for at, line in enumerate(lines):
        if head := _PORT.match(line):
            found.append(_Port(head["host"], head["ca"] or head["device"] or head["name"]))
        elif found and (rate := _RATE.match(line)) and not found[-1].rate:
            found[-1].rate = int(rate[1] or rate[2] or int(rate[3]) // 1000)
            found[-1].line = at
        elif found and _OFF.search(line):
            found[-1].off = True
    return found
