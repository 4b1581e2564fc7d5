"""A GPU or NIC that NCCL sees behind a PCIe link of few lanes, as its own topology in the log tells."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from busbw.base.secrets import shortened
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.signature import Stage

NAME = "pci-narrow"
_BRANCH = re.compile(
    r"(?:(?P<host>[\w.-]{1,80}):\d{1,10}:\d{1,10} )?.{0,60}NCCL INFO\s{1,40}\+ PCI\[(?P<rate>\d{1,3}\.\d{1,2})\] - "
    r"(?P<kind>GPU|NIC)/(?P<bus>[0-9A-Fa-f-]{1,20})(?: \((?P<rank>\d{1,5})\))?"
)
FEW_LANES, ONE_LANE = 3.2, 1.6
"""GB/s as NCCL counts them: four lanes of PCIe 3.0, and one of PCIe 4.0."""
_APART = 3.0


def examine(facts: Facts) -> Iterator[Finding]:
    """NCCL reads what a link can do at most, so that a GPU at rest is none of these."""
    hosts: dict[tuple[str, str], dict[str, tuple[float, str, Evidence]]] = defaultdict(dict)
    for shown in facts.shown:
        for number, line in enumerate(shown.lines, 1):
            if " PCI[" in line and (found := _BRANCH.search(line)):
                seen = Evidence(shortened(line.strip(), 200), shown.source, number)
                who = found["rank"] or found["bus"]
                hosts[found["host"] or "", found["kind"]][found["bus"]] = float(found["rate"]), who, seen
    for (_, kind), devices in hosts.items():
        best = max(rate for rate, _, _ in devices.values())
        for bus, (rate, who, seen) in devices.items():
            if 0 < rate <= FEW_LANES and (rate * _APART <= best or (kind == "GPU" and rate <= ONE_LANE)):
                yield _finding(f"{kind} {who}" + (f" ({bus})" if bus != who else ""), rate, best, seen)


def _finding(which: str, rate: float, best: float, seen: Evidence) -> Finding:
    others = f", the others behind {best:g}" if best > rate else ""
    return Finding(
        NAME, Severity.WARNING,
        f"{which} lies behind a PCIe link of {rate:g} GB/s{others}: a slot or riser of few lanes",
        (seen,),
        Cost("a ring goes at the rate of its slowest link", best / rate if best > rate else None, "NCCL's topology"),
        "move the card to a slot of 16 or 8 lanes, or take a proper riser (lspci -vv: LnkSta beside LnkCap; the BIOS's "
        "bifurcation). Until then leave it out (CUDA_VISIBLE_DEVICES, NCCL_IB_HCA)",
        Proof(instruction="run without that device, and compare"),
        stage=Stage.HARDWARE,
    )  # fmt: skip
