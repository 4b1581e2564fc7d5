"""A GPU whose NIC is missing or down, while the others of its machine have theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.signature import Stage
from busbw.machine.topology.audit import NEAR
from busbw.machine.topology.model import Gpu, Machine, Nic
from busbw.machine.topology.port_rows import read_ports

NAME = "nic-missing"
LEAST = 4
"""GPUs of a machine in which each has a NIC of its own; smaller ones have any number."""
SHARE = 0.26
_OF_BOARDS = frozenset({8, 16})
_LOOK = 1 << 16
_CURE = (
    "check cable, transceiver and switch port of it (ibstat, mlxlink -d DEVICE). Until it is mended leave it out by "
    "NCCL_IB_HCA=^NAME"
)
_COST = Cost("that GPU sends through the NIC of another one, and all ranks go at the rate of the NIC that two share")


def examine(facts: Facts) -> Iterator[Finding]:
    machine = facts.machine
    severity = Severity.NOTE if facts.shows_job_without_network else Severity.WARNING
    yield from _in_listings(facts)
    if machine is None:
        return
    down = [nic for nic in machine.nics if nic.rdma and nic.up is False and _beside(machine, nic)]
    if down and not any("ib-port-down" in scan.hits for scan in facts.scans) and _others_work(machine, down):
        yield Finding(
            NAME, Severity.ERROR, f"the port of {', '.join(nic.name for nic in down[:4])} beside a GPU is down",
            tuple(Evidence(f"{nic.name} is down, next to {', '.join(_beside(machine, nic)[:4])}", machine.source)
                  for nic in down[:8]),
            _COST, _CURE, Proof(instruction="run with NCCL_IB_HCA=^NAME"), stage=Stage.NETWORK,
        )  # fmt: skip
        return
    fewer = _unbound(facts, machine)
    if fewer:
        yield Finding(
            NAME, severity, f"{fewer} of {facts.snapshot.listed_nics} RDMA cards in lspci has no device",
            (Evidence(f"{sum(map(_is_mlx, machine.nics))} RDMA devices (mlx5) are shown", machine.source),),
            _COST, "look in dmesg for mlx5_core of that bus (firmware that does not answer, a driver that failed). "
            "Cold reset the host, renew the card's firmware; mlxfwreset or replace it",
            Proof(instruction="compare lspci with ibdev2netdev after the reset"), stage=Stage.HARDWARE,
        )  # fmt: skip
        return
    lacking = _lacking(machine)
    if lacking:
        usual = max(len(near(machine, gpu)) for gpu in machine.gpus)
        keys = ", ".join(gpu.key for gpu in lacking)
        yield Finding(
            NAME, severity,
            f"a NIC is missing: {keys} has {len(near(machine, lacking[0])) or 'none'} near it, other GPUs {usual}",
            tuple(Evidence(f"{gpu.key}: {', '.join(near(machine, gpu)) or 'no PIX or PXB to any NIC'}", machine.source)
                  for gpu in lacking[:8]),
            _COST,
            "look for the NIC with lspci and dmesg (mlx5_core). Reseat the card or its riser, look at firmware and "
            "BIOS slot, and at whether a container or VM was given it",
            Proof(instruction="compare lspci and ibdev2netdev with a machine of the same model"), stage=Stage.HARDWARE,
        )  # fmt: skip


def _in_listings(facts: Facts) -> Iterator[Finding]:
    """The one port of a board that `ibdev2netdev` calls down, where no matrix says which of them lie beside GPUs."""
    if facts.snapshot.machine is not None:
        return
    for log in facts.snapshot.logs:
        if log.text is None or " ==> " not in log.text[:_LOOK] or "CA '" in log.text[:_LOOK]:
            continue
        ports = list(read_ports(log.text.split("\n")).values())
        down = [each for each in ports if each.up is False]
        if len(ports) in _OF_BOARDS and len(down) == 1:
            yield Finding(
                NAME, Severity.ERROR, f"the port of {down[0].name} is down, the {len(ports) - 1} others are up",
                (Evidence(f"{down[0].name} is down", log.path, down[0].line),), _COST, _CURE,
                Proof(instruction="run with NCCL_IB_HCA=^NAME"), stage=Stage.NETWORK,
            )  # fmt: skip


def _unbound(facts: Facts, machine: Machine) -> int:
    """How many cards of the listing are no RDMA device; bonds of ports hide some, and containers most."""
    listed, shown = facts.snapshot.listed_nics or 0, [nic for nic in machine.nics if _is_mlx(nic)]
    if not shown or any("bond" in nic.name for nic in machine.nics):
        return 0
    return listed - len(shown) if 0 < listed - len(shown) <= len(shown) // 3 else 0


def _is_mlx(nic: Nic) -> bool:
    return nic.rdma and nic.name.startswith(("mlx5_", "roce", "ibp", "rdma"))


def near(machine: Machine, gpu: Gpu) -> list[str]:
    """Names of the RDMA devices below one switch with that GPU."""
    return [nic.name for nic in machine.nics if nic.rdma and _is_near(machine, gpu, nic)]


def _is_near(machine: Machine, gpu: Gpu, nic: Nic) -> bool:
    pair = machine.between(gpu.key, nic.key)
    return pair is not None and pair.path in NEAR


def _beside(machine: Machine, nic: Nic) -> list[str]:
    return [gpu.key for gpu in machine.gpus if _is_near(machine, gpu, nic)]


def _others_work(machine: Machine, down: list[Nic]) -> bool:
    """Whether most ports beside GPUs are up: of cards with two ports the second is often free."""
    beside = [nic for nic in machine.nics if nic.rdma and _beside(machine, nic)]
    alone = [nic for nic in down if not any(
        other.up and set(_beside(machine, other)) & set(_beside(machine, nic)) for other in beside
    )]  # fmt: skip
    return bool(alone) and 2 * len(down) <= len(beside)


def _lacking(machine: Machine) -> list[Gpu]:
    """The few GPUs that have fewer NICs near them than all others have alike."""
    if len(machine.gpus) < LEAST:
        return []
    counts = {gpu.key: len(near(machine, gpu)) for gpu in machine.gpus}
    usual, often = Counter(counts.values()).most_common(1)[0]
    fewer = [gpu for gpu in machine.gpus if counts[gpu.key] < usual]
    alike = often + len(fewer) == len(counts)
    return fewer if fewer and alike and len(fewer) <= SHARE * len(counts) else []
