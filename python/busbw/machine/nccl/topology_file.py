"""NCCL's topology file (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE): read into a Machine, and checked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from busbw.base.errors import UserError
from busbw.machine.nccl.problem import Problem
from busbw.machine.nccl.safe_xml import Node, parse
from busbw.machine.nccl.values import Attributes, beyond_nccl
from busbw.machine.topology.cpulist import read_mask
from busbw.machine.topology.model import (
    SWITCH,
    Gpu,
    Machine,
    Nic,
    NumaNode,
    NvLinks,
    PcieLink,
    normal_bus_id,
    with_generation,
)
from busbw.machine.topology.paths import connections
from busbw.machine.topology.rates import pcie_generation

_BUS_ID = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?")
_SPEED = re.compile(r"(\d{1,3}(?:\.\d)?) GT/s(?: PCIe)?")
_GPU_CLASSES = ("0x0300", "0x0302", "0x03")
_NIC_CLASSES = ("0x0200", "0x0207", "0x02")
VENDORS = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD", "CentaurHauls": "Zhaoxin"}
MAX_SUBS = 128  # NCCL's parser (src/graph/xml.h)


@dataclass(frozen=True, slots=True)
class TopologyFile:
    """A topology file as read: the machine it describes, the line of every bus id, and what is wrong in itself."""

    source: str
    machine: Machine
    problems: tuple[Problem, ...]
    lines: dict[str, int]


@dataclass(slots=True)
class _Reading:
    problems: list[Problem] = field(default_factory=list)
    gpus: list[Gpu] = field(default_factory=list)
    nics: list[Nic] = field(default_factory=list)
    numa: dict[int, NumaNode] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the tree a node stands."""

    numa: int | None
    bridges: tuple[str, ...]
    cpus: tuple[int, ...]
    bus_id: str | None = None
    pcie: PcieLink = field(default_factory=PcieLink)


def read_topology(data: bytes, source: str) -> TopologyFile:
    """Read a topology file; UserError where it is no XML or has another root, problems for all else."""
    root = parse(data, source)
    if root.tag != "system":
        raise UserError(f"{source}:{root.line}: the root is <{root.tag[:40]}>, a topology file has <system>")
    reading = _Reading(problems=beyond_nccl(root))
    if Attributes(root, reading.problems).whole("version", needed=True) not in {1, None}:
        reading.problems.append(Problem(root.line, "version is not 1, NCCL refuses the file", fatal=True))
    processors = root.all("cpu")
    if not processors:
        reading.problems.append(
            Problem(root.line, "no <cpu>: there is nothing for NCCL to hang devices on", fatal=True)
        )
    for order, cpu in enumerate(processors):
        _read_cpu(cpu, order, reading)
    machine = _machine(source, processors, reading)
    _check_links(machine, reading)
    return TopologyFile(source, machine, tuple(reading.problems), reading.lines)


def _machine(source: str, processors: list[Node], reading: _Reading) -> Machine:
    known = {normal_bus_id(gpu.bus_id) for gpu in reading.gpus if gpu.bus_id}
    gpus = tuple(_resolve(gpu, known) for gpu in sorted(reading.gpus, key=lambda gpu: gpu.index))
    vendor = processors[0].attributes.get("vendor") if processors else None
    return Machine(
        source=source,
        gpus=gpus,
        nics=tuple(reading.nics),
        numa_nodes=tuple(reading.numa.values()),
        connections=connections(gpus, reading.nics),
        cpu=VENDORS.get(vendor, vendor[:40]) if vendor else None,
    )


def _resolve(gpu: Gpu, known: set[str]) -> Gpu:
    """NVLinks that end in no GPU of the file end in a switch: a guest sees fffffff:ff:ff.0 in its place."""
    merged: dict[str, int] = {}
    for link in gpu.nvlinks:
        target = normal_bus_id(link.target)
        key = target if target in known else SWITCH
        merged[key] = merged.get(key, 0) + link.count
    links = tuple(NvLinks(target, count) for target, count in merged.items())
    return with_generation(
        Gpu(
            index=gpu.index, bus_id=gpu.bus_id, name=gpu.name, sm=gpu.sm, rank=gpu.rank, numa=gpu.numa, cpus=gpu.cpus,
            pcie=gpu.pcie, bridges=gpu.bridges, nvlinks=links, gdr=gpu.gdr,
        )
    )  # fmt: skip


def _read_cpu(node: Node, order: int, reading: _Reading) -> None:
    given = Attributes(node, reading.problems)
    numa = given.whole("numaid", needed=True, low=-1, high=4095)
    numa = None if numa in {None, -1} else numa
    affinity = given.text("affinity")
    cpus = read_mask(affinity) if affinity else ()
    if affinity and not cpus and affinity.strip("0, "):
        reading.problems.append(Problem(node.line, f'affinity="{affinity[:40]}" is no mask of processors', fatal=True))
    if numa is not None:
        if numa in reading.numa:
            reading.problems.append(Problem(node.line, f"NUMA node {numa} stands there twice", fatal=True))
        for other in reading.numa.values():
            if set(other.cpus) & set(cpus):
                text = f"NUMA nodes {other.index} and {numa} share processors"
                reading.problems.append(Problem(node.line, text))
        reading.numa[numa] = NumaNode(numa, cpus)
    place = _Place(numa, (f"cpu{order}",), cpus)
    _read_children(node, place, reading)


def _read_children(node: Node, place: _Place, reading: _Reading) -> None:
    if len(node.children) > MAX_SUBS:
        text = f"<{node.tag}> has {len(node.children)} children, NCCL takes {MAX_SUBS}"
        reading.problems.append(Problem(node.line, text, fatal=True))
    for child in node.children:
        if child.tag == "pci":
            _read_pci(child, place, reading)
        elif child.tag == "nic":
            for net in child.all("net"):
                _read_net(net, place, reading)


def _read_pci(node: Node, place: _Place, reading: _Reading) -> None:
    bus_id = (node.attributes.get("busid") or "").strip()
    if not _BUS_ID.fullmatch(bus_id):
        reading.problems.append(Problem(node.line, f'busid="{bus_id[:40]}" is no PCI address', fatal=True))
        return
    bus_id = normal_bus_id(bus_id)
    if bus_id in reading.lines:
        text = f"bus {bus_id} stands there twice, first on line {reading.lines[bus_id]}"
        reading.problems.append(Problem(node.line, text, fatal=True))
        return
    reading.lines[bus_id] = node.line
    here = _Place(place.numa, place.bridges, place.cpus, bus_id, _pcie(node, reading))
    device_class = node.attributes.get("class", "")
    if node.all("gpu") or device_class.startswith(_GPU_CLASSES):
        _read_gpu(node, here, reading)
    elif device_class.startswith(_NIC_CLASSES):
        nets = [net for nic in node.all("nic") for net in nic.all("net")] + node.all("net")
        for net in nets:
            _read_net(net, here, reading)
        if not nets:
            reading.nics.append(_nic(bus_id, here, rdma=device_class.startswith("0x0207")))
    else:
        if not device_class:
            reading.problems.append(Problem(node.line, f"bus {bus_id} has no class", fatal=True))
        below = _Place(place.numa, (*place.bridges, bus_id), place.cpus)
        _read_children(node, below, reading)


def _read_gpu(node: Node, place: _Place, reading: _Reading) -> None:
    # Files made for a kind of virtual machine hold no <gpu>: NCCL adds what it finds at the bus.
    for gpu in node.all("gpu") or [Node("gpu", node.line)]:
        given = Attributes(gpu, reading.problems)
        index = given.whole("dev", needed=bool(node.all("gpu")), low=0, high=1 << 20)
        gdr = given.whole("gdr")
        reading.gpus.append(
            Gpu(
                index=len(reading.gpus) if index is None else index,
                bus_id=place.bus_id,
                sm=given.whole("sm", low=10, high=999),
                rank=given.whole("rank", low=-1),
                numa=place.numa,
                cpus=place.cpus,
                pcie=place.pcie,
                bridges=place.bridges,
                nvlinks=tuple(link for each in gpu.all("nvlink") if (link := _nvlink(each, reading))),
                gdr=None if gdr is None else gdr > 0,
            )
        )


def _nvlink(node: Node, reading: _Reading) -> NvLinks | None:
    count = Attributes(node, reading.problems).whole("count", needed=True, low=1, high=144)
    target = (node.attributes.get("target") or "").strip()
    switch = node.attributes.get("tclass", "").startswith("0x0680")
    if not target and not switch:
        reading.problems.append(Problem(node.line, "<nvlink> has no target", fatal=True))
    elif count is not None:
        return NvLinks(SWITCH if switch else target[:40], count)
    return None


def _read_net(node: Node, place: _Place, reading: _Reading) -> None:
    given = Attributes(node, reading.problems)
    name = (given.text("name") or "").strip()[:64]
    speed = given.number("speed", high=1e8)
    gdr = given.whole("gdr")
    # NCCL's InfiniBand devices carry a GUID, its sockets carry 0x0.
    rdma = (given.text("guid") or "0x0").strip() not in {"0x0", "0"} or name.startswith(("mlx", "bnxt_re", "irdma"))
    nic = _nic(name or place.bus_id or f"net{len(reading.nics)}", place, rdma=rdma)
    reading.nics.append(
        Nic(
            name=nic.name, bus_id=nic.bus_id, speed_Gbps=speed / 1000 if speed else None, rdma=nic.rdma, numa=nic.numa,
            pcie=nic.pcie, bridges=nic.bridges, gdr=None if gdr is None else gdr > 0,
        )
    )  # fmt: skip


def _nic(name: str, place: _Place, *, rdma: bool) -> Nic:
    return Nic(
        name=name, bus_id=place.bus_id, rdma=rdma, numa=place.numa, pcie=place.pcie, bridges=place.bridges
    )  # fmt: skip


def _pcie(node: Node, reading: _Reading) -> PcieLink:
    width = Attributes(node, reading.problems).whole("link_width", low=0, high=32)
    speed = (node.attributes.get("link_speed") or "").strip()
    match = _SPEED.fullmatch(speed)
    generation = pcie_generation(float(match[1])) if match else None
    if generation is None and speed and speed.lower() != "unknown":
        text = f'link_speed="{speed[:30]}" is no speed that NCCL knows: it counts on PCIe 3'
        reading.problems.append(Problem(node.line, text))
    return PcieLink(generation, width or None)


def _check_links(machine: Machine, reading: _Reading) -> None:
    indices = [gpu.index for gpu in machine.gpus]
    ranks = [gpu.rank for gpu in machine.gpus if gpu.rank not in {None, -1}]
    for what, numbers in (("dev", indices), ("rank", ranks)):
        twice = sorted({str(each) for each in numbers if numbers.count(each) > 1})
        if twice:
            line = next((reading.lines.get(gpu.bus_id or "", 1) for gpu in machine.gpus), 1)
            reading.problems.append(Problem(line, f"two GPUs have {what} {', '.join(twice[:8])}", fatal=True))
    for gpu in machine.gpus:
        for link in gpu.nvlinks:
            peer = machine.gpu(link.target)
            if peer is None or peer.bus_id is None or gpu.bus_id is None:
                continue
            back = sum(each.count for each in peer.nvlinks if each.target == normal_bus_id(gpu.bus_id))
            if back != link.count and gpu.index < peer.index:
                text = f"{link.count} NVLinks from {gpu.bus_id} to {peer.bus_id}, {back} back"
                reading.problems.append(Problem(reading.lines.get(gpu.bus_id, 1), text, fatal=True))
