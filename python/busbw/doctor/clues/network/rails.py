"""Clues of who reaches whom: NICs of rails that the network does not join, and hosts that are none of a job's."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from ipaddress import ip_address, ip_network
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_IP = r"\d{1,3}(?:\.\d{1,3}){3}"
_FAILED = re.compile(
    rf"\bon dev (?P<dev>[\w-]{{2,30}}):\d{{1,2}},[^\n]{{0,100}}local GID ::ffff:(?P<own>{_IP}), remote GID ::ffff:"
    rf"(?P<peer>{_IP})\b"
)
"""As NCCL says of a queue pair that found no peer: its device and both addresses."""
_CARRIED = re.compile(
    r"\bConnected all (?:rings|trees)\b|\b(?:step|iteration|epoch)\b\W{0,4}\d[^\n]{0,120}\bloss\b", re.IGNORECASE
)
"""What comes once connections are up. That a channel goes `via NET/IB` is said before anything connects."""
_SEVERAL = re.compile(r"NET/IB ?: Using \[0\][^\n]{1,60}\[1\]")
_USING = re.compile(r"NET/IB ?: Using \[0\]")
"""NCCL's list of NICs, of which one alone makes no rails."""
_HELD = re.compile(
    rf"^(?P<name>[a-z][\w.-]{{0,20}}?)(?:@\S{{1,20}})?\s{{1,20}}UP\s{{1,20}}(?P<brief>{_IP})/(?P<bits>\d{{1,2}})"
    rf"|^\s{{1,12}}inet (?P<long>{_IP})/(?P<long_bits>\d{{1,2}})\b[^\n]{{0,80}} (?P<dev>[a-z][\w.-]{{0,20}})$",
    re.MULTILINE,
)
"""An interface with its address, as `ip -br addr` and `ip addr` list it."""
_MOST = 1000
_CURE = (
    "NCCL_CROSS_NIC=0, so that rings and trees stay on their rail, and NCCL_PXN_DISABLE=0 (the default), by which "
    "messages go over NVLink to the GPU of the right rail first. Sends to any rank need the network itself: give the "
    "switches routes between the subnets of the rails, and hosts a route for each (ip route, ip rule)"
)


def rails_apart(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """All connections that failed were between NICs of different subnets."""
    pairs = [(text, found) for text in texts for found in islice(_FAILED.finditer(text.text), _MOST)]
    if not pairs or any(_subnet(found["own"]) == _subnet(found["peer"]) for _, found in pairs):
        return None
    text, first = pairs[0]
    one = f"{named(first['dev'], 30)} ({first['own']}) does not reach {first['peer']}"
    crossed = _is_crossed({(_subnet(found["own"]), _subnet(found["peer"])) for _, found in pairs})
    # Hosts of one NIC each have no rails, though both ends tell of the connection that fails.
    rails = len({found["dev"] for _, found in pairs}) > 1 or any(_SEVERAL.search(each.text) for each in texts)
    if not rails and (odd := _addresses_apart(first, texts)) is not None:
        return odd
    if not (rails and crossed):
        return Sharper(
            f"the NICs of two subnets cannot reach each other over RoCE: {one}, and no route joins them",
            f"where each subnet is a rail: {_CURE}. Else give both NICs addresses of one subnet and VLAN"
            if rails or not any(_USING.search(each.text) for each in texts)
            else _ONE_SUBNET,
            (text.evidence(first.start()),),
        )
    carried = _CARRIED.search(text.text, 0, first.start())
    before = ", though connections within a rail work" if carried else ""
    return Sharper(
        f"the network joins only NICs of the same rail: between rails no connection comes up{before}: {one}",
        _CURE,
        tuple(each.evidence(found.start()) for each, found in pairs[:3]),
    )


_ONE_SUBNET = (
    "give both NICs addresses of one subnet and VLAN (ip -br addr on both hosts; netplan, nmcli or the provisioning). "
    "Or give the network and the hosts a route between the two subnets (ip route get ADDRESS). Then ping -I ADDRESS "
    "reaches the peer. GID index, firewall and NCCL_SOCKET_IFNAME have no part in it; until then NCCL_IB_DISABLE=1"
)


def _addresses_apart(failed: re.Match[str], texts: Sequence[Text]) -> Sharper | None:
    """The interfaces of both addresses, as their hosts list them."""
    held: dict[str, tuple[Text, re.Match[str]]] = {}
    for text in texts:
        for found in islice(_HELD.finditer(text.text), _MOST):
            held.setdefault(found["brief"] or found["long"], (text, found))
    ends = [held[ip] for ip in (failed["own"], failed["peer"]) if ip in held]
    if len(ends) < 2 or _network(ends[0][1]) == _network(ends[1][1]):
        return None
    said = [
        f"{named(row['name'] or row['dev'], 30)} has {row['brief'] or row['long']}/{row['bits'] or row['long_bits']}"
        f"{f' on {named(host, 40)}' if (host := host_before(text, row.start())) else ''}"
        for text, row in ends
    ]
    return Sharper(
        "the RoCE NICs of two hosts have addresses of different subnets, and no route joins them: "
        f"{' and '.join(said)}",
        f"give the one that was set up wrongly an address of the other's subnet ({_network(ends[0][1])} or "
        f"{_network(ends[1][1])}), as its host's netplan, nmcli or provisioning has it. Or add routes between the "
        "subnets, on switches and hosts. Then ping -I ADDRESS reaches the peer. GID index, firewall and "
        "NCCL_SOCKET_IFNAME have no part in it; until then NCCL_IB_DISABLE=1",
        tuple(text.evidence(row.start("name") if row["name"] else row.start("long")) for text, row in ends),
    )


def _network(row: re.Match[str]) -> str:
    try:
        return str(ip_network(f"{row['brief'] or row['long']}/{row['bits'] or row['long_bits']}", strict=False))
    except ValueError:
        return ""


def _is_crossed(pairs: Collection[tuple[str, str]]) -> bool:
    """Whether one rail fails to another: a subnet is met from several ones, or stands on both sides."""
    own, peers = {each for each, _ in pairs}, {each for _, each in pairs}
    return len(own) > len(peers) or not own.isdisjoint(peers)


def _subnet(address: str) -> str:
    return address.rpartition(".")[0]


_CLOSED = re.compile(
    rf"(?:[Cc]onnection closed by|[Cc]onnection reset by)[^\n]{{0,20}} peer (?P<peer>{_IP})<\d{{1,5}}>"
)
_BOOT = re.compile(
    rf"\b(?P<who>[A-Za-z][\w.-]{{0,60}}:\d{{1,8}}):\d{{1,8}} \[\d{{1,3}}\] NCCL INFO Bootstrap ?: "
    rf"Using [^\n]{{1,40}}?:(?P<ip>{_IP})<"
)
_RANKS = re.compile(r"\bnranks (?P<n>\d{1,6})\b")
_ADDRESS = re.compile(rf"(?<![\w.]){_IP}(?=<)")
_SCANNER = re.compile(
    r"\b[\w.-]{0,40}(?:secscan|scan(?:ner)?\d{0,3}\b|nessus|qualys|openvas|tenable|rapid7|nmap)[\w.-]{0,60}",
    re.IGNORECASE,
)


def no_host_of_job(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The connection that ended was that of a host which is none of the job's, all of whose hosts are known."""
    for text in texts:
        closed = _CLOSED.search(text.text)
        ranks = _RANKS.search(text.text)
        if closed is None or ranks is None:
            continue
        boots = list(islice(_BOOT.finditer(text.text), _MOST))
        if len({each["who"] for each in boots}) < int(ranks["n"]) or not _is_private_pair(
            closed["peer"], boots[0]["ip"]
        ):
            continue
        # A host may speak from any of its interfaces: NCCL lists these with their addresses.
        known = {found[0] for found in _ADDRESS.finditer(text.text) if not _is_of(closed, found)}
        if closed["peer"] in known:
            continue
        scanner = next(
            (found for found in _SCANNER.finditer(text.text) if closed["peer"] in _around(text, found)), None
        )
        who = f" ({named(scanner[0], 50)})" if scanner else ", as port scanners and health checks do"
        return Sharper(
            f"{closed['peer']}, which is no host of this job, connected to NCCL's port and closed the connection"
            f"{who}: NCCL took it for a rank that died",
            f"keep {closed['peer']} off these nodes and their ports: an exception in the scanner, a firewall, or a "
            "network of the job's own in NCCL_SOCKET_IFNAME. NCCL 2.27.3 and newer pass over such connections. Then "
            "start again. Where it is another address of a node of this job, look why its rank ended",
            (text.evidence(closed.start()), *((text.evidence(scanner.start()),) if scanner else ())),
        )
    return None


def _is_of(closed: re.Match[str], found: re.Match[str]) -> bool:
    """Whether the address stands in a line that tells of the same connection."""
    line = found.string.rfind("\n", 0, found.start()) + 1
    return _CLOSED.search(found.string, line, found.end() + 8) is not None


def _is_private_pair(one: str, other: str) -> bool:
    """Whether the peer lies in another network of 256 addresses than the job's host: one of its own is a host's."""
    try:
        return ip_address(one) not in ip_network(f"{other}/24", strict=False)
    except ValueError:
        return False


def _around(text: Text, found: re.Match[str]) -> str:
    return text.text[max(0, found.start() - 200) : found.end() + 200]
