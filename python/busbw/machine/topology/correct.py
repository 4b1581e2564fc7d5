"""Puts a machine right from what else was said of it: lspci's buses and links, and a measurement of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeVar

from busbw.base.errors import UserError
from busbw.machine.topology.lspci import PciDevice, machine_of
from busbw.machine.topology.model import Bridge, Gpu, Machine, Nic, NvLinks, PathType, PcieLink, normal_bus_id
from busbw.machine.topology.names import product
from busbw.machine.topology.pairs import Pairs, refuse_impossible
from busbw.machine.topology.paths import connections

Device = TypeVar("Device", Gpu, Nic)

FULL = 0.9
"""A NIC is near the GPUs that reach this share of the best that it reaches with any."""

APART = 1.15
"""Where the best pair is no faster than the worst by this factor, the measurement does not tell near from far."""

OVER_PCIE = 1.5
"""Two GPUs are joined by NVLinks where they move this many times what the slowest pair moves, which goes over PCIe."""

PCIE_5_GBPS = 63.0
"""Line rate of PCIe 5 x16: two GPUs of unknown links that move more than that are joined by NVLinks."""

SWITCHES = "ffff:ff:{:02x}.0"
"""Bus ids of switches that no guest has: NCCL takes them from the file, as it does in Azure's files."""


@dataclass(frozen=True)
class Corrected:
    """The machine put right, each step with what it rests on, and what the measurement did not put right."""

    machine: Machine
    notes: tuple[str, ...]
    left: tuple[str, ...] = ()


def correct(machine: Machine, pci: Sequence[PciDevice], pairs: Pairs | None) -> Corrected:
    """What is known of the machine with all that was given; UserError names what is still missing for a file."""
    if not machine.gpus:
        raise UserError(f"{machine.source} shows no GPU, so there is nothing to put right in it", exit_code=2)
    notes: list[str] = []
    left: list[str] = []
    gpus, nics = _with_pci(machine, pci, pairs, notes)
    _refuse_without_buses(machine, gpus, nics)
    if pairs is not None:
        refuse_impossible(pairs, gpus, nics)
    groups = _groups(machine, gpus, nics, pairs, notes)
    if pairs is not None:
        gpus = _with_measured_links(gpus, pairs, notes, left)
    looped = [gpu.key for gpu in gpus if gpu.nvlinks_to_itself]
    if looped:
        left.append(f"the file leaves out the NVLinks of {', '.join(looped)}, which NCCL then asks the driver for")
    gpus, nics = _placed(gpus, nics, groups)
    bridges = tuple(Bridge(bus, _link_of(bus, gpus, nics)) for bus, _ in groups)
    # What the driver knows by itself is left to it: a wrong gdr=0 is not carried on.
    if any(each.gdr is False for each in _devices(gpus, nics)):
        notes.append("gdr=0 is left out of the file: NCCL asks the driver")
    gpus = tuple(replace(gpu, gdr=None) for gpu in gpus)
    nics = tuple(replace(nic, gdr=None) for nic in nics)
    found = replace(machine, gpus=gpus, nics=nics, bridges=bridges, connections=connections(gpus, nics))
    return Corrected(found, tuple(notes), tuple(left))


def _with_pci(
    machine: Machine, pci: Sequence[PciDevice], pairs: Pairs | None, notes: list[str]
) -> tuple[tuple[Gpu, ...], tuple[Nic, ...]]:
    listed = machine_of(tuple(pci), "lspci").gpus if pci else ()
    by_bus = {each.bus_id: each for each in pci}
    gpus = machine.gpus
    if listed and any(gpu.bus_id is None for gpu in gpus):
        if len(listed) != len(gpus):
            raise UserError(
                f"{machine.source} has {len(gpus)} GPUs, lspci {len(listed)}: they are of different machines, or some "
                "are hidden"
            )
        # nvidia-smi numbers GPUs by their PCI address.
        ordered = sorted(listed, key=lambda each: each.bus_id or "")
        gpus = tuple(replace(gpu, bus_id=twin.bus_id) for gpu, twin in zip(gpus, ordered, strict=True))
        notes.append("bus ids of GPUs: those of lspci, in their order, as nvidia-smi numbers GPUs")
    named = pairs.buses if pairs else {}
    nics = tuple(nic if nic.bus_id else replace(nic, bus_id=named.get(nic.name)) for nic in machine.nics if nic.rdma)
    if pci:
        notes.append("PCIe links and NUMA nodes: those of lspci, at most what the device can")
    return tuple(_told(gpu, by_bus) for gpu in gpus), tuple(_told(nic, by_bus) for nic in nics)


def _told(device: Device, by_bus: dict[str, PciDevice]) -> Device:
    """The device with what lspci says of it: the most that its link can, as an idle GPU lowers it."""
    found = by_bus.get(normal_bus_id(device.bus_id)) if device.bus_id else None
    if found is None:
        return device
    link = found.pcie
    known = PcieLink(link.max_generation or link.generation, link.max_width or link.width)
    numa = device.numa if device.numa is not None else found.numa
    return replace(device, pcie=known if known.generation and known.width else device.pcie, numa=numa)


def _devices(gpus: Sequence[Gpu], nics: Sequence[Nic]) -> list[Gpu | Nic]:
    return [*gpus, *nics]


def _refuse_without_buses(machine: Machine, gpus: Sequence[Gpu], nics: Sequence[Nic]) -> None:
    lost = [each.key for each in _devices(gpus, nics) if each.bus_id is None]
    if lost:
        raise UserError(
            f"{machine.source} does not say at which bus its devices lie ({', '.join(lost[:6])}), and nothing is "
            "invented. Give --lspci FILE for GPUs and the lines of `ibdev2netdev -v` in --pairs FILE for NICs, or run "
            "on the machine itself",
            exit_code=2,
        )


Group = tuple[str, tuple[str, ...]]
"""A switch's bus id and the keys of the devices below it."""


def _groups(
    machine: Machine, gpus: Sequence[Gpu], nics: Sequence[Nic], pairs: Pairs | None, notes: list[str]
) -> list[Group]:
    """Which GPUs and NICs lie below one switch: as the machine shows it, else as the measurement does."""
    near: dict[str, set[str]] = {}
    for nic in nics:
        shown = {
            g.key for g in gpus if (p := machine.between(g.key, nic.key)) and p.path in {PathType.PIX, PathType.PXB}
        }
        measured = _near_by_measure(nic.key, gpus, pairs) if pairs and not shown else set()
        if shown or measured:
            near[nic.key] = shown or measured
        if measured and pairs:
            notes.append(
                f"{nic.key} below one switch with {', '.join(sorted(measured))}: as measured in {pairs.source}"
            )
    merged: list[set[str]] = []
    for nic_key, keys in near.items():
        joined = {nic_key, *keys}
        for other in [each for each in merged if each & joined]:
            joined |= other
            merged.remove(other)
        merged.append(joined)
    return [(SWITCHES.format(i + 1), tuple(sorted(keys))) for i, keys in enumerate(merged)]


def _near_by_measure(nic: str, gpus: Sequence[Gpu], pairs: Pairs | None) -> set[str]:
    rates = {gpu.key: rate for gpu in gpus if pairs and (rate := pairs.between(gpu.key, nic)) is not None}
    if len(rates) < len(gpus) or not rates:
        return set()
    best, worst = max(rates.values()), min(rates.values())
    return {key for key, rate in rates.items() if rate >= FULL * best} if best >= APART * worst else set()


def _with_measured_links(gpus: Sequence[Gpu], pairs: Pairs, notes: list[str], left: list[str]) -> tuple[Gpu, ...]:
    """NVLinks whose peer was hidden, between the GPUs that move far more than the slowest pair."""
    if not all(gpu.nvlinks_to_itself for gpu in gpus) or len(gpus) < 2:
        return tuple(gpus)
    every = list(combinations(gpus, 2))
    lost = [(a.key, b.key) for a, b in every if pairs.between(a.key, b.key) is None]
    if lost:
        left.append(
            f"which GPUs NVLinks join: {pairs.source} lacks {len(lost)} of {len(every)} pairs of GPUs, such as "
            f"{' '.join(lost[0])}"
        )
        return tuple(gpus)
    rates = {frozenset((a.key, b.key)): pairs.between(a.key, b.key) or 0.0 for a, b in every}
    line = max((gpu.pcie.GBps or 0.0 for gpu in gpus), default=0.0) or PCIE_5_GBPS
    floor = min(OVER_PCIE * min(rates.values()), line)
    fixed = []
    for gpu in gpus:
        peers = [other for other in gpus if rates.get(frozenset((gpu.key, other.key)), 0.0) >= floor]
        each = gpu.nvlinks_to_itself // len(peers) if peers else 0
        if not each:
            fixed.append(gpu)
            continue
        links = tuple(NvLinks(other.bus_id or "", each) for other in peers)
        fixed.append(replace(gpu, sm=_sm(gpu), nvlinks=links, nvlinks_to_itself=0))
        notes.append(f"{gpu.key}: {each} NVLinks to {', '.join(p.key for p in peers)}, as measured")
    apart = [gpu.key for gpu in fixed if gpu.nvlinks_to_itself]
    if apart:
        left.append(
            f"which GPUs the NVLinks of {', '.join(apart)} join: no pair of theirs moves {floor:.3g} GB/s, as over "
            f"NVLink ({pairs.source})"
        )
    return tuple(fixed)


def _sm(gpu: Gpu) -> int | None:
    known = product(gpu.name)
    return gpu.sm or (known.sm if known else None)


def _placed(
    gpus: Sequence[Gpu], nics: Sequence[Nic], groups: Sequence[Group]
) -> tuple[tuple[Gpu, ...], tuple[Nic, ...]]:
    switch_of = {key: bus for bus, keys in groups for key in keys}
    numa_of = {}
    for bus, keys in groups:
        nodes = [each.numa for each in _devices(gpus, nics) if each.key in keys and each.numa is not None]
        numa_of[bus] = nodes[0] if nodes else None

    def place(device: Device) -> Device:
        bus = switch_of.get(device.key)
        numa = numa_of[bus] if bus is not None else device.numa
        # One root to a NUMA node; below it the switch that was found, else what the machine itself shows.
        root = f"numa{-1 if numa is None else numa}"
        below: tuple[str, ...] = (bus,) if bus is not None else device.bridges[1:]
        return replace(device, numa=numa, bridges=(root, *below))

    return tuple(place(gpu) for gpu in gpus), tuple(place(nic) for nic in nics)


def _link_of(bus: str, gpus: Sequence[Gpu], nics: Sequence[Nic]) -> PcieLink:
    """The link of a switch: nobody said it, so that of the fastest device below it, which it has to carry."""
    below = [each.pcie for each in _devices(gpus, nics) if bus in each.bridges and each.pcie.GBps]
    return max(below, key=lambda link: link.GBps or 0.0, default=PcieLink())
