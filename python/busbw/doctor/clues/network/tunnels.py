"""Clues of the first interface that NCCL takes: a tunnel, or an address that counts on its own link alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_USING = re.compile(r"(?:Bootstrap ?: ?Using|NET/Socket ?: ?Using|OOB) (?P<list>[^\n]{4,600})$", re.MULTILINE)
_ONE = re.compile(
    r"(?:\[\d{1,2}\])?(?P<name>[A-Za-z][\w.-]{0,30}):(?P<ip>\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f]{0,4}:[0-9a-f:]{1,40})"
    r"(?:%[\w.-]{1,30})?<\d{1,5}>"
)
TUNNEL = re.compile(r"ip6tnl\d*|ip6_vti\d*|ip_vti\d*|sit\d+|tunl\d+|gre\d+|gretap\d+|ip6gre\d+|erspan\d+|teql\d+")
_OF_ONE_LINK = re.compile(r"fe80:|169\.254\.")
_INSIDE = re.compile(r"lo$|docker|virbr|br-|cni|flannel|cali|kube")


def first_is_tunnel(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The first of NCCL's list cannot be reached from other hosts, and a later one of the same list can."""
    for text in texts:
        for at, listed in _lists(text):
            name, ip = listed[0]
            tunnel, of_link = TUNNEL.fullmatch(name), _OF_ONE_LINK.match(ip)
            if not (tunnel or of_link):
                continue
            good = [
                each
                for each in dict.fromkeys(listed[1:])
                if not TUNNEL.fullmatch(each[0]) and not _OF_ONE_LINK.match(each[1]) and not _INSIDE.match(each[0])
            ]
            if not good and not tunnel:
                continue
            what = "a tunnel" if tunnel else "an interface"
            address = f" with a link-local address ({named(ip, 40)})" if of_link else ""
            other = f"; {named(good[0][0])} ({named(good[0][1], 45)}) stands behind it" if good else ""
            use = f"NCCL_SOCKET_IFNAME={named(good[0][0])}" if good else "NCCL_SOCKET_IFNAME to the one that does"
            out = name.rstrip("0123456789") if tunnel else name
            return Sharper(
                f"NCCL takes {named(name)} first, {what}{address} that other hosts cannot reach{other}",
                f"set {use} on all ranks (and GLOO_SOCKET_IFNAME for PyTorch), or exclude the other: "
                f"NCCL_SOCKET_IFNAME=^{named(out)},lo,docker. Firewalls and ports are not at fault",
                (text.evidence(at),),
            )
    return None


def _lists(text: Text) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """Names and addresses, in their order, of each line in which NCCL says what it uses."""
    for found in _USING.finditer(text.text):
        listed = [(each["name"], each["ip"]) for each in _ONE.finditer(found["list"])]
        if listed:
            yield found.start(), listed
