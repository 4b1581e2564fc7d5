"""NVLinks that are down: inactive links, fewer than others or than the product has."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.machine.topology.model import Gpu, Machine
from busbw.machine.topology.names import product

NAME = "nvlinks-down"
_PROOF = Proof(instruction="reset the GPU or the fabric manager, then look at `nvidia-smi nvlink -s` and measure again")


def examine(facts: Facts) -> Iterator[Finding]:
    machine = facts.machine
    if machine is None:
        return
    most = max((gpu.nvlink_count for gpu in machine.gpus), default=0)
    for gpu in machine.gpus:
        wanted = max(most, gpu.nvlink_count + gpu.nvlinks_down, _of_product(gpu, most))
        if gpu.nvlink_count < wanted:
            yield _down(machine, gpu, wanted)


def _down(machine: Machine, gpu: Gpu, wanted: int) -> Finding:
    have = gpu.nvlink_count
    factor = wanted / have if have else None
    return Finding(
        NAME,
        Severity.ERROR,
        f"{gpu.key} has {have} of {wanted} NVLinks",
        (Evidence(f"{have} active, {wanted} expected of {gpu.name or 'it'}", f"{machine.source}: {gpu.bus_id}"),),
        Cost(
            f"rings of all GPUs slow down {factor:.2f} times" if factor else "all wait for this GPU, which uses PCIe",
            factor, "a ring is as fast as its slowest hop",
        ),
        "restart nvidia-fabricmanager, look at `nvidia-smi nvlink -s` and for Xid 74 in dmesg; replace what stays down",
        _PROOF,
    )  # fmt: skip


def _of_product(gpu: Gpu, most: int) -> int:
    """What the product has, where this machine uses NVLinks at all."""
    known = product(gpu.name)
    return known.nvlinks or 0 if known is not None and most else 0
