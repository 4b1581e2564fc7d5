"""Access control (ACS) that sends traffic between PCIe devices up to the root instead of across the switch."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.reached import reached
from busbw.doctor.reading.snapshot import SAVED
from busbw.machine.nccl.log_model import NcclLog

NAME = "acs"


def examine(facts: Facts) -> Iterator[Finding]:
    host = facts.snapshot.host
    if host is None or not host.acs_redirects:
        return
    # `lspci` alone shows neither NVLinks nor which of its devices a job uses.
    figure = _over_nvlink_alone(facts)
    matters = figure is None and (
        peer_to_peer_over_pcie(facts) or (facts.snapshot.source == SAVED and bool(facts.machine))
    )
    yield Finding(
        NAME,
        Severity.WARNING if matters else Severity.NOTE,
        f"ACS redirects traffic at {len(host.acs_redirects)} PCIe bridges",
        (
            *(Evidence("ACSCtl has ReqRedir+, CmpltRedir+ or UpstreamFwd+", each) for each in host.acs_redirects[:8]),
            *([figure] if figure else []),
        ),
        Cost(
            "transfers between devices below one switch, GPU Direct RDMA too, go over the processor, often at half rate"
            if matters
            else "none seen: no transfer here crosses a PCIe switch",
        ),
        "switch ACS off in the BIOS, or per bridge with setpci; hosts of virtual machines need it on",
        Proof(instruction="switch ACS off on one host and compare it with another"),
    )  # fmt: skip


def _over_nvlink_alone(facts: Facts) -> Evidence | None:
    """The figure of a table on one node that reaches what NVLink gives, where NCCL found no RDMA device to use."""
    machine = facts.machine
    if machine is None or not machine.all_nvlink or len(machine.gpus) < 2 or not facts.ran_on_one_node:
        return None
    if facts.has_rdma and not (facts.logs and all(not _uses_rdma(each) for each in facts.logs)):
        return None
    return reached(facts)


def _uses_rdma(log: NcclLog) -> bool:
    return log.network is None or log.network.text.lower() != "socket"


def peer_to_peer_over_pcie(facts: Facts) -> bool:
    """Whether transfers between devices of this machine use PCIe: RDMA devices, or GPUs without NVLinks."""
    machine = facts.machine
    return machine is not None and (facts.has_rdma or (len(machine.gpus) > 1 and not machine.all_nvlink))
