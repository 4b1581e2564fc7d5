"""NCCL's topology file (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE): read into a Machine, and checked."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace

from busbw.base.errors import UserError
from busbw.machine.nccl.problem import Problem
from busbw.machine.nccl.safe_xml import Node, parse
from busbw.machine.nccl.values import Attributes, beyond_nccl, link_generation
from busbw.machine.topology.cpulist import read_mask
from busbw.machine.topology.model import (
    SWITCH,
    Bridge,
    Gpu,
    Machine,
    Nic,
    NumaNode,
    NvLinks,
    PcieLink,
    normal_bus_id,
    with_generation,
)
from busbw.machine.topology.names import AMD, carries_sockets, is_interface, is_rdma, of_vendor, other_maker
from busbw.machine.topology.paths import MAX_DEVICES, connections

_BUS_ID = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?")
_GPU_CLASSES = ("0x0300", "0x0302", "0x03")
_NIC_CLASSES = ("0x0200", "0x0207", "0x02")
VENDORS = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD", "CentaurHauls": "Zhaoxin"}
RCCL_VERSION = 2
MAX_SUBS = 640  # NCCL's parser (src/graph/xml.h, 2.30); older versions take fewer
SLOWEST_GBPS = 3.5
"""No PCIe link of a GPU or of a switch above GPUs and RDMA devices is slower in a machine that is whole (less than
generation 3 x4): a hypervisor's bridge says 2.5 GT/s x1."""
MAX_PROBLEMS = 1000
_MOST_LANES = 32
_NO_WIDTH = (63, 255)
"""What Linux shows as the width of a link that a virtual device has not."""


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
    owners: dict[int, int] = field(default_factory=dict)
    bridges: list[Bridge] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    without_gdr: list[Problem] = field(default_factory=list)
    """GPUs with gdr=0: it costs nothing where a file shows sockets alone."""


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
    version = Attributes(root, reading.problems).whole("version", needed=True)
    processors = root.all("cpu")
    if len(processors) > MAX_DEVICES:
        raise UserError(f"{source}: {len(processors)} processors in one machine: NCCL takes {MAX_DEVICES}")
    if not processors:
        reading.problems.append(
            Problem(root.line, "no <cpu>: there is nothing for NCCL to hang devices on", fatal=True)
        )
    for order, cpu in enumerate(processors):
        _read_cpu(cpu, order, reading)
    machine = _machine(source, processors, reading)
    _check_version(root, version, machine, reading)
    if not reading.nics or any(nic.rdma for nic in reading.nics):
        reading.problems += reading.without_gdr
    _check_numbers(machine, reading)
    _check_links(machine, reading)
    return TopologyFile(source, machine, tuple(reading.problems[:MAX_PROBLEMS]), reading.lines)


def _check_version(root: Node, version: int | None, machine: Machine, reading: _Reading) -> None:
    """RCCL writes and reads version 2, for GPUs of AMD, and so do libraries made from it."""
    others = any(other_maker(gpu.name) for gpu in machine.gpus)
    if version not in {1, None} and not (others and version == RCCL_VERSION):
        rccls = ": that is RCCL's, for GPUs of AMD" if version == RCCL_VERSION else ""
        reading.problems.append(Problem(root.line, f"version is not 1, NCCL refuses the file{rccls}", fatal=True))


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
        bridges=tuple(reading.bridges),
        cpu=VENDORS.get(vendor, vendor[:40]) if vendor else None,
    )


def _resolve(gpu: Gpu, known: set[str]) -> Gpu:
    """NVLinks that end in no GPU of the file end in a switch: a guest sees fffffff:ff:ff.0 in its place.

    Links that end in the GPU itself join nothing; files of virtual machines hold such where the peer is hidden.
    """
    merged: dict[str, int] = {}
    own = normal_bus_id(gpu.bus_id) if gpu.bus_id else None
    looped = 0
    for link in gpu.nvlinks:
        target = normal_bus_id(link.target)
        if target == own:
            looped += link.count
            continue
        key = target if target in known else SWITCH
        merged[key] = merged.get(key, 0) + link.count
    links = tuple(NvLinks(target, count) for target, count in merged.items())
    return with_generation(replace(gpu, nvlinks=links, nvlinks_to_itself=looped))


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
        for other in sorted({reading.owners.setdefault(cpu, numa) for cpu in cpus} - {numa}):
            reading.problems.append(Problem(node.line, f"NUMA nodes {other} and {numa} share processors"))
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
        # NCCL reads a class that the file leaves out from /sys, as it does for the files that AWS ships.
        if node.children:
            reading.bridges.append(Bridge(bus_id, here.pcie))
            if any(each.tag == "gpu" or _carries(each) for each in node.walk()):
                _check_rate(node, f"the bridge {bus_id}", here.pcie, reading)
        below = _Place(place.numa, (*place.bridges, bus_id), place.cpus)
        _read_children(node, below, reading)


def _carries(node: Node) -> bool:
    """Whether a GPU or an RDMA device stands there."""
    given = node.attributes
    if node.tag == "net":
        return is_rdma(given.get("name", ""))
    return node.tag == "pci" and given.get("class", "").startswith((*_GPU_CLASSES, "0x0207"))


def _check_rate(node: Node, what: str, link: PcieLink, reading: _Reading) -> None:
    """A link that no real machine has: NCCL counts every path through it as that slow."""
    rate = link.GBps
    if rate is not None and rate < SLOWEST_GBPS:
        text = (
            f"{what} has a link of generation {link.generation} x{link.width}: NCCL counts on {rate:.2g} GB/s for "
            "every path through it (a hypervisor's bridge; the real link is hidden)"
        )
        reading.problems.append(Problem(node.line, text, slow=True))


def _read_gpu(node: Node, place: _Place, reading: _Reading) -> None:
    _check_rate(node, f"the GPU at {place.bus_id}", place.pcie, reading)
    maker = of_vendor(node.attributes.get("vendor", ""))
    # Files made for a kind of virtual machine hold no <gpu>: NCCL adds what it finds at the bus.
    for gpu in node.all("gpu") or [Node("gpu", node.line)]:
        given = Attributes(gpu, reading.problems)
        index = given.whole("dev", needed=bool(node.all("gpu")), low=0, high=1 << 20)
        gdr = given.whole("gdr")
        if gdr == 0:
            text = (
                f'gdr="0" of the GPU at {place.bus_id}: NCCL copies all that it sends over a network through the host'
            )
            reading.without_gdr.append(Problem(node.line, text, slow=True))
        reading.gpus.append(
            Gpu(
                index=len(reading.gpus) if index is None else index,
                bus_id=place.bus_id,
                # RCCL writes gcn and xGMI links where NCCL writes NVLinks.
                name=maker or (AMD if "gcn" in gpu.attributes or gpu.all("xgmi") else None),
                sm=given.whole("sm", low=10, high=999),
                rank=given.whole("rank", low=-1),
                numa=place.numa,
                cpus=place.cpus,
                pcie=place.pcie,
                bridges=place.bridges,
                nvlinks=tuple(link for each in gpu.all("nvlink") if (link := _nvlink(each, reading))),
                gdr=None if gdr is None else gdr > 0,
                c2c=bool(gpu.all("c2c")),
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
    # NCCL's InfiniBand devices carry a GUID; its sockets carry their own number, as plugins do.
    guid = (given.text("guid") or "0x0").strip()
    number = given.whole("dev", low=0, high=1 << 20)
    counted = guid in {"0x0", "0", f"{number or 0:#x}"}
    rdma = is_rdma(name) or not (counted or is_interface(name) or carries_sockets(name))
    if rdma and gdr == 0:
        text = f'gdr="0" of {name}: NCCL copies all that it sends through this device through the host'
        reading.problems.append(Problem(node.line, text, slow=True))
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
    width = Attributes(node, reading.problems).whole("link_width", low=0, high=255)
    if width in _NO_WIDTH:
        width = None
    elif width is not None and width > _MOST_LANES:
        text = f'link_width="{width}" of <pci> is not between 0 and {_MOST_LANES}'
        reading.problems.append(Problem(node.line, text, fatal=True))
        width = None
    speed = (node.attributes.get("link_speed") or "").strip()
    generation, counted = link_generation(speed)
    if speed and speed.lower() != "unknown" and counted != generation:
        text = f'link_speed="{speed[:30]}" is no speed that NCCL knows: it counts on PCIe 3'
        reading.problems.append(Problem(node.line, text))
    return PcieLink(generation, width or None)


def _check_numbers(machine: Machine, reading: _Reading) -> None:
    indices = [gpu.index for gpu in machine.gpus]
    ranks = [gpu.rank for gpu in machine.gpus if gpu.rank not in {None, -1}]
    for what, numbers in (("dev", indices), ("rank", ranks)):
        twice = sorted(str(number) for number, count in Counter(numbers).items() if count > 1)
        if twice:
            line = next((reading.lines.get(gpu.bus_id or "", 1) for gpu in machine.gpus), 1)
            reading.problems.append(Problem(line, f"two GPUs have {what} {', '.join(twice[:8])}", fatal=True))


def _check_links(machine: Machine, reading: _Reading) -> None:
    by_bus = {normal_bus_id(gpu.bus_id): gpu for gpu in machine.gpus if gpu.bus_id}
    for own, gpu in by_bus.items():
        line = reading.lines.get(own, 1)
        if gpu.nvlinks_to_itself:
            text = (
                f"{gpu.nvlinks_to_itself} NVLinks of {own} end in {own} itself: NCCL reads the file, and joins that "
                "GPU to no other by them (a hypervisor hid the peer); `busbw topo --audit` says how to put it right"
            )
            # A link of a GPU with itself shortens no path (src/graph/paths.cc), and nothing fails on it.
            reading.problems.append(Problem(line, text, slow=True))
        for link in gpu.nvlinks:
            peer = by_bus.get(link.target)
            if peer is None:
                continue
            back = sum(each.count for each in peer.nvlinks if each.target == own)
            if back != link.count and gpu.index < peer.index:
                text = f"{link.count} NVLinks from {own} to {peer.bus_id}, {back} back"
                reading.problems.append(Problem(line, text, fatal=True))
    most = max((gpu.nvlink_count for gpu in machine.gpus), default=0)
    for own, gpu in by_bus.items():
        if 0 < gpu.nvlink_count < most and all(link.target == SWITCH for link in gpu.nvlinks):
            text = f"{gpu.nvlink_count} NVLinks of {own} to the switch, others have {most}: rings are as slow as it"
            reading.problems.append(Problem(reading.lines.get(own, 1), text, slow=True))
