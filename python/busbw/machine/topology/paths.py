"""How devices reach each other, worked out from the PCIe tree, NUMA nodes and NVLinks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from busbw.base.errors import UserError
from busbw.machine.topology.model import SWITCH, Connection, Gpu, Nic, PathType, normal_bus_id

MAX_DEVICES = 576  # as many as NCCL takes of one kind (NCCL_TOPO_MAX_NODES)


def connections(gpus: Sequence[Gpu], nics: Sequence[Nic]) -> tuple[Connection, ...]:
    """The connection of every pair of devices; UserError where there are more than any machine has."""
    if len(gpus) + len(nics) > MAX_DEVICES:
        raise UserError(f"{len(gpus)} GPUs and {len(nics)} NICs in one machine: no machine has more than {MAX_DEVICES}")
    links = {gpu.key: _Links.of(gpu) for gpu in gpus}
    found = [_joined(a, b, links) or pcie_between(a, b) for a, b in combinations(gpus, 2)]
    found += [pcie_between(gpu, nic) for gpu in gpus for nic in nics]
    found += [pcie_between(a, b) for a, b in combinations(nics, 2)]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Links:
    """The links of one GPU by target, read once: every pair of GPUs asks for them."""

    bus: str | None
    to: Mapping[str, int]

    @classmethod
    def of(cls, gpu: Gpu) -> _Links:
        counts: dict[str, int] = {}
        for link in gpu.nvlinks:
            target = link.target if link.target == SWITCH else normal_bus_id(link.target)
            counts[target] = counts.get(target, 0) + link.count
        return cls(normal_bus_id(gpu.bus_id) if gpu.bus_id else None, counts)

    def towards(self, other: _Links) -> int:
        return self.to.get(other.bus, 0) if other.bus else 0


def _joined(a: Gpu, b: Gpu, links: Mapping[str, _Links]) -> Connection | None:
    """The NVLinks that join two GPUs, directly or through a switch; None where there are none."""
    mine, theirs = links[a.key], links[b.key]
    there, back = mine.towards(theirs), theirs.towards(mine)
    count = (min(there, back) or max(there, back)) + min(mine.to.get(SWITCH, 0), theirs.to.get(SWITCH, 0))
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
