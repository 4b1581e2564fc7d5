"""A machine as immutable values: every rate is GB/s (1e9 bytes) in one direction; None means that nobody said."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from busbw.machine.topology.rates import NVLINK_GBPS, nvlink_generation, pcie_GBps

SWITCH = "nvswitch"
"""Target of NVLinks that end in an NVSwitch, through which every GPU of the machine reaches every other."""


class PathType(Enum):
    """How two devices reach each other, nearest first, in the words of `nvidia-smi topo -m`."""

    SELF = "X"
    NVLINK = "NV"
    PIX = "PIX"
    PXB = "PXB"
    PHB = "PHB"
    NODE = "NODE"
    SYS = "SYS"

    @property
    def distance(self) -> int:
        """0 for the device itself, growing with the distance."""
        return list(PathType).index(self)

    @property
    def meaning(self) -> str:
        """The legend of the matrix."""
        return _MEANING[self]


_MEANING = {
    PathType.SELF: "the device itself",
    PathType.NVLINK: "a bonded set of # NVLinks",
    PathType.PIX: "at most one PCIe bridge",
    PathType.PXB: "several PCIe bridges, but no host bridge",
    PathType.PHB: "a PCIe host bridge (the processor)",
    PathType.NODE: "the interconnect between host bridges of one NUMA node",
    PathType.SYS: "the interconnect between NUMA nodes (UPI, Infinity Fabric)",
}


@dataclass(frozen=True, slots=True)
class PcieLink:
    """A PCIe link as it runs now and as it could run at most."""

    generation: int | None = None
    width: int | None = None
    max_generation: int | None = None
    max_width: int | None = None

    @property
    def GBps(self) -> float | None:
        """Line rate now, GB/s in one direction."""
        return pcie_GBps(self.generation, self.width)

    @property
    def max_GBps(self) -> float | None:
        """Line rate at most, GB/s in one direction."""
        return pcie_GBps(self.max_generation, self.max_width)


@dataclass(frozen=True, slots=True)
class NvLinks:
    """The active NVLinks of one GPU to one target: the bus id of a peer, or SWITCH."""

    target: str
    count: int
    generation: int | None = None

    @property
    def GBps(self) -> float | None:
        """Line rate of all of them together, GB/s in one direction."""
        rate = NVLINK_GBPS.get(self.generation) if self.generation is not None else None
        return rate * self.count if rate is not None else None


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. `index` is NVML's; `sm` the compute capability times ten (A100: 80, H200: 90).

    `bridges` names the host bridge and then every PCIe switch on the way to it; `target` of an NVLink that ends in no
    other GPU is SWITCH.
    """

    index: int
    bus_id: str | None = None
    name: str | None = None
    sm: int | None = None
    rank: int | None = None
    numa: int | None = None
    cpus: tuple[int, ...] = ()
    pcie: PcieLink = PcieLink()
    bridges: tuple[str, ...] = ()
    nvlinks: tuple[NvLinks, ...] = ()
    nvlinks_down: int = 0
    gdr: bool | None = None
    nvlinks_to_itself: int = 0
    """NVLinks that say they end in this very GPU: a hypervisor hides the peer, and NCCL finds none."""
    c2c: bool = False
    """Joined with its processor by NVLink-C2C (Grace): NCCL then reaches NICs over the processor with GPU Direct."""

    @property
    def key(self) -> str:
        """Its name in the matrix."""
        return f"GPU{self.index}"

    @property
    def nvlink_count(self) -> int:
        """Active NVLinks to all targets."""
        return sum(link.count for link in self.nvlinks)

    @property
    def nvlink_GBps(self) -> float | None:
        """Line rate of all active NVLinks, GB/s in one direction."""
        rates = [link.GBps for link in self.nvlinks]
        return sum(rate for rate in rates if rate is not None) if rates and None not in rates else None


@dataclass(frozen=True, slots=True)
class Nic:
    """One network interface or RDMA device. `speed_Gbps` is gigabits per second in one direction."""

    name: str
    bus_id: str | None = None
    speed_Gbps: float | None = None
    rdma: bool = False
    link_layer: str | None = None
    interface: str | None = None
    numa: int | None = None
    pcie: PcieLink = PcieLink()
    bridges: tuple[str, ...] = ()
    gdr: bool | None = None
    up: bool | None = None

    @property
    def key(self) -> str:
        """Its name in the matrix."""
        return self.name

    @property
    def GBps(self) -> float | None:
        """Line rate, GB/s in one direction."""
        return self.speed_Gbps / 8 if self.speed_Gbps is not None else None


@dataclass(frozen=True, slots=True)
class Bridge:
    """A PCIe bridge or port above GPUs or NICs, and its link towards the processor."""

    bus_id: str
    pcie: PcieLink = PcieLink()


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One NUMA node and its processors."""

    index: int
    cpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Connection:
    """How the devices named `a` and `b` (keys) reach each other; `nvlinks` counts the bonded links."""

    a: str
    b: str
    path: PathType
    nvlinks: int = 0

    @property
    def text(self) -> str:
        """As the matrix shows it: NV12, PIX, SYS."""
        return f"NV{self.nvlinks}" if self.path is PathType.NVLINK else self.path.value


@dataclass(frozen=True)
class Machine:
    """One host. `source` says what it was read from; connections are stored once per unordered pair."""

    source: str
    gpus: tuple[Gpu, ...] = ()
    nics: tuple[Nic, ...] = ()
    numa_nodes: tuple[NumaNode, ...] = ()
    connections: tuple[Connection, ...] = ()
    host: str | None = None
    cpu: str | None = None
    bridges: tuple[Bridge, ...] = ()

    def gpu(self, bus_id: str) -> Gpu | None:
        """The GPU at that bus id, however it is written."""
        wanted = normal_bus_id(bus_id)
        return next((gpu for gpu in self.gpus if gpu.bus_id and normal_bus_id(gpu.bus_id) == wanted), None)

    def between(self, a: str, b: str) -> Connection | None:
        """The connection of two devices by key; None where nobody said."""
        return Connection(a, b, PathType.SELF) if a == b else self._pairs.get(frozenset((a, b)))

    @cached_property
    def _pairs(self) -> dict[frozenset[str], Connection]:
        return {frozenset((each.a, each.b)): each for each in self.connections}

    @property
    def nvlinks_per_gpu(self) -> int:
        """NVLinks that every GPU has: the least of all, 0 where one has none."""
        return min((gpu.nvlink_count for gpu in self.gpus), default=0)

    @property
    def all_nvlink(self) -> bool:
        """Whether every pair of GPUs is joined by NVLinks, directly or through a switch."""
        pairs = [
            self.between(a.key, b.key) for i, a in enumerate(self.gpus) for b in self.gpus[i + 1 :]
        ]  # fmt: skip
        return bool(pairs) and all(pair is not None and pair.path is PathType.NVLINK for pair in pairs)


def normal_bus_id(text: str) -> str:
    """A PCI address as sysfs writes it, dddd:bb:dd.f in lower case; NVML writes eight digits of domain."""
    parts = text.strip().lower().split(":")
    if len(parts) == 2:
        parts.insert(0, "0000")
    if len(parts) != 3:
        return text.strip().lower()
    device = parts[2] if "." in parts[2] else f"{parts[2]}.0"
    return f"{parts[0].lstrip('0').rjust(4, '0')}:{parts[1].rjust(2, '0')}:{device.rjust(4, '0')}"


def with_generation(gpu: Gpu) -> Gpu:
    """The GPU with the generation of its NVLinks filled in from its compute capability."""
    generation = nvlink_generation(gpu.sm)
    links = tuple(replace(link, generation=link.generation or generation) for link in gpu.nvlinks)
    return replace(gpu, nvlinks=links)
