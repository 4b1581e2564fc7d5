"""Clues of several RDMA NICs of a host in one subnet: each answers ARP for all, and packets reach a wrong one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from ipaddress import ip_address, ip_interface
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_IP = r"\d{1,3}(?:\.\d{1,3}){3}"
_ADDRESS = re.compile(
    rf"^(?P<name>[a-z][\w.-]{{1,20}}?)(?:@\S{{1,20}})?\s{{1,20}}UP\s{{1,20}}(?P<brief>{_IP}/\d{{1,2}})\b"
    rf"|^\s{{1,12}}inet (?P<long>{_IP}/\d{{1,2}}) [^\n]{{0,80}}\bscope global (?:\w{{2,14}} ){{0,3}}"
    r"(?P<dev>[a-z][\w.-]{1,20})$"
    rf"|^(?:[\w.-]{{1,60}}: )?\s{{0,4}}(?P<net>{_IP}/\d{{1,2}}) dev (?P<via>[\w.-]{{1,20}})\b"
    rf"[^\n]{{0,80}}?\bsrc (?P<src>{_IP})\b",
    re.MULTILINE,
)
"""An interface's address, as `ip addr`, `ip -br addr` and `ip route` list it."""
_NEIGHBOUR = re.compile(
    rf"^(?P<ip>{_IP}) dev (?P<dev>[\w.-]{{1,20}}) lladdr (?P<mac>[0-9a-f]{{2}}(?::[0-9a-f]{{2}}){{5}})\b"
    rf"|^\S{{1,60}} \((?P<old_ip>{_IP})\) at (?P<old>[0-9a-f]{{2}}(?::[0-9a-f]{{2}}){{5}}) ",
    re.MULTILINE,
)
_SYSCTL = re.compile(r"\bnet[./]ipv4[./]conf[./]\S{2,20}[./](?P<name>arp_ignore|rp_filter) ?= ?(?P<value>[0-8])\b")
_PING = re.compile(r"\bping6? [^\n]{0,120}-I ?\S")
_LOST = re.compile(r"^\d{1,5} packets transmitted, 0 (?:packets )?received", re.MULTILINE)
_GID = re.compile(rf"[lL]ocal ?G[iI][dD]:? ?::ffff:(?P<ip>{_IP})\b")
_MOST = 400


def rails_in_one_subnet(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The NICs that lose each other are in one subnet, and ARP or pings show that packets go to the wrong one."""
    said = "\n".join(seen.fact for seen in finding.evidence)
    mine = {found["ip"] for found in _GID.finditer(said)}
    if finding.name == "no-route" and "packets transmitted" not in said:
        return None
    settings = {found["name"]: found["value"] for text in texts for found in _SYSCTL.finditer(text.text)}
    if settings.get("arp_ignore", "0") != "0":
        return None
    for host, net, rows in _subnets(texts):
        if len(rows) < 2 or (mine and not any(_is_in(ip, net) for ip in mine)):
            continue
        proof = list(_proof(texts, net))
        if not proof:
            continue
        sure = any("arp_ignore" not in seen.fact and "rp_filter" not in seen.fact for _, seen in proof)
        same = next((words for words, _ in proof if words), "")
        on = f" of {named(host, 40)}" if host else " of a host"
        return Sharper(
            f"{len(rows)} NICs{on} are in one subnet ({net}): each answers ARP for all, so that packets to one NIC "
            f"{'reach' if sure else 'may reach'} another, which drops them{same}",
            "give each rail a subnet of its own, the same on all hosts (10.0.1.0/24, 10.0.2.0/24 and so on). Or keep "
            "one subnet, and on all hosts set net.ipv4.conf.all.arp_ignore=1, arp_announce=2 and rp_filter=2 (or 0). "
            "Then each NIC has a routing table of its own (ip rule from ADDRESS); ip neigh flush all at the end. "
            "Cables, switch and GID index are not at fault; until then one NIC alone works (NCCL_IB_HCA=mlx5_0)",
            (rows[0], rows[1], *(seen for _, seen in proof[:2])),
        )
    return None


def _subnets(texts: Sequence[Text]) -> Iterator[tuple[str, str, list[Evidence]]]:
    """Host and subnet, with a line for each interface in it."""
    groups: dict[tuple[str, str], dict[str, Evidence]] = defaultdict(dict)
    for text in texts:
        for found in islice(_ADDRESS.finditer(text.text), _MOST):
            try:
                net = str(ip_interface(found["brief"] or found["long"] or found["net"]).network)
            except ValueError:
                continue
            name = found["name"] or found["dev"] or found["via"]
            groups[host_before(text, found.start()), net].setdefault(name, text.evidence(found.start()))
    for (host, net), rows in groups.items():
        yield host, net, list(rows.values())


def _proof(texts: Sequence[Text], net: str) -> Iterator[tuple[str, Evidence]]:
    """What shows that packets go astray: one address of Ethernet for several peers, and pings between rails."""
    for text in texts:
        macs: dict[tuple[str, str], dict[str, Evidence]] = defaultdict(dict)
        for found in islice(_NEIGHBOUR.finditer(text.text), _MOST):
            ip, mac = found["ip"] or found["old_ip"], found["mac"] or found["old"]
            if _is_in(ip, net):
                macs[host_before(text, found.start()), mac][ip] = text.evidence(found.start())
        (_, mac), peers = max(macs.items(), key=lambda each: len(each[1]), default=(("", ""), {}))
        if len(peers) > 1:
            yield f" (ARP has {mac} for {', '.join(list(peers)[:3])})", next(iter(peers.values()))
        if (ping := _PING.search(text.text)) and (lost := _LOST.search(text.text, ping.end())):
            yield "", text.evidence(lost.start())
        for found in _SYSCTL.finditer(text.text):
            if found["name"] == "arp_ignore" or (found["name"], found["value"]) == ("rp_filter", "1"):
                yield "", text.evidence(found.start())


def _is_in(ip: str, net: str) -> bool:
    try:
        return ip_address(ip) in ip_interface(net).network
    except ValueError:
        return False
