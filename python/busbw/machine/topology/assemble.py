"""Puts a Machine together from what the GPUs and /sys say. Pure: the readings are values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from busbw.machine.topology.gpu_state import GpuState
from busbw.machine.topology.model import SWITCH, Gpu, Machine, Nic, NvLinks, PcieLink, normal_bus_id, with_generation
from busbw.machine.topology.names import carries_sockets, product
from busbw.machine.topology.paths import connections
from busbw.machine.topology.sysfs import SysfsReading


def assemble(sysfs: SysfsReading, states: Sequence[GpuState], *, source: str, host: str | None = None) -> Machine:
    """The machine. Without states its GPUs are those that /sys lists, without names and links."""
    gpus = tuple(_gpu(state, sysfs) for state in states) or _bare_gpus(sysfs)
    buses = {gpu.bus_id for gpu in gpus}
    gpus = tuple(with_generation(_without_loops(gpu, buses)) for gpu in gpus)
    nics = _nics(sysfs)
    return Machine(source, gpus, nics, sysfs.numa_nodes, connections(gpus, nics), host, bridges=sysfs.ports)


def together(first: Machine, second: Machine) -> Machine | None:
    """What two outputs of one machine show of it, a matrix and `lspci` say; None where their GPUs are not as many.

    GPUs are the same by their number: nvidia-smi counts them in the order of their buses, as `lspci` lists them. A
    listing without GPUs, of bridges or NICs alone, fits any machine.
    """
    if first.gpus and second.gpus and len(first.gpus) != len(second.gpus):
        return None
    # A matrix draws how devices reach each other and names no bus; listings know buses, and guess the rest.
    drawn, listed = (second, first) if all(gpu.bus_id is None for gpu in second.gpus) else (first, second)
    if not drawn.gpus:
        drawn, listed = listed, drawn
    gpus = tuple(_filled(gpu, other) for gpu, other in zip(drawn.gpus, listed.gpus or drawn.gpus, strict=True))
    return replace(
        drawn, gpus=gpus, nics=_nics_of(drawn, listed), numa_nodes=drawn.numa_nodes or listed.numa_nodes,
        host=drawn.host or listed.host, bridges=drawn.bridges or listed.bridges,
    )  # fmt: skip


def _nics_of(drawn: Machine, listed: Machine) -> tuple[Nic, ...]:
    """The NICs of the matrix. Which of them lies at which bus nobody said: a link that fell back keeps its bus."""
    if not drawn.nics:
        return listed.nics
    known = {nic.name for nic in drawn.nics}
    return (*drawn.nics, *(nic for nic in listed.nics if _fell_back(nic.pcie) and nic.name not in known))


def _fell_back(link: PcieLink) -> bool:
    pairs = ((link.generation, link.max_generation), (link.width, link.max_width))
    return any(now and most and now < most for now, most in pairs)


def _filled(gpu: Gpu, other: Gpu) -> Gpu:
    """The GPU, with what only the other output says of it."""
    return with_generation(
        replace(
            gpu,
            bus_id=gpu.bus_id or other.bus_id,
            name=gpu.name or other.name,
            sm=gpu.sm or other.sm,
            numa=other.numa if gpu.numa is None else gpu.numa,
            cpus=gpu.cpus or other.cpus,
            pcie=both_links(gpu.pcie, other.pcie),
            nvlinks=gpu.nvlinks or other.nvlinks,
            nvlinks_down=max(gpu.nvlinks_down, other.nvlinks_down),
        )
    )


def both_links(first: PcieLink, second: PcieLink) -> PcieLink:
    """What two outputs say of one link. An idle GPU lowers its rate: the higher one is what the link can do."""
    rates = [each for each in (first.generation, second.generation) if each]
    return PcieLink(
        max(rates, default=None), first.width or second.width, first.max_generation or second.max_generation,
        first.max_width or second.max_width,
    )  # fmt: skip


def _without_loops(gpu: Gpu, buses: set[str | None]) -> Gpu:
    """Links merged by target; those that end in the GPU itself (a hypervisor hid the peer) join nothing."""
    looped = [link for link in gpu.nvlinks if gpu.bus_id and normal_bus_id(link.target) == normal_bus_id(gpu.bus_id)]
    links = _merged([link for link in gpu.nvlinks if link not in looped], buses)
    return replace(gpu, nvlinks=links, nvlinks_to_itself=sum(link.count for link in looped))


def _gpu(state: GpuState, sysfs: SysfsReading) -> Gpu:
    function = sysfs.function(state.bus_id)
    known = product(state.name)
    link = function.pcie if function else PcieLink()
    numa = state.numa if state.numa is not None else function.numa if function else None
    nodes = {node.index: node.cpus for node in sysfs.numa_nodes}
    return Gpu(
        index=state.index,
        bus_id=state.bus_id,
        name=state.name,
        sm=state.sm or (known.sm if known else None),
        numa=numa,
        cpus=(nodes.get(numa) if numa is not None else None) or state.cpus,
        pcie=PcieLink(
            state.pcie.generation or link.generation,
            state.pcie.width or link.width,
            state.pcie.max_generation or link.max_generation,
            state.pcie.max_width or link.max_width,
        ),
        bridges=function.bridges if function else (),
        nvlinks=state.nvlinks,
        nvlinks_down=state.nvlinks_inactive if state.nvlinks else 0,
    )


def _bare_gpus(sysfs: SysfsReading) -> tuple[Gpu, ...]:
    found = [each for each in sysfs.functions if each.pci_class.startswith(("0x0302", "0x0300"))]
    return tuple(
        Gpu(i, each.bus_id, numa=each.numa, pcie=each.pcie, bridges=each.bridges) for i, each in enumerate(found)
    )  # fmt: skip


def _merged(links: Sequence[NvLinks], buses: set[str | None]) -> tuple[NvLinks, ...]:
    """One entry per target; a target that is no GPU of this machine is a switch."""
    counts: dict[tuple[str, int | None], int] = {}
    for link in links:
        target = normal_bus_id(link.target)
        key = (target if target in buses else SWITCH, link.generation)
        counts[key] = counts.get(key, 0) + link.count
    return tuple(NvLinks(target, count, generation) for (target, generation), count in counts.items())


def _nics(sysfs: SysfsReading) -> tuple[Nic, ...]:
    """RDMA devices first, each with its interface; then interfaces that belong to none."""
    nics: list[Nic] = []
    taken: set[str] = set()
    for device in sysfs.rdma:
        twin = next((each for each in sysfs.interfaces if each.bus_id and each.bus_id == device.bus_id), None)
        taken |= {twin.name} if twin else set()
        nics.append(
            _placed(
                Nic(
                    device.name, device.bus_id, device.rate_Gbps, rdma=not carries_sockets(device.name),
                    link_layer=device.link_layer,
                    interface=twin.name if twin else None, up=device.active,
                ),
                sysfs,
            )
        )  # fmt: skip
    for each in sysfs.interfaces:
        if each.name not in taken:
            speed = each.speed_Mbps / 1000 if each.speed_Mbps else None
            nic = Nic(each.name, each.bus_id, speed, link_layer="Ethernet", interface=each.name, up=each.up)
            nics.append(_placed(nic, sysfs))
    return tuple(nics)


def _placed(nic: Nic, sysfs: SysfsReading) -> Nic:
    function = sysfs.function(nic.bus_id)
    return replace(nic, numa=function.numa, pcie=function.pcie, bridges=function.bridges) if function else nic
