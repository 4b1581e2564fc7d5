"""A GPU or NIC that NCCL sees behind a PCIe link of few lanes, as its own topology in the log tells."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from busbw.base.secrets import shortened
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.signature import Stage

NAME = "pci-narrow"
_BRANCH = re.compile(
    r"(?:(?P<host>[\w.-]{1,80}):\d{1,10}:\d{1,10} )?.{0,60}NCCL INFO\s{1,40}\+ PCI\[(?P<rate>\d{1,3}\.\d{1,2})\] - "
    r"(?P<kind>GPU|NIC)/(?P<bus>[0-9A-Fa-f-]{1,20})(?: \((?P<rank>\d{1,5})\))?"
)
_NET = re.compile(r"\+ NET\[(?P<rate>\d{1,4}\.\d{1,2})\] - NET/(?:\d{1,2}-)?(?P<index>\d{1,3})\b")
_USING = re.compile(r"\[(?P<index>\d{1,3})\](?P<name>[a-z]\w{1,20}):\d{1,3}/")
FEW_LANES, ONE_LANE = 3.2, 1.6
"""GB/s as NCCL counts them: four lanes of PCIe 3.0, and one of PCIe 4.0."""
_APART = 3.0
_ALIKE = 3
"""So many devices of a host tell what is usual there."""


@dataclass
class _Device:
    """A GPU or NIC as NCCL's topology has it; `net` is the rate of the network behind a NIC, 0 where none is told."""

    rate: float
    who: str
    seen: Evidence
    net: float = 0.0
    name: str = ""


def examine(facts: Facts) -> Iterator[Finding]:
    """NCCL reads what a link can do at most, so that a GPU at rest is none of these."""
    hosts: dict[tuple[str, str], dict[str, _Device]] = defaultdict(dict)
    for shown in facts.shown:
        last: _Device | None = None
        names: dict[str, str] = {}
        for number, line in enumerate(shown.lines, 1):
            if " PCI[" in line:
                found = _BRANCH.search(line)
                last = None
                if found is not None:
                    seen = Evidence(shortened(line.strip(), 200), shown.source, number)
                    last = _Device(float(found["rate"]), found["rank"] or found["bus"], seen)
                    hosts[found["host"] or "", found["kind"]][found["bus"]] = last
            elif last is not None and " NET[" in line and (net := _NET.search(line)):
                last.net = max(last.net, float(net["rate"]))
                last.name = names.get(net["index"], "")
            elif "NET/IB : Using [" in line:
                names = {each["index"]: each["name"] for each in _USING.finditer(line)}
    for (host, kind), devices in hosts.items():
        best = max(each.rate for each in devices.values())
        for bus, each in devices.items():
            few = 0 < each.rate <= FEW_LANES
            if (few and (each.rate * _APART <= best or (kind == "GPU" and each.rate <= ONE_LANE))) or (
                each.rate > 0 and _stands_apart(each, kind, list(devices.values()))
            ):
                beside = each.name or (bus if bus != each.who else "")
                which = f"{kind} {each.who}" + (f" ({beside})" if beside else "") + (f" of {host}" if host else "")
                yield _finding(which, each.rate, best, each.seen)


def _stands_apart(one: _Device, kind: str, devices: Sequence[_Device]) -> bool:
    """Whether it is as the others of its host are, but for its link: GPUs are, and NICs whose ports are as fast."""
    alike = [each for each in devices if kind == "GPU" or each.net == one.net]
    usual = max(each.rate for each in alike)
    often = sum(each.rate == usual for each in alike)
    # A network slower than its own link loses nothing by it.
    held = kind == "GPU" or one.net >= _APART * one.rate
    return held and often >= _ALIKE and 4 * often >= 3 * len(alike) and one.rate * _APART <= usual


def _finding(which: str, rate: float, best: float, seen: Evidence) -> Finding:
    others = f", the others behind {best:g}" if best > rate else ""
    return Finding(
        NAME, Severity.WARNING,
        f"{which} lies behind a PCIe link of {rate:g} GB/s{others}: a slot or riser of few lanes, or a link that lost "
        "lanes",
        (seen,),
        Cost("a ring goes at the rate of its slowest link", best / rate if best > rate else None, "NCCL's topology"),
        "lspci -vv of it and of the port above: LnkSta beside LnkCap. Reseat card and riser, reboot so that it is "
        "trained again, or move it to a slot of 16 lanes (the BIOS's bifurcation). Until then leave it out "
        "(CUDA_VISIBLE_DEVICES, NCCL_IB_HCA)",
        Proof(instruction="run without that device, and compare"),
        stage=Stage.HARDWARE,
    )  # fmt: skip
