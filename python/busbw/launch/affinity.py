"""Which processors lie next to each GPU of a node: from `nvidia-smi topo -m`, NCCL's topology XML, or sysfs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from busbw.base.errors import UserError
from busbw.base.files import read_bytes
from busbw.machine.topology.cpulist import read_list

MOST_BYTES = 8 << 20
_GPU_CLASSES = ("0x0300", "0x0302")
NVIDIA = "0x10de"


@dataclass(frozen=True)
class Near:
    """What a source says of one GPU: processors, and nodes of memory; empty where it says nothing."""

    cpus: frozenset[int] = frozenset()
    numa: frozenset[int] = frozenset()


def cpu_sets(gpus: Sequence[Near], ranks: int, cpus: int) -> tuple[frozenset[int], ...]:
    """Processors of each local rank, one GPU each in order; those that share processors get equal neighbouring parts.

    `cpus` is how many the node has.
    """
    if not gpus:
        return ()
    near = [believable(gpus[rank % len(gpus)], gpus, cpus) for rank in range(ranks)]
    return tuple(_part(near, rank) for rank in range(ranks))


def believable(gpu: Near, gpus: Sequence[Near], cpus: int) -> frozenset[int]:
    """The processors next to a GPU; the nodes of memory decide where both columns contradict each other.

    Virtual machines of Azure's NCv4 series show `CPU Affinity 0, NUMA Affinity 0-3` for 96 processors: four nodes of
    memory cannot have one processor.
    """
    everything = frozenset(range(cpus))
    nodes = 1 + max((node for each in gpus for node in each.numa), default=0)
    expected = cpus * len(gpu.numa) // nodes
    if gpu.cpus and not (gpu.numa and len(gpu.cpus) < expected // 2):
        return gpu.cpus & everything or gpu.cpus
    if gpu.numa:
        return frozenset(cpu for node in gpu.numa for cpu in range(node * cpus // nodes, (node + 1) * cpus // nodes))
    return everything


def _part(near: Sequence[frozenset[int]], rank: int) -> frozenset[int]:
    sharing = [other for other, cpus in enumerate(near) if cpus == near[rank]]
    mine, count, cpus = sharing.index(rank), len(sharing), sorted(near[rank])
    if count > len(cpus):
        return frozenset(cpus)
    return frozenset(cpus[mine * len(cpus) // count : (mine + 1) * len(cpus) // count])


# --- sources -----------------------------------------------------------------------------------------------------


def read_file(path: Path) -> list[Near]:
    """A file of `nvidia-smi topo -m` or of NCCL's topology, told apart by their first character."""
    data = read_bytes(path, MOST_BYTES, what="the topology", hint="it is hardly one")
    found = from_xml(data, str(path)) if data.lstrip()[:1] == b"<" else from_smi(data.decode(errors="replace"))
    if not found:
        raise UserError(f"{path} names no GPU; it should hold `nvidia-smi topo -m` or what NCCL_TOPO_DUMP_FILE wrote")
    return found


def from_smi(text: str) -> list[Near]:
    """The matrix of `nvidia-smi topo -m`. Its cells are split by tabs, or by blanks where it was copied from a page."""
    columns: list[str] = []
    gpus: list[Near] = []
    for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines():
        cells = line.split()
        if "CPU Affinity" in line:
            columns = line[: line.index("CPU Affinity")].split()
        elif columns and cells and re.fullmatch(r"GPU\d+", cells[0]):
            lists = cells[1 + len(columns) :]
            gpus.append(Near(_numbers(lists[0] if lists else ""), _numbers(lists[1] if lists[1:] else "")))
    return gpus


def from_xml(data: bytes, where: str) -> list[Near]:
    """NCCL's topology (or `nvidia-smi -q -x`), its GPUs in the order of their bus ids, as the driver numbers them."""
    from busbw.machine.topology.load import from_bytes

    gpus = sorted(from_bytes(data, where).machine.gpus, key=lambda gpu: (gpu.bus_id or "", gpu.index))
    return [Near(frozenset(gpu.cpus), frozenset(() if gpu.numa is None else (gpu.numa,))) for gpu in gpus]


def from_sysfs(devices: Path = Path("/sys/bus/pci/devices")) -> list[Near]:
    """The NVIDIA GPUs of this machine in the order of their bus ids; empty where there are none."""
    read: Callable[[Path], str] = _text
    return [
        Near(_numbers(read(folder / "local_cpulist")), _numbers(read(folder / "numa_node")))
        for folder in sorted(devices.glob("*"))
        if read(folder / "vendor") == NVIDIA and read(folder / "class")[:6] in _GPU_CLASSES
    ]


def _numbers(text: str) -> frozenset[int]:
    return frozenset(read_list(text))


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
