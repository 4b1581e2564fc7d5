"""InfiniBand or RoCE switched off, by NCCL_IB_DISABLE or NCCL_NET=Socket, although the machine has it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Severity
from busbw.doctor.remedy import evidence, removal, without
from busbw.machine.nccl.conf import Setting
from busbw.machine.topology.model import Nic

NAME = "ib-disabled"
_RENTED_WITHOUT = re.compile(r"\b(?:L4|T4|A10G|A2|M60|K80|P4)\b")
"""Source: the GPUs of AWS' g4 to g6, Google's g2 and n1, and Azure's NVadsA10 and NCasT4 machines."""


def examine(facts: Facts) -> Iterator[Finding]:
    setting = _off(facts)
    if setting is None:
        return
    joined = _one_domain(facts)
    spread = facts.several_nodes or _through_sockets(facts)
    matters = not joined and (facts.has_rdma or (spread and not _without_rdma(facts)))
    proofs = [evidence(setting)]
    if facts.machine is not None:
        rdma = [nic for nic in facts.machine.nics if nic.rdma][:8]
        proofs += [Evidence(f"{nic.name}: {_rate(nic)}", facts.machine.source) for nic in rdma]
    yield Finding(
        NAME,
        Severity.WARNING if matters else Severity.NOTE,
        f"{setting.name}={setting.value}: RDMA is switched off" + ("" if matters else ", and none is missed here"),
        tuple(proofs),
        Cost("between nodes everything goes through sockets: often 5 to 20 times less, and no GPU Direct" if matters
             else "none while NVLink joins all ranks: NCCL counts their hosts as one node" if joined
             else "none on machines without RDMA NICs: sockets are all that their nodes have" if spread
             else "none on one node"),
        removal(setting),
        without(setting),
    )  # fmt: skip


def _off(facts: Facts) -> Setting | None:
    if facts.whole("NCCL_IB_DISABLE") == 1:
        return facts.settings["NCCL_IB_DISABLE"]
    net = facts.settings.get("NCCL_NET")
    return net if net is not None and net.value.strip().lower() == "socket" else None


def _without_rdma(facts: Facts) -> bool:
    """Whether all GPUs of the tables are of cards that clouds rent without RDMA NICs."""
    names = [rank.device.name or "" for each in facts.records for rank in each.run.ranks if rank.device]
    return bool(names) and all(map(_RENTED_WITHOUT.search, names))


def _one_domain(facts: Facts) -> bool:
    """Whether NCCL counts hosts that NVLink joins as one node in every communicator, and no table has more ranks."""
    sizes = [(each.nnodes, each.nranks or 0) for log in facts.logs for each in log.communicators if each.nnodes]
    hosts = max((len({rank.host for rank in each.run.ranks}) for each in facts.records), default=0)
    if hosts < 2 or not sizes or any(nodes != 1 for nodes, _ in sizes):
        return False
    most = max(size for _, size in sizes)
    return all(len(each.run.ranks) <= most for each in facts.records) and not _through_sockets(facts)


def _through_sockets(facts: Facts) -> bool:
    """Whether ranks talk through sockets, and no log shows that they all are on one node."""
    if facts.ran_on_one_node:
        return False
    communicators = (each for log in facts.logs for each in log.communicators)
    return any(each.detail.lower() == "socket" for comm in communicators for each in comm.transports)


def _rate(nic: Nic) -> str:
    return f"RDMA at {nic.speed_Gbps:g} Gb/s" if nic.speed_Gbps else "an RDMA device"
