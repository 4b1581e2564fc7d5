"""What boards are by their make, and no fault: no P2P of GeForce cards, links that no bridge uses, a maker's limit."""

from __future__ import annotations

import re
from collections import defaultdict

from busbw.machine.topology.names import takes_bridges

_GEFORCE = re.compile(r"\bGeForce (?:RTX|GTX) ?\d{4}\b")
_OTHER = re.compile(r"\b(?:Tesla|Quadro|TITAN|RTX A\d|RTX PRO|NVIDIA (?:[A-Z]{1,2}\d{1,3}\b|RTX \d))")
_NO_P2P = re.compile(r"\W{0,4}GPU\d{1,3}\s+(?:(?:X|OK|U|CNS|NS)\s+){0,32}CNS(?:\s|$)")

_BOARD = re.compile(r"\s*GPU (?P<gpu>\d{1,3}): (?P<name>.{3,60}) \(UUID")
_LINK = re.compile(r"\s*Link \d{1,3}: (?:(?P<rate>\d{1,3}(?:\.\d{1,6})?) GB/s|<inactive>)\s*$")
_THREE_BRIDGES = re.compile(r"\bH(?:100|200) NVL\b|\bH100 PCIe\b")
_BRIDGED = 12
"""Links of a board that three bridges join, of the 18 of its chip. Source: NVIDIA's product briefs."""
SAID = "ealth check failed"
"""Stands in what a check says of links."""
_CHECKED = re.compile(r"\bcheck_nvlink\w*:.{0,60}\binactive\b")
_RATED = re.compile(r"\bP2P test\b.{0,80}\bBandwidth (?P<rate>\d{1,4}(?:\.\d{1,4})?) is (?:less|lower) than\b")
_SHARE = 0.75
"""Of what all links carry: a test that measures more than that uses all of them."""


def without_make(lines: list[str]) -> list[str]:
    """The lines without those that only tell how boards are made; each keeps its number."""
    lines = _without_halves(_without_cables_put_back(_without_events_that_ended(lines)))
    return _without_windows_given_later(_without_checks_of_bridges(_without_p2p_of_geforce(lines)))


_GB10 = re.compile(r"\bNVIDIA GB10\b|\bDGX Spark\b")
_HALF = re.compile(r"LnkSta:\s{0,4}Speed 32GT/s(?: \(\w{1,12}\))?, Width x4 \(downgraded\)")


def _without_halves(lines: list[str]) -> list[str]:
    """Without links of four lanes on machines with a GB10: its NIC hangs on two such links by its make."""
    if not any("(downgraded)" in line for line in lines) or not any(_GB10.search(line) for line in lines):
        return lines
    return ["" if "(downgraded)" in line and _HALF.search(line) else line for line in lines]


_EVENT = re.compile(
    r"\s{0,4}\w{1,6} \| [\d/]{8,10} \| [\d:]{8} \| (?P<what>[^|]{2,60}\|[^|]{2,60})\| (?P<state>Asserted|Deasserted)\b"
)
"""A row of a BMC's log of events, as `ipmitool sel elist` lists it."""


def _without_events_that_ended(lines: list[str]) -> list[str]:
    """Without a BMC's rows of what has come and gone: the same sensor takes it back further down."""
    rows = [found if "sserted" in line and (found := _EVENT.match(line)) else None for line in lines]
    over = {found["what"].strip(): at for at, found in enumerate(rows) if found and found["state"] == "Deasserted"}

    def has_ended(at: int) -> bool:
        found = rows[at]
        return found is not None and at <= over.get(found["what"].strip(), -1)

    return ["" if has_ended(at) else line for at, line in enumerate(lines)] if over else lines


_CABLE = re.compile(r"\bmlx5_core (?P<port>\S{4,20}: Port module event: module \d{1,2}), Cable (?P<state>un)?plugged\b")


def _without_cables_put_back(lines: list[str]) -> list[str]:
    """Without the driver's lines of a cable that was taken out and that is back further down."""
    rows = [_CABLE.search(line) if "Port module event" in line else None for line in lines]
    back = {found["port"]: at for at, found in enumerate(rows) if found and not found["state"]}

    def is_back(at: int) -> bool:
        found = rows[at]
        return found is not None and found["state"] is not None and at < back.get(found["port"], -1)

    return ["" if is_back(at) else line for at, line in enumerate(lines)] if back else lines


_NO_WINDOW = re.compile(
    r"\bpci (?P<bar>[0-9a-f:.]{7,12}: (?:\[mem [^\]]{1,80}\]: )?BAR \d{1,2}).{0,80}(?:no space|assign)"
)
_WINDOW = re.compile(r"\bpci (?P<bar>[0-9a-f:.]{7,12}: BAR \d{1,2})(?: \[[^\]]{1,80}\])?: assigned")


def _without_windows_given_later(lines: list[str]) -> list[str]:
    """Without the kernel's first tries to give a device a window (BAR) where a later one gave it."""
    given = {found["bar"]: at for at, line in enumerate(lines) if "BAR" in line and (found := _WINDOW.search(line))}
    if not given:
        return lines

    def in_vain(at: int, line: str) -> bool:
        found = _NO_WINDOW.search(line) if "BAR" in line else None
        return found is not None and at < given.get(found["bar"], 0)

    return ["" if in_vain(at, line) else line for at, line in enumerate(lines)]


def _without_p2p_of_geforce(lines: list[str]) -> list[str]:
    """Without rows of `nvidia-smi topo -p2p r` where all GPUs are GeForce cards: the driver gives these no P2P."""
    if not any(map(_NO_P2P.match, lines)):
        return lines
    if not any(map(_GEFORCE.search, lines)) or any(map(_OTHER.search, lines)):
        return lines
    return ["" if _NO_P2P.match(line) else line for line in lines]


def _without_checks_of_bridges(lines: list[str]) -> list[str]:
    """Without a check's word for links that are open by design, where each GPU has all links that bridges join."""
    if not any(_CHECKED.search(line) or _RATED.search(line) for line in lines):
        return lines
    rates, gpu = defaultdict[str, list[float]](list), ""
    for line in lines:
        if board := _BOARD.match(line):
            gpu = board["gpu"] if _THREE_BRIDGES.search(board["name"]) and takes_bridges(board["name"]) else ""
            if not gpu:
                return lines
        elif gpu and (link := _LINK.match(line)) and link["rate"]:
            rates[gpu].append(float(link["rate"]))
    if len(rates) < 2 or any(len(each) != _BRIDGED for each in rates.values()):
        return lines
    most = min(sum(each) for each in rates.values())

    def by_design(line: str) -> bool:
        rated = _RATED.search(line)
        return _CHECKED.search(line) is not None or (rated is not None and float(rated["rate"]) > _SHARE * most)

    return ["" if by_design(line) else line for line in lines]
