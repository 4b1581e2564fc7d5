"""Clues of a port that no server holds: an outgoing connection has it as its own, by the range the system takes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text

_CONNECTED = re.compile(
    r"^(?:[^\s:]{1,60}: {1,4})?(?:tcp6?\s{1,12})?(?:ESTAB|TIME-WAIT|CLOSE-WAIT|FIN-WAIT-\d|SYN-SENT)"
    r"\s{1,20}\d{1,12}\s{1,20}\d{1,12}\s{1,30}\S{2,60}:(?P<port>\d{1,5})\s{1,40}(?P<peer>\S{2,60}:\d{1,5})\b"
    r"|^(?:[^\s:]{1,60}: {1,4})?tcp6?\s{1,12}\d{1,12}\s{1,20}\d{1,12}\s{1,30}\S{2,60}:(?P<port_>\d{1,5})\s{1,40}"
    r"(?P<peer_>\S{2,60}:\d{1,5})\s{1,20}(?:ESTABLISHED|TIME_WAIT|CLOSE_WAIT|FIN_WAIT\d|SYN_SENT)\b",
    re.MULTILINE,
)
"""A connection in lists of ss and netstat, a host's name before it where many hosts answer."""
_LISTENS = r"^[^\n]{{0,80}}\bLISTEN\b[^\n]{{0,120}}:{port}\b"
_RANGE = re.compile(r"\bip_local_port_range\s?[=:]?\s{0,3}(?P<first>\d{1,5})[ \t]{1,12}(?P<last>\d{1,5})\b")
_ASKED = re.compile(r"\b(?:port:? ?\(?|:)(?P<port>\d{4,5})\b")
_FIX = (
    "take a MASTER_PORT outside of net.ipv4.ip_local_port_range ({range}), such as {lower}. Or keep it from the "
    "system by net.ipv4.ip_local_reserved_ports=PORT on all nodes, or look for a free port at the start. A port that "
    "is computed from the job's number must stay below that range, too. Another start may well succeed"
)


def taken_by_connection(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Nobody listens on the port: a connection of this host goes out by it."""
    asked = {found["port"] for seen in finding.evidence for found in _ASKED.finditer(seen.fact)}
    if not asked:
        return None
    limits = next(((text, found) for text in texts if (found := _RANGE.search(text.text))), None)
    low, high = (int(limits[1]["first"]), int(limits[1]["last"])) if limits else (32768, 60999)
    seen: list[Evidence] = [limits[0].evidence(limits[1].start())] if limits else []
    fix = _FIX.format(range=f"{low} to {high}{'' if limits else ' unless it was set'}", lower=min(29500, low - 1000))
    for port in sorted(asked):
        if any(re.search(_LISTENS.format(port=port), text.text, re.MULTILINE) for text in texts):
            return None
    for text in texts:
        for found in _CONNECTED.finditer(text.text):
            port, peer = found["port"] or found["port_"], found["peer"] or found["peer_"]
            if port in asked and low <= int(port) <= high:
                return Sharper(
                    f"the port ({port}) is taken by a connection of that node to {peer}, and by no server or other "
                    "job. It is one of those that the system gives to outgoing connections",
                    fix,
                    (text.evidence(found.start()), *seen),
                )
    port = next((each for each in sorted(asked) if limits and low <= int(each) <= high), "")
    if not port:
        return None
    return Sharper(
        f"the port ({port}) is taken: it is one of those that the system gives to outgoing connections "
        f"({low} to {high}), or another job or a left-over process holds it",
        f"{fix}. ss -tanp '( sport = :{port} )' on that node shows who has it",
        tuple(seen),
    )
