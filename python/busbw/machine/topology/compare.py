"""Where a drawn machine (a topology file) differs from the real one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from busbw.machine.topology.model import Gpu, Machine, normal_bus_id


@dataclass(frozen=True, slots=True)
class Difference:
    """One sentence, and the bus id that it is about where the drawing has it."""

    text: str
    bus_id: str | None = None


def differences(drawn: Machine, real: Machine) -> tuple[Difference, ...]:
    """What does not fit; nothing where either side does not say at which buses its GPUs are."""
    present = sorted(normal_bus_id(gpu.bus_id) for gpu in real.gpus if gpu.bus_id)
    if not present or not any(gpu.bus_id for gpu in drawn.gpus):
        return ()
    return (*_gpus(drawn, real, present), *_nics(drawn, real))


def _gpus(drawn: Machine, real: Machine, present: list[str]) -> Iterator[Difference]:
    for gpu in drawn.gpus:
        bus = normal_bus_id(gpu.bus_id or "")
        if bus not in present:
            yield Difference(f"a GPU at {bus}; {real.source} has {', '.join(present[:8])}", bus)
    for gpu in real.gpus:
        twin = drawn.gpu(gpu.bus_id or "")
        if twin is None:
            yield Difference(f"no GPU at {gpu.bus_id}, where {real.source} has {gpu.key}")
        else:
            yield from _gpu(twin, gpu)


def _gpu(drawn: Gpu, real: Gpu) -> Iterator[Difference]:
    # Files made for a kind of virtual machine leave NVLinks, compute capability and NUMA nodes to NCCL.
    if drawn.nvlinks and drawn.nvlink_count != real.nvlink_count:
        yield Difference(f"{drawn.nvlink_count} NVLinks, {real.key} has {real.nvlink_count}", drawn.bus_id)
    if drawn.sm and real.sm and drawn.sm != real.sm:
        yield Difference(f"compute capability {drawn.sm / 10}, {real.key} has {real.sm / 10}", drawn.bus_id)
    if drawn.numa is not None and real.numa is not None and drawn.numa != real.numa:
        yield Difference(f"NUMA node {drawn.numa}, {real.key} is on {real.numa}", drawn.bus_id)


def _nics(drawn: Machine, real: Machine) -> Iterator[Difference]:
    present = {normal_bus_id(nic.bus_id) for nic in real.nics if nic.bus_id}
    if not present:
        return
    for nic in drawn.nics:
        bus = normal_bus_id(nic.bus_id) if nic.bus_id else None
        if bus and nic.rdma and bus not in present:
            yield Difference(f"an RDMA device at {bus}, which {real.source} does not have", bus)
