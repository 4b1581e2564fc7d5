"""Pairs of one node that a log shows on a detour: SHM or the network where P2P would do."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.capacity import loss, through_host_GBps
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.machine.nccl.log_model import Communicator, Transport

NAME = "slow-transport"


def examine(facts: Facts) -> Iterator[Finding]:
    if facts.whole("NCCL_P2P_DISABLE") == 1 or facts.value("NCCL_P2P_LEVEL"):
        return  # that is the reason, and a finding of its own
    linked = bool(facts.machine and facts.machine.all_nvlink)
    for log in facts.logs:
        largest = log.largest
        slow = [each for each in largest.transports if _is_detour(each, largest)] if largest else []
        if not slow:
            continue
        first = slow[0]
        factor = loss(facts.machine, through_host_GBps(facts.machine))
        over_net = first.kind == "NET"
        yield Finding(
            NAME,
            Severity.WARNING if linked or (over_net and not _share_gpus(largest)) else Severity.NOTE,
            f"{len(slow)} pairs of GPUs of one node talk over {first.kind}/{first.detail}",
            (Evidence(f"{first.sender} -> {first.receiver} via {first.kind}/{first.detail}", log.source, first.line),),
            Cost(f"about {factor:.0f} times less between them" if factor else "less than PCIe P2P would reach", factor),
            "check `nvidia-smi topo -p2p r`, ACS and IOMMU, and that all GPUs are visible to every process",
            Proof(set={"NCCL_P2P_LEVEL": "SYS"}),
        )


def _share_gpus(communicator: Communicator | None) -> bool:
    """Whether ranks of one host have the same GPU: NCCL takes them only where it is told that they are apart."""
    places = [(each.host, each.bus_id) for each in communicator.ranks if each.bus_id] if communicator else []
    return len(set(places)) < len(places)


def _is_detour(each: Transport, communicator: Communicator) -> bool:
    hosts = {place.rank: place.host for place in communicator.ranks}
    # Without the hosts' names in the log nobody knows which pairs the network joins; shared memory joins one host.
    same = bool(hosts.get(each.sender)) and hosts.get(each.sender) == hosts.get(each.receiver)
    return each.kind == "SHM" or (same and each.kind == "NET")
