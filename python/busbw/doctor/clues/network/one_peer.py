"""A clue of one host that does not answer: all packets that got no answer, from several hosts, went to one peer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.network.common_end import common_end
from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_MOST = 2000
_OTHERS = 3
"""Hosts at the other ends: in a ring each host has two neighbours alone."""
_IP = r"\d{1,3}(?:\.\d{1,3}){3}"
_NO_ANSWER = re.compile(
    r"\b(?P<host>[A-Za-z][\w.-]{0,60}):\d{1,8}:\d{1,8} \[\d{1,3}\][^\n]{0,120}?Got completion from peer "
    rf"(?P<peer>{_IP})<\d{{1,5}}> with status=(?:12\b|IBV_WC_RETRY)[^\n]{{0,300}}?\bhca (?P<hca>\w{{2,30}})"
)
"""As NCCL says of a packet that was sent again and again, without an answer."""
_BOOT = re.compile(
    r"\b(?P<host>[A-Za-z][\w.-]{0,60}):\d{1,8}:\d{1,8} \[\d{1,3}\] NCCL INFO Bootstrap ?: Using [^\n]{1,40}?:"
    rf"(?P<ip>{_IP})<"
)
_TOLD = re.compile(
    rf"(?:^|\s)(?P<ip>{_IP})\s{{1,4}}(?:is |= ?|-> ?)?(?:host )?(?P<host>[A-Za-z][\w.-]{{1,60}}):?\s*$"
    rf"|\b(?P<host_>[A-Za-z][\w.-]{{1,60}}) (?:is |= ?|\()(?P<ip_>{_IP})\b",
    re.MULTILINE,
)
"""A line of /etc/hosts, of `getent hosts`, or of the one who asks, with the name of an address."""


def one_peer_alone(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Several hosts miss answers, and all of them from one and the same peer."""
    said = [(text, found) for text in texts for found in islice(_NO_ANSWER.finditer(text.text), _MOST)]
    hosts = list(dict.fromkeys(found["host"] for _, found in said))
    peers = {found["peer"] for _, found in said}
    if len(peers) != 1 or len(hosts) < 2:
        return _of_both_ends(texts)
    peer = peers.pop()
    name = _name(peer, texts)
    # NCCL gives one address to all NICs of a host, and who tells of itself is not that host.
    if name in hosts:
        return None
    who = f"{named(name, 40)} ({peer})" if name else peer
    hcas = list(dict.fromkeys(found["hca"] for _, found in said))
    from_where = f"{len(hosts)} hosts ({named(', '.join(hosts[:4]), 80)})"
    seen = tuple(text.evidence(found.start()) for text, found in said[:1])
    if len(hcas) > 1:
        return Sharper(
            f"one host does not answer, {who}: packets of {from_where} to it get no answer, over "
            f"{len(hcas)} of its NICs, and all others do",
            f"look at {who} first: whether it is up, whether its rank ended before (its own log, dmesg, Xid, OOM), and "
            "at its links (ibstat). Drain it, and go on from the last checkpoint. Longer timeouts do not mend it",
            seen,
        )
    device = named(hcas[0], 30)
    return Sharper(
        f"one NIC of one host does not answer: packets of {from_where} to {who} over {device} get no answer, and all "
        "others do",
        f"on {named(name, 40) or f'the host of {peer}'} look at the link of {device}: its error counters beside those "
        "of its other NICs (perfquery, mlxlink -c -m -e, ethtool -S), dmesg for Link down. Clean or replace its cable "
        f"or transceiver, or the switch port, and drain that host until then. Where its rank ended before, its own log "
        "tells why. Longer timeouts do not mend it",
        seen,
    )


def _of_both_ends(texts: Sequence[Text]) -> Sharper | None:
    """The host that does not answer misses answers itself: by its addresses it is the end of all pairs."""
    end = common_end(texts)
    if end is None or end.others < _OTHERS:
        return None
    who = f"{named(end.host, 40)} ({named(end.address, 45)})" if end.host else named(end.address, 45)
    device = named(end.hca, 30)
    return Sharper(
        f"one NIC of one host loses packets: all that got no answer are between {who}, {device}, and {end.others} "
        "other hosts",
        f"on {named(end.host, 40) or f'the host of {who}'} look at the link of {device}: its error counters beside "
        "those of its other NICs (perfquery, mlxlink -c -m -e, ethtool -S), dmesg for Link down, ping -I. Clean or "
        "replace its cable or transceiver, or the switch port, and drain that host until then. Longer timeouts do not "
        "mend it",
        (end.text.evidence(end.at),),
    )


def _name(ip: str, texts: Sequence[Text]) -> str:
    """The host of that address, as NCCL's start or a list of names tells."""
    for words in (_BOOT, _TOLD):
        for text in texts:
            for found in islice(words.finditer(text.text), _MOST):
                groups = found.groupdict()
                if ip in (groups["ip"], groups.get("ip_")):
                    return groups["host"] or groups.get("host_") or ""
    return ""
