"""RDMA devices that lie on another socket than every GPU: GPU Direct RDMA is off by distance."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.base.secrets import shortened
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.near_nics import FarChoice, chosen_far
from busbw.doctor.remedy import evidence, without
from busbw.doctor.signature import Stage
from busbw.machine.nccl.log_model import NcclLog
from busbw.machine.topology.model import Machine, PathType

NAME = "nic-far"
_COST = Cost(
    "often half of the bandwidth between nodes or less: every byte crosses the link between sockets and host memory",
    None,
    "NCCL uses GPU Direct RDMA only up to a distance (NCCL_NET_GDR_LEVEL)",
)
_CURE = (
    "move the NIC to a slot below the GPUs' socket or PCIe switch, or add one there. Until then try "
    "NCCL_NET_GDR_LEVEL=SYS, and measure: over two sockets it may be slower"
)


def examine(facts: Facts) -> Iterator[Finding]:
    if (far := chosen_far(facts)) is not None:
        yield _of_choice(facts, far)
        return
    told = [(log, log.gdr["too far"]) for log in facts.logs if by_distance(log)]
    said = [Evidence(each.text, log.source, each.line) for log, each in told]
    machine = facts.machine
    if machine is not None and (nics := apart(machine)):
        yield Finding(
            NAME, Severity.NOTE if facts.shows_job_without_network and not said else Severity.WARNING,
            f"no GPU lies on the socket of the NIC{'s' * (len(nics) > 1)} {', '.join(nics[:4])}: all paths are SYS",
            (Evidence(f"SYS from {len(machine.gpus)} GPUs to {', '.join(nics[:8])}", machine.source), *said[:2]),
            _COST, _CURE, Proof(set={"NCCL_NET_GDR_LEVEL": "SYS"}), stage=Stage.SYSTEM,
        )  # fmt: skip
    elif said and (file := facts.value("NCCL_TOPO_FILE")) is not None:
        yield Finding(
            NAME, Severity.WARNING, f"by NCCL_TOPO_FILE={shortened(file, 80)} GPUs and NICs lie too far apart: no GPU "
            "Direct RDMA",
            tuple(said[:4]), _COST,
            "take the provider's topology file for this type of machine, or unset NCCL_TOPO_FILE; "
            "NCCL_TOPO_DUMP_FILE=topo.xml and `busbw topo topo.xml` show what NCCL makes of it",
            Proof(unset=("NCCL_TOPO_FILE",)), stage=Stage.SYSTEM,
        )  # fmt: skip
    elif said and not _is_hidden(facts):
        yield Finding(
            NAME, Severity.WARNING, "GPU and NIC lie too far apart for GPU Direct RDMA: NCCL leaves it off by distance",
            tuple(said[:4]), _COST, _CURE, Proof(set={"NCCL_NET_GDR_LEVEL": "SYS"}), stage=Stage.SYSTEM,
        )  # fmt: skip


def _of_choice(facts: Facts, choice: FarChoice) -> Finding:
    setting, machine = facts.settings["NCCL_IB_HCA"], facts.machine
    far, near = ",".join(choice.far[:8]), ",".join(choice.near[:8])
    gpus = choice.gpus[0] + (f" to {choice.gpus[-1]}" if len(choice.gpus) > 1 else "")
    direct = [(log.source, pair) for log in facts.logs if log.largest for pair in log.largest.transports
              if pair.kind == "NET" and not pair.gdr]  # fmt: skip
    said = [Evidence(f"{pair.sender} -> {pair.receiver} over NET/{pair.detail} without GDRDMA", source, pair.line)
            for source, pair in direct[:1]]  # fmt: skip
    return Finding(
        NAME, Severity.NOTE if facts.ran_on_one_node else Severity.WARNING,
        f"NCCL_IB_HCA takes {far}, which lie on another socket than the GPUs in use ({gpus}: SYS); {near} are beside "
        "them",
        (evidence(setting), Evidence(f"SYS from {gpus} to {far}, nearer to {near}",
                                     machine.source if machine else ""), *said),
        _COST, f"NCCL_IB_HCA={near} on all hosts, or leave it unset: NCCL takes the NICs nearest to its GPUs",
        without(setting), stage=Stage.SYSTEM,
    )  # fmt: skip


def _is_hidden(facts: Facts) -> bool:
    """Whether a virtual machine hides where devices lie, so that NCCL counts all as far: told as that."""
    hits = [scan.hits["topology-hidden"] for scan in facts.scans if "topology-hidden" in scan.hits]
    return any(name == "hidden" for hit in hits for each in hit.groups for name, _ in each)


def apart(machine: Machine) -> list[str]:
    """The RDMA devices where each of them is beyond a socket for each GPU; none where one GPU has one nearer."""
    nics = [nic for nic in machine.nics if nic.rdma]
    pairs = [machine.between(gpu.key, nic.key) for gpu in machine.gpus for nic in nics]
    known = [pair for pair in pairs if pair is not None]
    if not known or any(pair.path is not PathType.SYS for pair in known):
        return []
    return [nic.name for nic in nics if machine.between(machine.gpus[0].key, nic.key) is not None]


def by_distance(log: NcclLog) -> bool:
    """Whether NCCL said that a pair is too far apart, uses no GPU Direct RDMA over the network, and could."""
    if "too far" not in log.gdr or ("disabled" in log.gdr and "enabled" not in log.gdr):
        return False
    pairs = [each for each in (log.largest.transports if log.largest else ()) if each.kind == "NET"]
    return bool(pairs) and not any(each.gdr for each in pairs)
