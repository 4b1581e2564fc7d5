"""Reads PCI devices, network interfaces, RDMA devices and NUMA nodes from /sys; `root` lets a test bring its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from busbw.machine.topology.cpulist import read_list
from busbw.machine.topology.model import Bridge, NumaNode, PcieLink, normal_bus_id
from busbw.machine.topology.rates import pcie_generation

NVIDIA = "0x10de"
MAX_ENTRIES = 8192
_BUS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_SPEED = re.compile(r"(\d{1,3}(?:\.\d)?) GT/s")
_RATE = re.compile(r"(\d{1,5}(?:\.\d)?) Gb/sec")


@dataclass(frozen=True, slots=True)
class PciFunction:
    """One PCI function and the way to it: the host bridge, then every PCIe switch."""

    bus_id: str
    pci_class: str
    vendor: str
    numa: int | None
    pcie: PcieLink
    bridges: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Interface:
    """One network interface; `speed_Mbps` is None where its driver does not say."""

    name: str
    bus_id: str | None
    speed_Mbps: float | None
    up: bool | None


@dataclass(frozen=True, slots=True)
class RdmaDevice:
    """One port of an RDMA device."""

    name: str
    bus_id: str | None
    rate_Gbps: float | None
    link_layer: str | None
    active: bool | None


@dataclass(frozen=True, slots=True)
class SysfsReading:
    """What /sys says of this machine."""

    functions: tuple[PciFunction, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    rdma: tuple[RdmaDevice, ...] = ()
    numa_nodes: tuple[NumaNode, ...] = ()
    ports: tuple[Bridge, ...] = ()
    """Every bridge and port above a GPU or NIC, with the link that it says it could run."""

    def function(self, bus_id: str | None) -> PciFunction | None:
        """The function at that bus id."""
        wanted = normal_bus_id(bus_id) if bus_id else None
        return next((each for each in self.functions if each.bus_id == wanted), None)


def read_sysfs(root: Path = Path("/")) -> SysfsReading:
    """Read what is there; what cannot be read is left out."""
    return SysfsReading(
        functions=tuple(_functions(root / "sys/bus/pci/devices")),
        interfaces=tuple(_interfaces(root / "sys/class/net")),
        rdma=tuple(_rdma(root / "sys/class/infiniband")),
        numa_nodes=tuple(_numa(root / "sys/devices/system/node")),
        ports=tuple(_ports(root / "sys/bus/pci/devices")),
    )


def read_word(path: Path) -> str | None:
    """The first 4 KiB of a file of /sys or /proc without white space around; None where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(4096).decode("utf-8", "replace").strip()
    except OSError:
        return None


_OF_MANAGEMENT = 3.5
"""GB/s; less than PCIe generation 3 x4: no GPU and no RDMA device that carries collectives."""


def _functions(folder: Path) -> Iterator[PciFunction]:
    for device in _entries(folder):
        pci_class = read_word(device / "class") or ""
        vendor = read_word(device / "vendor") or ""
        # GPUs and NICs; audio functions, storage and bridges carry no collective.
        if not (pci_class.startswith("0x02") or (pci_class.startswith("0x03") and vendor == NVIDIA)):
            continue
        yield PciFunction(
            bus_id=normal_bus_id(device.name),
            pci_class=pci_class,
            vendor=vendor,
            numa=_numa_of(device),
            pcie=_link(device),
            bridges=_bridges(device),
        )


def _bridges(device: Path) -> tuple[str, ...]:
    """The host bridge and the upstream ports of switches. Below a root port they alternate with downstream ports."""
    try:
        parts = device.resolve().parts
    except (OSError, RuntimeError):
        return ()
    host = next((i for i, part in enumerate(parts) if part.startswith("pci") and ":" in part), None)
    if host is None:
        return ()
    chain = [part for part in parts[host + 1 : -1] if _BUS.fullmatch(part)]
    return (parts[host], *chain[1::2])


def _ports(folder: Path) -> Iterator[Bridge]:
    """The bridges above GPUs and NICs. NCCL counts on the slower of a device and the port above it.

    Those above a service processor's display or a management interface (one lane of its own) are as slow as it is.
    """
    seen: set[str] = set()
    for device in _entries(folder):
        kind = read_word(device / "class") or ""
        if not (kind.startswith("0x02") or (kind.startswith("0x03") and read_word(device / "vendor") == NVIDIA)):
            continue
        if (own := _link(device).max_GBps) is not None and own < _OF_MANAGEMENT:
            continue
        try:
            above = [each for each in device.resolve().parents if _BUS.fullmatch(each.name)]
        except (OSError, RuntimeError):
            continue
        for port in above:
            if port.name not in seen:
                seen.add(port.name)
                link = _link(port)
                yield Bridge(normal_bus_id(port.name), PcieLink(link.max_generation, link.max_width))


def _link(device: Path) -> PcieLink:
    def speed(name: str) -> int | None:
        found = _SPEED.match(read_word(device / name) or "")
        return pcie_generation(float(found[1])) if found else None

    def width(name: str) -> int | None:
        text = read_word(device / name) or ""
        # A guest's bridge may say 0 or 255 for "unknown".
        return int(text) if text.isdecimal() and 0 < int(text[:6]) <= 32 else None

    return PcieLink(
        speed("current_link_speed"), width("current_link_width"), speed("max_link_speed"), width("max_link_width")
    )  # fmt: skip


def _interfaces(folder: Path) -> Iterator[Interface]:
    for entry in _entries(folder):
        speed = read_word(entry / "speed") or ""
        state = read_word(entry / "operstate")
        if entry.name == "lo" or not (entry / "device").exists():
            continue
        yield Interface(
            name=entry.name[:64],
            bus_id=_bus_above(entry / "device"),
            # Interfaces that are down say -1; some paravirtual ones say 2^32 - 1.
            speed_Mbps=float(speed) if speed.isdecimal() and 0 < int(speed[:12]) < 10**8 else None,
            up=None if state in {None, "unknown"} else state == "up",
        )


def _rdma(folder: Path) -> Iterator[RdmaDevice]:
    for entry in _entries(folder):
        ports = [port for port in _entries(entry / "ports") if port.name.isdecimal()][:8]
        port = ports[0] if ports else entry
        rate = _RATE.match(read_word(port / "rate") or "")
        state = read_word(port / "state")
        yield RdmaDevice(
            name=entry.name[:64],
            bus_id=_bus_above(entry / "device"),
            rate_Gbps=float(rate[1]) if rate else None,
            link_layer=read_word(port / "link_layer"),
            active=None if state is None else "ACTIVE" in state,
        )


def _numa(folder: Path) -> Iterator[NumaNode]:
    for entry in _entries(folder):
        if entry.name.startswith("node") and entry.name[4:].isdecimal():
            yield NumaNode(int(entry.name[4:]), read_list(read_word(entry / "cpulist") or ""))


def _bus_above(device: Path) -> str | None:
    """The PCI function to which a class device belongs; a virtio device lies one folder below it."""
    try:
        parts = device.resolve().parts
    except (OSError, RuntimeError):
        return None
    return next((normal_bus_id(part) for part in reversed(parts) if _BUS.fullmatch(part)), None)


def _numa_of(device: Path) -> int | None:
    text = read_word(device / "numa_node") or ""
    return int(text) if text.isdecimal() and len(text) < 6 else None


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())[:MAX_ENTRIES]
    except OSError:
        return []
