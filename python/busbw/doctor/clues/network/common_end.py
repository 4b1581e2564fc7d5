"""A clue of one NIC that is an end of all packets without an answer, and whose counters or pings tell of a bad link."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_GID = r"[0-9a-fA-F:.]{4,45}"
_PAIR = re.compile(
    r"\b(?P<host>[A-Za-z][\w.-]{0,60}):\d{1,8}:\d{1,8} \[\d{1,3}\][^\n]{0,120}?Got completion from peer [^\n]{1,60}? "
    rf"with status=(?:12\b|IBV_WC_RETRY)[^\n]{{0,300}}?\blocalGid (?P<own>{_GID}) remoteGids? ?(?P<peer>{_GID})"
    r"[^\n]{0,40}?\bhca (?P<hca>\w{2,30})"
)
_MOST = 2000
_COUNTER = re.compile(
    r"^[^\n]{0,40}?\b(?P<name>rx_crc_errors_phy|rx_symbol_err_phy|rx_pcs_symbol_err_phy|link_down_events_phy"
    r"|symbol_error|link_downed|port_rcv_errors|SymbolErrorCounter|LinkDownedCounter)\W{1,30}(?P<much>\d{1,18})\s*$",
    re.MULTILINE,
)
_OF = re.compile(r"\b(?:ethtool -S|perfquery|mlxlink)\b[^\n]{0,40}?\s(?P<dev>(?!-)[a-z][\w.]{2,20})\b")
_BITS, _DOWN = 1000, 5
"""Errors of bits, and times that a link went down, which boots of a host and its switch do not make."""
_LOST = re.compile(r"^[^\n]{0,120}?(?P<lost>\d{1,3})(?:\.\d{1,4})?% packet loss", re.MULTILINE)
_BACK, _FAR = 300, 3000


@dataclass(frozen=True, slots=True)
class End:
    """One NIC at which all packets end that got no answer."""

    address: str
    host: str
    hca: str
    others: int
    text: Text
    at: int


def common_end(texts: Sequence[Text]) -> End | None:
    """The one address that all pairs share, which are of two other hosts at least."""
    said = [(text, found) for text in texts for found in islice(_PAIR.finditer(text.text), _MOST)]
    pairs = [{found["own"], found["peer"]} for _, found in said]
    if not pairs or len({found["hca"] for _, found in said}) > 1:
        return None
    ends = set.intersection(*pairs)
    others = set.union(*pairs) - ends
    if len(ends) != 1 or len(others) < 2:
        return None
    end = ends.pop()
    host = next((found["host"] for _, found in said if found["own"] == end), "")
    text, first = said[0]
    return End(end.removeprefix("::ffff:"), host, first["hca"], len(others), text, first.start())


def end_that_counts(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The NIC at which all of them end counts errors of its link, or loses pings."""
    end = common_end(texts)
    if end is None:
        return None
    counted, lost = _counted(end, texts), _pinged(end.address, texts)
    if counted is None and lost is None:
        return None
    host = end.host or (counted[0] if counted else "")
    on = f" on {named(host, 40)}" if host else f" with {named(end.address, 45)}"
    why = [
        *([f"{counted[1]} counts {counted[2]}"] if counted else []),
        *([f"{lost[0]}% of pings to {named(end.address, 45)} are lost"] if lost else []),
    ]
    seen = [text.evidence(at) for text, at in ((end.text, end.at), *(each[-1] for each in (counted, lost) if each))]
    return Sharper(
        f"the link of {named(end.hca, 30)}{on} is bad: all packets without an answer, between it and {end.others} "
        f"other hosts, have that end. {', and '.join(why)}",
        f"clean and seat, then replace the cable or transceiver of {named(end.hca, 30)}{on}, and look at its switch "
        f"port (mlxlink -d {named(end.hca, 30)} -m -c -e). Until then drain that host, or leave the NIC out on all "
        f"nodes: NCCL_IB_HCA=^{named(end.hca, 30)}. GID index, traffic class and longer timeouts do not mend it",
        tuple(seen),
    )


_Counted = tuple[str, str, str, tuple[Text, int]]


def _counted(end: End, texts: Sequence[Text]) -> _Counted | None:
    """Host, interface and counters that a command showed of that host, where these tell of a bad link."""
    for text in texts:
        for asked in islice(_OF.finditer(text.text), 64):
            line = text.text.find("\n", asked.end())
            host = host_before(text, line) if line >= 0 else ""
            if line < 0 or (end.host and host and host.partition(".")[0] != end.host.partition(".")[0]):
                continue
            after = _OF.search(text.text, line)
            stop = min(line + _FAR, after.start() if after else len(text.text))
            rows = list(_COUNTER.finditer(text.text, line, stop))
            bad = [each for each in rows if int(each["much"]) >= (_DOWN if "own" in each["name"] else _BITS)]
            if bad:
                worst = sorted(bad, key=lambda each: -int(each["much"]))
                told = {each["much"]: f"{each['name']} {each['much']}" for each in worst}
                return host, named(asked["dev"], 30), ", ".join(list(told.values())[:3]), (text, bad[0].end("much"))
    return None


def _pinged(address: str, texts: Sequence[Text]) -> tuple[str, tuple[Text, int]] | None:
    """The part of pings to the address that is lost, where some other address loses none."""
    found = [(text, each) for text in texts for each in islice(_LOST.finditer(text.text), 256)]
    whole = any(each["lost"] == "0" for _, each in found)
    for text, each in found:
        # The numbers stand in the line of the pair, or below a head that names the address.
        line = each[0]
        head = text.text[max(0, each.start() - _BACK) : each.start()].rpartition("---")
        above = head[0].rpartition("---")[2] if head[1] and head[2].strip("\n") == "" else ""
        if int(each["lost"]) and whole and re.search(rf"(?<![\d.]){re.escape(address)}(?![\d.])", f"{above} {line}"):
            return each["lost"], (text, each.start("lost"))
    return None
