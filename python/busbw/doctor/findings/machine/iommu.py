"""An IOMMU that translates every address of the GPUs, in the way of transfers between PCIe devices."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.findings.machine.acs import peer_to_peer_over_pcie

NAME = "iommu"


def examine(facts: Facts) -> Iterator[Finding]:
    host = facts.snapshot.host
    if host is None or host.iommu != "translated":
        return
    matters = peer_to_peer_over_pcie(facts)
    yield Finding(
        NAME,
        Severity.WARNING if matters else Severity.NOTE,
        "the IOMMU translates the GPUs' addresses",
        (Evidence("the GPUs' groups are of a type other than identity", "/sys/kernel/iommu_groups"),),
        Cost("transfers between PCIe devices go up to the root and may hang" if matters else
             "none seen: GPUs here talk over NVLinks"),
        "boot with iommu=pt (intel_iommu=on iommu=pt, or amd_iommu=on iommu=pt), or switch it off on bare metal",
        Proof(instruction="boot one host with iommu=pt and compare it with another"),
    )  # fmt: skip
