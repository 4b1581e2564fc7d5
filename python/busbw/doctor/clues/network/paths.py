"""Clues of a way through the network: pings between the pair that failed, beside those between others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.ping_loops import unrolled
from busbw.doctor.shown_texts import Text, named

_IP = r"\d{1,3}(?:\.\d{1,3}){3}"
_PAIR = re.compile(
    rf"\blocal ?G[Ii][Dd]s?\W{{0,3}}(?:::ffff:)?(?P<own>{_IP}),? {{0,4}}remote ?G[Ii][Dd]s?\W{{0,3}}(?:::ffff:)?"
    rf"(?P<peer>{_IP})\b|\bdgid=::ffff:(?P<only>{_IP})\b"
)
"""As NCCL names both sides of a connection, and UCX the other one."""
_STATS = re.compile(r"^[^\n]{0,60}?(?P<sent>\d{1,6}) packets transmitted, (?P<got>\d{1,6})(?: packets)? received\b",
                    re.MULTILINE)  # fmt: skip
_COMMAND = re.compile(r"\bping6?(?= )(?P<words>(?: [\w.%:/-]{1,60}){1,16})")
_IN_LOOP = re.compile(r"^[^\n]{0,120}\bfor [A-Za-z_]\w{0,20} in [^\n]{1,300}\bping6? [^\n]{1,300}$", re.MULTILINE)
_HEAD = re.compile(rf"^PING \S{{1,80}} \((?P<peer>{_IP})\)(?: from (?P<own>{_IP}))?", re.MULTILINE)
_LARGE = re.compile(r" -s ?\d{4,5}\b")
_BACK = 1500
"""Letters above the numbers of a ping in which its command or head stands."""
_MOST = 64
_HOP = re.compile(rf"^\s{{0,4}}(?P<hop>\d{{1,2}})\s{{1,6}}(?:\S{{1,60}} \()?(?P<ip>{_IP})\b[^\n]{{0,120}}\n"
                  r"\s{0,4}\d{1,2}\s{1,6}\* \* \*", re.MULTILINE)  # fmt: skip
"""The last router that traceroute heard of."""
_STEPS = re.compile(r"\b(?:step|iteration)\b\W{0,12}(?P<n>\d{1,9})\b[^\n]{0,200}\bloss\b", re.IGNORECASE)
_LEAST_STEPS = 3
BY_RAILS = "a NIC of subnet "
"""How the title begins that has no more than two subnets to go by."""


@dataclass(frozen=True, slots=True)
class _Ping:
    text: Text
    at: int
    own: str
    peer: str
    got: bool


def lost_between(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A ping between the two addresses of the connection that failed gets no answer either."""
    pairs = list(dict.fromkeys(_pairs(finding)))
    pings = [each for text in texts for each in _pings(text)]
    for own, peer in pairs:
        asked = [each for each in pings if _is_of(each, own, peer)]
        lost = next((each for each in asked if not each.got), None)
        if lost is None or any(each.got for each in asked):
            continue
        source = own or lost.own
        far = _subnet(source) != _subnet(peer)
        near = next((each for each in pings if far and each.got and _subnet(each.peer) == _subnet(source)), None)
        like = _alike(pings, source, peer)
        hop = next((found for found in _HOP.finditer(lost.text.text, lost.at)), None)
        seen = [lost.text.evidence(lost.at), *(each.text.evidence(each.at) for each in (like, near) if each)]
        if hop is not None:
            seen.append(lost.text.evidence(hop.start()))
        others = [
            *([f"{named(like.own, 30) or 'another address'} reaches {like.peer}"] if like else []),
            *([f"its own side answers ({near.peer})"] if near else []),
        ]
        beside = f", while {' and '.join(others)}" if others else ""
        where = " behind the first switch" if near or hop else ""
        title = (
            f"the network loses what {source or 'this host'} sends to {peer}: ping gets no answer between these two "
            f"either{beside}"
        )
        if beside:
            title += f". The way of this pair is broken{where}"
        return Sharper(title, _cure(source, peer, hop), tuple(seen))
    return _lost_while_running(finding, texts, pairs)


def _cure(own: str, peer: str, hop: re.Match[str] | None) -> str:
    ends = f" (traceroute ends behind {hop['ip']})" if hop else ""
    return (
        f"have the network's way from {own or 'this host'} to {peer} mended{ends}: link, route, ACL or VLAN between "
        "their switches, in both directions. Until ping -I passes leave that NIC or these nodes out "
        "(NCCL_IB_HCA=^NAME), and go on from the last checkpoint. A longer NCCL_IB_TIMEOUT only bridges a short outage"
    )


def _lost_while_running(finding: Finding, texts: Sequence[Text], pairs: Sequence[tuple[str, str]]) -> Sharper | None:
    """Two subnets that no route joins would have shown in the first step: a job that ran for long lost its way."""
    if not pairs or not finding.title.startswith(BY_RAILS):
        return None
    own, peer = pairs[0]
    for text in texts:
        at = text.text.find(peer)
        steps = list(_STEPS.finditer(text.text, 0, at)) if at > 0 else []
        if len(steps) < _LEAST_STEPS:
            continue
        return Sharper(
            f"the way from {own} to {peer} was lost while the job ran (step {steps[-1]['n']}): these NICs reached "
            "each other before",
            f"ping -I {own} {peer}, and ib_write_bw between the two. Then look at ports, cables and switches on the "
            "way (ethtool -S, counters of the switch) and at the peer, which may have died. Order and cabling of the "
            "rails are right. Go on from the last checkpoint without these nodes",
            (text.evidence(steps[-1].start()),),
        )
    return None


def _pairs(finding: Finding) -> Iterator[tuple[str, str]]:
    for seen in finding.evidence:
        if found := _PAIR.search(seen.fact):
            yield (found["own"] or "", found["peer"] or found["only"])


def _pings(text: Text) -> Iterator[_Ping]:
    """The pings of a log by their numbers, and whom each asked from where."""
    above, looped = 0, list[str]()
    for found in islice(_STATS.finditer(text.text), _MOST):
        begin = max(above, found.start() - _BACK)
        above = found.end()
        loop = next(iter(reversed(list(_IN_LOOP.finditer(text.text, begin, found.start())))), None)
        looped = list(unrolled(loop[0])) if loop else looped
        command = next(iter(reversed(list(_COMMAND.finditer(text.text, begin, found.start())))), None)
        head = next(iter(reversed(list(_HEAD.finditer(text.text, begin, found.start())))), None)
        # A loop's command stands once above the numbers of all its pings.
        one = _COMMAND.search(looped.pop(0)) if looped and (loop or command is None) else command
        own, peer = _asked(one["words"].split()) if one else ("", "")
        if head is not None:
            own, peer = head["own"] or own, head["peer"]
        # A large packet may be lost by its size alone.
        if peer and not (one and _LARGE.search(one["words"])):
            yield _Ping(text, found.start(), own, peer, int(found["got"]) > 0)


def _asked(words: Sequence[str]) -> tuple[str, str]:
    """The source and the address of a command of ping."""
    own = next((after for word, after in pairwise(words) if word == "-I"), "")
    return own, next((each for each in words if re.fullmatch(_IP, each) and each != own), "")


def _is_of(ping: _Ping, own: str, peer: str) -> bool:
    if ping.peer == peer:
        return not own or not re.fullmatch(_IP, ping.own) or ping.own == own
    return bool(own) and ping.peer == own and (ping.own == peer or not re.fullmatch(_IP, ping.own))


def _alike(pings: Sequence[_Ping], own: str, peer: str) -> _Ping | None:
    """A ping that came through to another address of the peer's subnet."""
    return next(
        (each for each in pings if each.got and _subnet(each.peer) == _subnet(peer) and each.peer not in (own, peer)),
        None,
    )


def _subnet(address: str) -> str:
    return address.rpartition(".")[0]
