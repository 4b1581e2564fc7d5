"""A clue of nodes that give each other one and the same address: each then connects to itself."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_IP = r"\d{1,3}(?:\.\d{1,3}){3}"
_BOOT = re.compile(
    rf"\b(?P<host>[A-Za-z][\w.-]{{0,60}}):\d{{1,8}}:\d{{1,8}} \[\d{{1,3}}\] NCCL INFO Bootstrap ?: "
    rf"Using (?:\[0\])?(?P<dev>[a-z][\w.-]{{0,30}}):(?P<ip>{_IP})<"
)
_OF_ONE_HOST = re.compile(r"docker|podman|cni|virbr|lxcbr|lxdbr|br-|usb|enx|idrac|ilo")
"""Interfaces within a host, of addresses set by habit: bridges of containers and guests, and the BMC's by USB."""
_OTHER = re.compile(
    rf"^(?P<name>(?!lo\b|docker|podman|cni|virbr|lxc|br-|usb|enx|veth)[a-zA-Z][\w.-]{{1,20}})(?:@\S{{1,20}})?"
    rf"\s{{1,20}}UP\s{{1,20}}(?P<ip>(?!169\.254\.|127\.){_IP})/",
    re.MULTILINE,
)
"""An interface of `ip -br addr` that is up and has an address of a network."""
_MOST = 1000


def one_address_of_two(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """NCCL took an interface within the host on two hosts, and both have the same address there."""
    boots = [(text, found) for text in texts for found in islice(_BOOT.finditer(text.text), _MOST)]
    of_ip: dict[str, dict[str, tuple[Text, re.Match[str]]]] = defaultdict(dict)
    for text, found in boots:
        if found["ip"].startswith("169.254.") or _OF_ONE_HOST.match(found["dev"]):
            of_ip[found["ip"]].setdefault(found["host"], (text, found))
    for ip, hosts in of_ip.items():
        if len(hosts) < 2:
            continue
        (text, one), (other, two) = list(hosts.values())[:2]
        better = next(
            (
                (each, row)
                for each in texts
                for row in _OTHER.finditer(each.text)
                if row["name"] not in (one["dev"], two["dev"])
            ),
            None,
        )
        name = named(better[1]["name"], 30) if better else "NAME"
        how = (
            f" ({better[1]['ip']})" if better else " (an interface with an address of the nodes' network; ip -br addr)"
        )
        both = one["dev"] if one["dev"] == two["dev"] else f"{one['dev']} and {two['dev']}"
        seen = [text.evidence(one.start()), other.evidence(two.start())]
        return Sharper(
            f"{named(one['host'], 40)} and {named(two['host'], 40)} have the same address {ip} on {named(both)}, which "
            "NCCL took: it is within each host, and a node that calls it meets itself",
            f"set NCCL_SOCKET_IFNAME={name}{how} on all nodes, and GLOO_SOCKET_IFNAME likewise. "
            f"^{named(one['dev'], 30)} only leaves that one out. Where names differ between nodes, give a begin that "
            "all share. Neither the firewall nor the peer's rank is at fault",
            (*seen, *([better[0].evidence(better[1].start())] if better else [])),
        )
    return None


_BY_USB = re.compile(r"usb|enx|idrac|ilo")
_LISTED = r"^{dev}(?:@\S{{1,20}})?\s{{1,20}}\w{{2,10}}\s{{1,20}}{ip}/"


def within_one_host(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """NCCL took an interface with a link-local address, as that by which a BMC is reached within its host."""
    boots = [(text, found) for text in texts for found in islice(_BOOT.finditer(text.text), _MOST)]
    taken = next(((text, found) for text, found in boots if found["ip"].startswith("169.254.")), None)
    if taken is None or taken[1]["ip"] not in _said(finding):
        return None
    text, boot = taken
    dev, ip = boot["dev"], boot["ip"]
    rows = re.compile(_LISTED.format(dev=re.escape(dev), ip=re.escape(ip)), re.MULTILINE)
    alike = [(each, row) for each in texts for row in islice(rows.finditer(each.text), 8)]
    better = next(
        ((each, row) for each in texts for row in _OTHER.finditer(each.text) if row["name"] != dev), None
    )  # fmt: skip
    what = (
        "the USB interface of the host's BMC" if _BY_USB.match(dev) else "an interface without an address of a network"
    )
    same = ", and it is the same on each host, so that a node that calls it meets itself" if len(alike) > 1 else ""
    name = named(better[1]["name"], 30) if better else "NAME"
    by = f" ({better[1]['ip']})" if better else " (an interface of the nodes' network; ip -br addr)"
    return Sharper(
        f"NCCL took {named(dev, 30)} ({ip}), {what}: a link-local address leads to no other host{same}",
        f"set NCCL_SOCKET_IFNAME={name}{by} on all nodes, and GLOO_SOCKET_IFNAME likewise; ^{named(dev, 30)} leaves "
        "that one out. Neither firewall, port nor the first node is at fault",
        (
            text.evidence(boot.start()),
            *(each.evidence(row.start()) for each, row in alike[:2]),
            *((better[0].evidence(better[1].start()),) if better else ()),
        ),
    )


def _said(finding: Finding) -> str:
    return "\n".join((finding.title, *(seen.fact for seen in finding.evidence)))
