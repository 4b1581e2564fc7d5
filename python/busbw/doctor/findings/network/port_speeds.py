"""RDMA ports near GPUs that run at different rates: rings over hosts go at the rate of the slowest."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.signature import Stage
from busbw.machine.topology.rails import own_port, rails

NAME = "port-speeds"
_CURE = (
    "look at cable, transceiver and switch port of the slow one (mlxlink -d DEVICE, ibstat). A link may have "
    "trained at a lower rate or with fewer lanes. Until it is mended leave it out by NCCL_IB_HCA=^NAME"
)


def examine(facts: Facts) -> Iterator[Finding]:
    machine = facts.machine
    if machine is None:
        return
    # A GPU without a port of its own says nothing: hosts have fewer ports than GPUs by design.
    slow = rails(machine).slow
    if not slow:
        return
    own = {gpu.key: port for gpu in machine.gpus if (port := own_port(machine, gpu)) is not None}
    rates = {port.name: port.speed_Gbps or 0.0 for port in own.values()}
    usual = rails(machine, whole=True).Gbps
    faster = " and more" if max(rates.values()) > usual else ""
    lowest = min(port.speed_Gbps or 0.0 for port in slow)
    yield Finding(
        NAME,
        Severity.WARNING,
        f"{len(slow)} of {len(rates)} RDMA ports beside GPUs run at {lowest:g} Gb/s, "
        f"the others at {usual:g} Gb/s{faster}",
        tuple(
            Evidence(
                f"{port.name}: {port.speed_Gbps:g} Gb/s, nearest to "
                + ", ".join(key for key, each in own.items() if each is port),
                machine.source,
            )
            for port in slow[:8]
        ),
        Cost(
            "NCCL gives each port its channels, and all go at the rate of the slowest",
            usual / lowest if lowest else None,
            "from the ports' rates",
        ),
        _CURE,
        Proof(instruction="ib_write_bw over that port and over another one, then a run with NCCL_IB_HCA=^NAME"),
        stage=Stage.NETWORK,
    )
