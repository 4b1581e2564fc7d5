"""Which processors lie next to each GPU of a node: from `nvidia-smi topo -m`, NCCL's topology XML, or sysfs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.parsers import expat

from busbw.errors import UserError

MOST_BYTES = 8 << 20
MOST_CPUS = 1 << 14
_DEEPEST = 64
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
    try:
        with path.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError as problem:
        raise UserError(f"the topology {path} cannot be read: {problem.strerror or problem}") from None
    if len(data) > MOST_BYTES:
        raise UserError(f"the topology {path} is larger than {MOST_BYTES >> 20} MiB; it is hardly one")
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
            gpus.append(Near(parse_cpu_list(lists[0] if lists else ""), parse_cpu_list(lists[1] if lists[1:] else "")))
    return gpus


def from_xml(data: bytes, where: str) -> list[Near]:
    """NCCL's topology: each <cpu> with the mask of its processors and GPUs below it, in the order of their bus ids."""
    reader = _TopologyReader()
    parser = expat.ParserCreate()
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.EntityDeclHandler = _refuse_entities
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError) as problem:
        raise UserError(f"the topology {where} is no XML of NCCL's: {problem}") from None
    return [near for _, near in sorted(reader.gpus, key=lambda found: found[0])]


class _TopologyReader:
    """Collects GPUs while expat walks the file; depth is bounded, entities never expand."""

    def __init__(self) -> None:
        self.gpus: list[tuple[tuple[int, str], Near]] = []
        self._cpu = Near()
        self._depth = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError(f"more than {_DEEPEST} elements inside each other")
        if name == "cpu":
            node = attributes.get("numaid", "-1")
            numa = frozenset({int(node)}) if node.isdigit() and int(node) < MOST_CPUS else frozenset[int]()
            self._cpu = Near(parse_mask(attributes.get("affinity", "")), numa)
        elif name == "pci" and attributes.get("class", "")[:6] in _GPU_CLASSES:
            self.gpus.append(((0, attributes.get("busid", "").lower()), self._cpu))
        elif name == "gpu" and self.gpus and attributes.get("dev", "").isdigit():
            (_, bus), near = self.gpus[-1]
            self.gpus[-1] = ((int(attributes["dev"]), bus), near)

    def end(self, _name: str) -> None:
        self._depth -= 1


def _refuse_entities(*_: object) -> None:
    raise ValueError("it declares entities, which no topology needs")


def from_sysfs(devices: Path = Path("/sys/bus/pci/devices")) -> list[Near]:
    """The NVIDIA GPUs of this machine in the order of their bus ids; empty where there are none."""
    read: Callable[[Path], str] = _text
    return [
        Near(parse_cpu_list(read(folder / "local_cpulist")), parse_cpu_list(read(folder / "numa_node")))
        for folder in sorted(devices.glob("*"))
        if read(folder / "vendor") == NVIDIA and read(folder / "class")[:6] in _GPU_CLASSES
    ]


def parse_cpu_list(text: str) -> frozenset[int]:
    """`0-3,8`; anything else (N/A, -1) says nothing."""
    numbers: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part.strip())
        if not found or int(found[2] or found[1]) >= MOST_CPUS:
            return frozenset()
        numbers.update(range(int(found[1]), int(found[2] or found[1]) + 1))
    return frozenset(numbers)


def parse_mask(text: str) -> frozenset[int]:
    """`00000000,0000ffff,ff000000`, as the kernel writes masks: 32 bits a group, the highest first."""
    if not re.fullmatch(r"[0-9A-Fa-f]{1,8}(,[0-9A-Fa-f]{8})*", text) or len(text) > MOST_CPUS // 3:
        return frozenset()
    bits = int(text.replace(",", ""), 16)
    return frozenset(cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
