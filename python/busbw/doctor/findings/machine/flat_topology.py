"""A virtual machine that shows GPUs and NICs without the switches above them: NCCL cannot pair them."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.signature import Stage
from busbw.machine.topology.audit import NEAR
from busbw.machine.topology.model import Gpu, Machine, Nic, PathType

NAME = "flat-topology"
FEW = 2
MANY = 4


def examine(facts: Facts) -> Iterator[Finding]:
    machine = facts.machine
    if machine is None or machine is not facts.snapshot.machine or facts.value("NCCL_TOPO_FILE"):
        return
    why = _flat(machine)
    if not why:
        return
    yield Finding(
        NAME, Severity.NOTE if facts.shows_job_without_network else Severity.WARNING,
        "the virtual machine hides the PCIe switches: all GPUs and NICs lie flat below one processor, so NCCL cannot "
        "pair them",
        tuple(Evidence(each, machine.source) for each in why),
        Cost("rings go through NICs that are far away, and GPU Direct RDMA may be off: often half between nodes"),
        "set NCCL_TOPO_FILE to the provider's topology file of this VM size on every node, or have the hypervisor show "
        "NUMA nodes and PCIe switches. `busbw topo --audit` writes such a file; NCCL_NET_GDR_LEVEL=SYS is worth a try",
        Proof(instruction="run on two nodes with and without NCCL_TOPO_FILE"),
        stage=Stage.SYSTEM,
    )  # fmt: skip


def _flat(machine: Machine) -> list[str]:
    """What shows it; nothing where some pair is near, or where a plain board looks so as well."""
    nics = [nic for nic in machine.nics if nic.rdma]
    if len(machine.gpus) < FEW or len(nics) < FEW:
        return []
    pairs = [machine.between(gpu.key, nic.key) for gpu in machine.gpus for nic in nics]
    paths = {pair.path for pair in pairs if pair is not None}
    if not paths or paths & NEAR or len(paths) > 1:
        return []
    path = next(iter(paths)).value
    devices: list[Gpu | Nic] = [*machine.gpus, *nics]
    if all(each.bridges for each in devices):
        bare = all(len(each.bridges) == 1 for each in devices)
        lost = [each for each in devices if each.numa is None or each.pcie.generation is None]
        if not bare or len(lost) < len(devices):
            return []
        return [
            f"{len(machine.gpus)} GPUs and {len(nics)} NICs, no switch above any of them, all paths {path}",
            "NUMA nodes or PCIe links are unknown",
        ]
    # A matrix alone: boards of so many GPUs and NICs have several host bridges, so that some pair is NODE or SYS.
    many = len(machine.gpus) >= MANY and len(nics) >= MANY
    if many and paths == {PathType.PHB}:
        return [f"all {len(pairs)} paths between GPUs and NICs are {path}"]
    return []
