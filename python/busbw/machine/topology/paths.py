"""How devices reach each other, worked out from the PCIe tree, NUMA nodes and NVLinks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from busbw.base.errors import UserError
from busbw.machine.topology.model import SWITCH, Connection, Gpu, Nic, PathType, normal_bus_id

MAX_DEVICES = 576  # as many as NCCL takes of one kind (NCCL_TOPO_MAX_NODES)


def connections(gpus: Sequence[Gpu], nics: Sequence[Nic]) -> tuple[Connection, ...]:
    """The connection of every pair of devices; UserError where there are more than any machine has."""
    if len(gpus) + len(nics) > MAX_DEVICES:
        raise UserError(f"{len(gpus)} GPUs and {len(nics)} NICs in one machine: no machine has more than {MAX_DEVICES}")
    found = [nvlink_between(a, b) or pcie_between(a, b) for a, b in combinations(gpus, 2)]
    found += [pcie_between(gpu, nic) for gpu in gpus for nic in nics]
    found += [pcie_between(a, b) for a, b in combinations(nics, 2)]
    return tuple(found)


def nvlink_between(a: Gpu, b: Gpu) -> Connection | None:
    """The NVLinks that join two GPUs, directly or through a switch; None where there are none."""
    direct = min(_links_to(a, b), _links_to(b, a)) or max(_links_to(a, b), _links_to(b, a))
    through = min(_links_to_switch(a), _links_to_switch(b))
    count = direct + through
    return Connection(a.key, b.key, PathType.NVLINK, count) if count else None


def pcie_between(a: Gpu | Nic, b: Gpu | Nic) -> Connection:
    """The way over PCIe; SYS where nothing is known of either place, as NCCL assumes."""
    return Connection(a.key, b.key, _pcie_path(a, b))


def _pcie_path(a: Gpu | Nic, b: Gpu | Nic) -> PathType:
    if not a.bridges or not b.bridges:
        return PathType.SYS
    if a.bridges[0] != b.bridges[0]:
        known = a.numa is not None and b.numa is not None
        return PathType.NODE if known and a.numa == b.numa else PathType.SYS
    common = 0
    for left, right in zip(a.bridges, b.bridges, strict=False):
        if left != right:
            break
        common += 1
    if common < 2:
        return PathType.PHB
    return PathType.PIX if max(len(a.bridges), len(b.bridges)) == common else PathType.PXB


def _links_to(a: Gpu, b: Gpu) -> int:
    if b.bus_id is None:
        return 0
    return sum(link.count for link in a.nvlinks if normal_bus_id(link.target) == normal_bus_id(b.bus_id))


def _links_to_switch(gpu: Gpu) -> int:
    return sum(link.count for link in gpu.nvlinks if link.target == SWITCH)
