"""Clues of a host that answers ping while the port of rank 0's store, or of NCCL, drops or rejects every try."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text

_IP = r"\d{1,3}(?:\.\d{1,3}){3}"
_TRIED = re.compile(
    rf"\btimed out[^\n]{{0,60}}while trying to connect to \((?P<host>{_IP}), (?P<port>\d{{2,5}})\)"
    rf"|\b[Cc]onnect(?:ion)? to (?P<nccl>{_IP})<(?P<nccl_port>\d{{2,5}})>[^\n]{{0,60}}timed out"
    rf"|failed to connect to \[(?P<peer>{_IP})\]:(?P<peer_port>\d{{2,5}}) \((?:system error|errno): 1(?:10|0060)\b"
)
"""Tries that got no answer: who finds nobody at a port is refused at once."""
_PING = r"^[^\n]{{0,24}}?\d{{1,5}} bytes from (?:\S{{1,60}} \()?{host}\b|^Reply from {host}: bytes"
_PROBE = (
    r"nc: connect to {host} port {port} \(tcp\) (?:timed out|failed: Connection timed out)"
    r"|(?:Ncat|nc): (?:TIMEOUT|[Cc]onnection timed out)|telnet: [^\n]{{0,40}}(?:timed out|Connection timed out)"
    r"|TcpTestSucceeded\s{{0,4}}: False|{port}/tcp +filtered"
)
_REJECTED = re.compile(
    rf"\b(?:nc|ncat): connect to (?P<host>{_IP}) port (?P<port>\d{{2,5}}) \(tcp\) failed: No route to host"
    rf"|\b[Cc]onnect(?:ion)? to (?P<nccl>{_IP})<(?P<nccl_port>\d{{2,5}})>[^\n]{{0,40}}No route to host"
    rf"|failed to connect to \[(?P<peer>{_IP})\]:(?P<peer_port>\d{{2,5}}) \((?:system error|errno): 113\b"
)
"""Tries of a port that a host, or a firewall before it, rejected by a message of its own (ICMP)."""
_PING_SAID = (
    r"\b[Pp]ing(?:s|ing)?\b(?: (?:to )?{host}| it| the (?:host|node|master))? (?:does |do )?"
    r"(?:works?|is (?:fine|ok)|succeeds?|answers?|passes)\b"
)
"""Somebody's own words of a ping, in the line of the try or with its address."""
_MOST = 50


def port_without_answer(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The host is there, and no try to reach its port is answered: a firewall drops them."""
    for text, found in _tries(texts, _TRIED):
        host, port = next((found[a], found[b]) for a, b in _NAMES if found[a])
        ping = _first(texts, _PING.format(host=re.escape(host)))
        if ping is None:
            continue
        probe = _first(texts, _PROBE.format(host=re.escape(host), port=port))
        too = ", nor does a probe by hand" if probe else ""
        return Sharper(
            f"a firewall drops connections to port {port} of {host}: that host answers ping, and tries of that port "
            f"get no answer until their time is over{too}",
            f"open port {port} on {host} for the other nodes, and all TCP ports between the nodes for NCCL (ufw allow "
            "from NETWORK, firewall-cmd --zone=trusted --add-source=NETWORK, the cloud's security group). Check by "
            f"nc -zv {host} {port} while rank 0 waits. A longer time for the rendezvous does not help",
            tuple(each for each in (text.evidence(found.start()), ping, probe) if each is not None),
        )
    return None


def rejected_though_there(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The host answers ping, so that there is a route to it: who says that there is none is its firewall."""
    for text, found in _tries(texts, _REJECTED):
        host, port = next((found[a], found[b]) for a, b in _NAMES if found[a])
        ping = _first(texts, _PING.format(host=re.escape(host))) or _said(text, found, host)
        if ping is None:
            continue
        return Sharper(
            f"a firewall rejects connections to port {port} of {host}: that host answers ping, so that there is a "
            "route to it, and `No route to host` is what the firewall answers",
            f"open port {port} on {host} for the other nodes, and all TCP ports between the nodes for NCCL "
            "(firewall-cmd --zone=trusted --add-source=NETWORK, iptables -I INPUT -s NETWORK -j ACCEPT). Check by "
            f"nc -zv {host} {port} while something listens there. Address, routes and interfaces are right",
            (text.evidence(found.start()), ping),
        )
    return None


def _said(text: Text, found: re.Match[str], host: str) -> Evidence | None:
    """Words of a ping that works, in the same line."""
    begin, end = text.text.rfind("\n", 0, found.start()) + 1, text.text.find("\n", found.end())
    said = re.compile(_PING_SAID.format(host=re.escape(host))).search(
        text.text, begin, min(found.end() + 400, end if end >= 0 else len(text.text))
    )
    return text.evidence(said.start()) if said else None


_NAMES = (("host", "port"), ("nccl", "nccl_port"), ("peer", "peer_port"))


def _tries(texts: Sequence[Text], words: re.Pattern[str]) -> Iterator[tuple[Text, re.Match[str]]]:
    for text in texts:
        for found in islice(words.finditer(text.text), _MOST):
            yield text, found


def _first(texts: Sequence[Text], words: str) -> Evidence | None:
    pattern = re.compile(words, re.MULTILINE)
    return next((text.evidence(found.start()) for text in texts if (found := pattern.search(text.text))), None)
