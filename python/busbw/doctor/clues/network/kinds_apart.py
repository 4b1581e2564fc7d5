"""Clues of hosts with ports of InfiniBand and of RoCE: their devices are numbered in another order on each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

USING = re.compile(
    r"(?<![\w.-])(?P<host>[A-Za-z][\w.-]{0,60}):\d{1,8}:\d{1,8} \[\d{1,3}\] NCCL INFO NET/IB ?: "
    r"Using (?P<ports>\[0\][^\n]{4,800})"
)
"""The ports that NCCL takes on a host, as it lists them itself."""
PORT = re.compile(r"\[(?P<at>\d{1,2})\](?P<dev>[\w.-]{2,40}):\d{1,2}/(?P<kind>IB|RoCE)\b")
_SAID = {"IB": "InfiniBand", "RoCE": "RoCE"}
_MOST = 400
_Ports = Mapping[int, tuple[str, str]]
"""Device and kind of each port, by its number."""


def kinds_apart(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Under one number two hosts have ports of different kinds, which no connection can join."""
    hosts: dict[str, tuple[_Ports, Evidence]] = {}
    for text in texts:
        for found in islice(USING.finditer(text.text), _MOST):
            ports = {int(each["at"]): (each["dev"], each["kind"]) for each in PORT.finditer(found["ports"])}
            hosts.setdefault(found["host"], (ports, text.evidence(found.start())))
    names = list(hosts)
    for one, other in ((a, b) for at, a in enumerate(names[:64]) for b in names[at + 1 : 64]):
        mine, theirs = hosts[one][0], hosts[other][0]
        apart = next((at for at in sorted(mine.keys() & theirs.keys()) if mine[at][1] != theirs[at][1]), None)
        if apart is None:
            continue
        (dev, kind), (their_dev, their_kind) = mine[apart], theirs[apart]
        which = (
            f"{named(dev, 30)} is {_SAID[kind]} on {named(one, 40)} and {_SAID[their_kind]} on {named(other, 40)}"
            if dev == their_dev
            else f"{named(dev, 30)} of {named(one, 40)} is {_SAID[kind]} and {named(their_dev, 30)} of "
            f"{named(other, 40)} {_SAID[their_kind]}"
        )
        return Sharper(
            f"NCCL joins a port of InfiniBand with one of RoCE, which is refused: {which}",
            _cure({one: mine, other: theirs}),
            (hosts[one][1], hosts[other][1]),
        )
    return None


def _cure(hosts: Mapping[str, _Ports]) -> str:
    """The ports of one kind by host; sockets where the hosts have none in common."""
    for kind, said in _SAID.items():
        of_kind = {host: [dev for dev, each in ports.values() if each == kind] for host, ports in hosts.items()}
        if all(of_kind.values()):
            by_host = ", ".join(
                f"NCCL_IB_HCA={named('=' + ','.join(devs[:8]), 80)} on {named(host, 40)}"
                for host, devs in of_kind.items()
            )
            return (
                f"name the ports of one kind on each host, in its /etc/nccl.conf: {by_host} ({said}). Or give "
                "devices the same names on all hosts (udev rules of rdma-core), then one value does. GID index, MTU, "
                "firewall and cables are not it"
            )
    return (
        "give all hosts ports of one kind, or join them by sockets (NCCL_IB_DISABLE=1): InfiniBand and RoCE do not "
        "speak with each other. GID index, MTU and cables are not it"
    )
