"""Interfaces of NCCL's sockets: the loopback that a setting left in, and those that only one of the hosts has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_IP = r"\d{1,3}(?:\.\d{1,3}){3}"
_USING = re.compile(
    r"^[^\n]{0,80}?(?P<host>[A-Za-z0-9][\w.-]{0,80}):\d{1,9}:\d{1,9} \[-?\d{1,3}\] NCCL INFO "
    r"(?:NET/Socket ?: Using|NET ?: Using interface|Bootstrap ?: ?Using) (?P<list>[^\n]{4,800})$",
    re.MULTILINE,
)
_ONE = re.compile(rf"(?:\[\d{{1,2}}\])?(?P<name>[A-Za-z][\w.-]{{0,30}}):(?P<ip>{_IP})<\d{{1,5}}>")
_SET = re.compile(r"\bNCCL_SOCKET_IFNAME(?:=| set by environment to |: )['\"]?(?P<value>\^[\w,.-]{1,80})")
_INSIDE = re.compile(r"lo$|docker|virbr|br-|veth|cni|flannel|cali|kube")
_MOST, _SHOWN = 400, 3

_Interfaces = Mapping[str, dict[str, str]]
"""By host, its interfaces with their addresses."""


def loopback_left(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """NCCL took the loopback interface first, in a job of several hosts: who is called there is the caller itself."""
    hosts, places = _interfaces(texts)
    if len(hosts) < 2:
        return None
    first = next((host for host, listed in hosts.items() if next(iter(listed.values())).startswith("127.")), None)
    if first is None:
        return None
    value = next(((text, found) for text in texts if (found := _SET.search(text.text))), None)
    others = (
        name for listed in hosts.values() for name, ip in listed.items() if not _INSIDE.match(name) and ip[:4] != "127."
    )
    good = next(others, "")
    # NCCL leaves lo out by itself, and no more where somebody says what to leave out.
    why = f": NCCL_SOCKET_IFNAME={named(value[1]['value'])} leaves it in" if value else ""
    out = f"NCCL_SOCKET_IFNAME=^lo,{named(value[1]['value'][1:])}" if value else "NCCL_SOCKET_IFNAME=^lo,docker"
    seen = [places[first]] + ([value[0].evidence(value[1].start())] if value else [])
    return Sharper(
        f"NCCL took the loopback interface first on {named(first)}, at which other hosts reach only themselves{why}",
        f"set {f'NCCL_SOCKET_IFNAME={named(good)}, or ' if good else ''}{out}, on all ranks (mpirun -x): a list of "
        "what to leave out takes the place of NCCL's own, which leaves out lo and docker",
        tuple(seen),
    )


def unshared_interfaces(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """NCCL spreads its sockets over all interfaces, of which only some are in a network that the hosts share."""
    hosts, places = _interfaces(texts)
    hosts = {host: {name: ip for name, ip in each.items() if not _INSIDE.match(name)} for host, each in hosts.items()}
    hosts = {host: each for host, each in hosts.items() if each}
    if len(hosts) < 2:
        return None
    shared = set.intersection(*({_net(ip) for ip in each.values()} for each in hosts.values()))
    alone = {host: [(n, ip) for n, ip in each.items() if _net(ip) not in shared] for host, each in hosts.items()}
    if len(shared) != 1 or not any(alone.values()):
        return None
    net = next(iter(shared))
    use = {host: next(name for name, ip in each.items() if _net(ip) == net) for host, each in hosts.items()}
    names = set(use.values())
    what = "; ".join(
        f"{named(host, 40)} has {named(', '.join(f'{name} {ip}' for name, ip in each[:_SHOWN]), 90)}"
        f"{' and others' if len(each) > _SHOWN else ''}"
        for host, each in list(alone.items())[:_SHOWN]
        if each
    )
    each_own = ", ".join(f"{named(name)} on {named(host, 40)}" for host, name in list(use.items())[:_SHOWN])
    return Sharper(
        f"NCCL spreads its sockets over interfaces that reach no other host: {what}; all hosts share only {net}.x",
        "set NCCL_SOCKET_IFNAME to the shared interface: "
        + (f"{named(next(iter(names)))}" if len(names) == 1 else f"{each_own}, so on each host its own name")
        + " (and GLOO_SOCKET_IFNAME for PyTorch). Where it fails on with that, a firewall stands between them",
        tuple(places[host] for host in list(hosts)[:_SHOWN]),
    )


def _net(ip: str) -> str:
    return ip.rpartition(".")[0]


def _interfaces(texts: Sequence[Text]) -> tuple[_Interfaces, Mapping[str, Evidence]]:
    """What each host says that it uses, in its order, and where it says it."""
    hosts: dict[str, dict[str, str]] = {}
    places: dict[str, Evidence] = {}
    for text in texts:
        for found in islice(_USING.finditer(text.text), _MOST):
            listed = {each["name"]: each["ip"] for each in _ONE.finditer(found["list"])}
            if not listed:
                continue
            if len(listed) > len(hosts.get(found["host"], ())) or found["host"] not in places:
                places[found["host"]] = text.evidence(found.start("list"))
            mine = hosts.setdefault(found["host"], {})
            for name, ip in listed.items():
                mine.setdefault(name, ip)
    return hosts, places
