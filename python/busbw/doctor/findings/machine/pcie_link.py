"""A PCIe link that runs below its width or generation, of a GPU or a NIC."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.machine.topology.gpu_state import GpuState
from busbw.machine.topology.model import Gpu, Machine, Nic
from busbw.machine.topology.rates import pcie_GBps

NAME = "pcie-link"
WIDE = 16
"""Lanes of a device that carries traffic between nodes, whatever it is called; those of small adapters are fewer."""
_PROOF = Proof(instruction="measure host-to-device copies before and after reseating or a firmware update")


def examine(facts: Facts) -> Iterator[Finding]:
    if facts.machine is None:
        return
    yield from _behind_others(facts.machine)
    if not facts.snapshot.live:
        yield from _of_switches(facts.machine)
    idle, halves = _idle(facts), _sharing_a_slot(facts)
    devices: list[Gpu | Nic] = [*facts.machine.gpus, *facts.machine.nics]
    for device in devices:
        link = device.pcie
        narrow = bool(link.width and link.max_width and link.width < link.max_width)
        slow = bool(link.generation and link.max_generation and link.generation < link.max_generation)
        split = isinstance(device, Gpu) and device.key in halves
        if not narrow and not slow:
            continue
        now, most = link.GBps, link.max_GBps
        factor = most / now if now and most else None
        # An idle GPU lowers its generation to save power, never its width: that is by its board, or is a fault.
        resting = (split or not narrow) and slow and isinstance(device, Gpu) and device.index in idle
        light = resting or (split and not slow)
        rdma_or_gpu = isinstance(device, Gpu) or device.rdma
        wide = narrow and (link.max_width or 0) >= WIDE
        yield Finding(
            NAME,
            Severity.WARNING if (rdma_or_gpu or wide) and not light else Severity.NOTE,
            f"PCIe of {device.key} runs at generation {link.generation or '?'} x{link.width or '?'} of "
            f"{link.max_generation or '?'} x{link.max_width or '?'}" + (" while idle" if resting else ""),
            (Evidence(f"now {_rate(now)}, at most {_rate(most)}", f"{facts.machine.source}: {device.bus_id}"),),
            Cost(
                "none if it rises under load" if resting else
                "half of what a slot of 16 lanes gives, as boards share its lanes between two cards" if light else
                f"{factor:.1f} times less to and from the host and NICs" if factor else "less to and from the host",
                None if resting else factor, "line rates of PCIe",
            ),
            "look again under load" if resting else "reseat the device, check riser, BIOS setting and firmware",
            _PROOF,
        )  # fmt: skip


_SHARED_LANES = 8
_MOST_SHARING = 2


def _sharing_a_slot(facts: Facts) -> set[str]:
    """The two cards of a desktop of which each has half of the lanes: its processor has 16 for both."""
    gpus = facts.machine.gpus if facts.machine else ()
    halved = [gpu for gpu in gpus if gpu.pcie.width == _SHARED_LANES and gpu.pcie.max_width == WIDE]
    names = [each.name or "" for each in facts.snapshot.gpus] or [gpu.name or "" for gpu in gpus]
    desktop = bool(names) and all("GeForce" in name for name in names)
    both = len(gpus) == len(halved) == _MOST_SHARING
    return {gpu.key for gpu in halved} if both and desktop else set()


_WORKS_PERCENT = 20.0
_RESTS = 5
"""The performance state from which on a GPU rests; GeForce boards compute in P2."""
_LOWERED = 2
"""The highest generation to which idle GPUs lower their links."""


def _idle(facts: Facts) -> set[int]:
    """The GPUs that rest, by what nvidia-smi says of them; where it says nothing, those of a machine that all rest."""
    states = {each.index: each for each in facts.snapshot.gpus}
    gpus = facts.machine.gpus if facts.machine else ()
    lowered = [gpu for gpu in gpus if gpu.pcie.generation and gpu.pcie.generation <= _LOWERED]
    all_rest = bool(lowered) and len(lowered) == len(gpus)
    return {
        gpu.index for gpu in gpus if (_rests(states[gpu.index]) if gpu.index in states else all_rest)
    }  # fmt: skip


def _rests(gpu: GpuState) -> bool:
    if "idle" in gpu.slowdowns:
        return True
    if gpu.pstate is None or gpu.pstate == 0:
        return gpu.pstate is None and (gpu.utilisation_percent or 0.0) < _WORKS_PERCENT
    return gpu.pstate >= _RESTS or (gpu.utilisation_percent or 0.0) < _WORKS_PERCENT


def _of_switches(machine: Machine) -> Iterator[Finding]:
    """Ports of PCIe switches towards the processor that lost lanes: all below them share what is left."""
    for each in machine.bridges:
        link = each.pcie
        if not (link.width and link.max_width and link.width < link.max_width and link.max_width >= WIDE):
            continue
        factor = link.max_width / link.width
        where = f"{machine.source}: {each.bus_id}"
        yield Finding(
            NAME, Severity.WARNING,
            f"the PCIe switch {each.bus_id} reaches the processor by x{link.width} of x{link.max_width}",
            (Evidence(f"{_rate(link.GBps)} of {_rate(link.max_GBps)} per direction", where),),
            Cost("all GPUs and NICs below it share what is left", factor, "lanes of PCIe"),
            "reseat the switch board, its cables and retimers, look at the BIOS setting of the slot and at AER errors",
            _PROOF,
        )  # fmt: skip


def _behind_others(machine: Machine) -> Iterator[Finding]:
    """GPUs whose links are slower than those of all others alike, where nobody says what the links can do at most."""
    links = {gpu.key: gpu.pcie for gpu in machine.gpus if gpu.pcie.generation and gpu.pcie.width}
    if (
        not links
        or len(links) < len(machine.gpus)
        or any(each.max_generation or each.max_width for each in links.values())
    ):
        return
    usual, often = Counter((each.generation, each.width) for each in links.values()).most_common(1)[0]
    most = pcie_GBps(*usual)
    slow = [gpu for gpu in machine.gpus if most and (gpu.pcie.GBps or most) < most]
    if often < _ALIKE or len(slow) + often != len(links) or 4 * len(slow) > len(links):
        return
    for gpu in slow:
        where = f"{machine.source}: {gpu.bus_id or gpu.key}"
        factor = most / gpu.pcie.GBps if most and gpu.pcie.GBps else None
        yield Finding(
            NAME, Severity.WARNING,
            f"PCIe of {gpu.key} runs at generation {gpu.pcie.generation} x{gpu.pcie.width}, that of the other GPUs at "
            f"{usual[0]} x{usual[1]}",
            (Evidence(f"{_rate(gpu.pcie.GBps)} of {_rate(most)} per direction", where),),
            Cost("copies to the host, and transfers over PCIe, by that factor", factor, "line rates of PCIe"),
            "reseat the device, check riser, slot (lanes, bifurcation), BIOS setting and firmware", _PROOF,
        )  # fmt: skip


_ALIKE = 3


def _rate(rate: float | None) -> str:
    return f"{rate:.1f} GB/s" if rate is not None else "unknown"
