"""What a hypervisor hides of a machine: each thing that NCCL needs and that nobody said, in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from busbw.machine.topology.model import Gpu, Machine, Nic, PathType
from busbw.machine.topology.names import has_c2c, product
from busbw.machine.topology.rails import BELOW_ONE_SWITCH

SLOW_GBPS = 3.5
"""Less than PCIe generation 3 x4: no GPU, RDMA device or switch above them runs slower in a machine that is whole."""

NEAR = BELOW_ONE_SWITCH


@dataclass(frozen=True, slots=True)
class Hidden:
    """What is not known or cannot be, what NCCL makes of it, and what would say it."""

    what: str
    effect: str
    ask: str

    @property
    def text(self) -> str:
        return f"{self.what}. {self.effect}. {self.ask}."


def hidden(machine: Machine) -> tuple[Hidden, ...]:
    """Everything, most costly first; nothing for a machine that shows all that NCCL reads."""
    if not machine.gpus:
        return (_without_gpus(machine),)
    return (*_nvlinks(machine), *_bridges(machine), *_gdr(machine), *_nearness(machine), *_places(machine))


def misled(machine: Machine) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What makes NCCL do otherwise than predictions take it to: inside a node, and between nodes by its NICs."""
    whole = "The figures above take the real links to be used"
    inside = [
        *(_predicted(each, "The figures above do not count these links") for each in _looped(machine)),
        *(_predicted(each, whole) for each in _slow_bridges(machine)),
    ]
    direct = "The figures above take GPU Direct RDMA to work; without it often half of them is reached"
    return tuple(inside), tuple(_predicted(each, direct) for each in _gdr(machine))


def _predicted(each: Hidden, figures: str) -> str:
    what = "The " + each.what.removeprefix("the ") if each.what.startswith("the ") else each.what
    return f"{what}. {each.effect}. {figures}; `busbw topo --audit` says more."


def _without_gpus(machine: Machine) -> Hidden:
    """A file that a provider ships for a size of machine: switches and buses, to which NCCL adds what it finds."""
    nics = "" if machine.nics else ", no NIC"
    return Hidden(
        f"no GPU{nics} and no NVLink is shown: what a job finds there cannot be audited from this alone",
        "NCCL asks driver and /sys for them, and takes from the file the switches and links of the buses that it names",
        "NCCL_TOPO_FILE with this file and NCCL_TOPO_DUMP_FILE=whole.xml in a job on the machine write both together: "
        "audit whole.xml",
    )  # fmt: skip


def _looped(machine: Machine) -> Iterator[Hidden]:
    looped = [gpu for gpu in machine.gpus if gpu.nvlinks_to_itself]
    if looped:
        yield Hidden(
            f"NVLinks of {_some(looped)} end in the GPU itself",
            "NCCL joins no two GPUs by them" if any(gpu.nvlinks for gpu in machine.gpus)
            else "NCCL finds no NVLink between any two GPUs there",
            "A measurement of GPU pairs (--pairs) shows which are joined",
        )  # fmt: skip


def _nvlinks(machine: Machine) -> Iterator[Hidden]:
    yield from _looped(machine)
    most = max((gpu.nvlink_count for gpu in machine.gpus), default=0)
    fewer = [gpu for gpu in machine.gpus if gpu.nvlink_count < most and not gpu.nvlinks_to_itself]
    if fewer and most:
        yield Hidden(
            f"{_some(fewer)} shows fewer NVLinks ({fewer[0].nvlink_count}) than others ({most})",
            "Rings and trees are as slow as that GPU", "nvidia-smi nvlink -s says which links are down",
        )  # fmt: skip
    wired = [gpu for gpu in machine.gpus if not gpu.nvlink_count and (known := product(gpu.name)) and known.nvlinks]
    wired = [gpu for gpu in wired if not gpu.nvlinks_to_itself]
    if wired and not most and len(machine.gpus) > 1:
        yield Hidden(
            f"no NVLink is shown of {_some(wired)}, a {wired[0].name} that has them", "NCCL goes over PCIe or the host",
            "nvidia-smi nvlink -s and the fabric manager say whether the host gave them to this machine",
        )  # fmt: skip


def _slow_bridges(machine: Machine) -> Iterator[Hidden]:
    slow = [each for each in machine.bridges if (rate := each.pcie.GBps) is not None and rate < SLOW_GBPS]
    if slow:
        link = slow[0].pcie
        names = ", ".join(each.bus_id for each in slow[:4]) + (" and others" if len(slow) > 4 else "")
        yield Hidden(
            f"the bridges {names} say generation {link.generation} x{link.width}, as a hypervisor's do",
            f"NCCL counts on {link.GBps:.2g} GB/s for every path through them",
            "lspci -vv of the host has the real links; a topology file can say them",
        )  # fmt: skip


def _bridges(machine: Machine) -> Iterator[Hidden]:
    yield from _slow_bridges(machine)
    devices: list[Gpu | Nic] = [*machine.gpus, *(nic for nic in machine.nics if nic.rdma)]
    unknown = [each for each in devices if each.pcie.generation is None or each.pcie.width is None]
    if unknown:
        yield Hidden(
            f"the PCIe links of {_some(unknown)} are not shown", "NCCL then counts on generation 3 x16",
            "lspci -vv (--lspci) says them",
        )  # fmt: skip


def _gdr(machine: Machine) -> Iterator[Hidden]:
    rdma = [nic for nic in machine.nics if nic.rdma]
    devices: list[Gpu | Nic] = [*machine.gpus, *rdma] if rdma or not machine.nics else []
    without = [each for each in devices if each.gdr is False]
    if without:
        yield Hidden(
            f"gdr=0 is marked of {_some(without)}", "NCCL copies what goes between GPU and network through the host",
            "Leave gdr out of the file: NCCL then asks the driver",
        )  # fmt: skip


def _nearness(machine: Machine) -> Iterator[Hidden]:
    nics = [nic for nic in machine.nics if nic.rdma]
    if len(machine.gpus) < 2 or len(nics) < 2:
        return
    paths = {
        gpu.key: {pair.path for nic in nics if (pair := machine.between(gpu.key, nic.key))} for gpu in machine.gpus
    }
    every = set().union(*paths.values())
    # GPU and NIC at one processor: by C2C that is as good as one switch (src/graph/paths.cc, PATH_P2C).
    at_processor = all(each & {PathType.PHB, PathType.NODE} for each in paths.values())
    if every & NEAR or (at_processor and all(gpu.c2c or has_c2c(gpu.name) for gpu in machine.gpus)):
        return
    seen = ", ".join(sorted(path.value for path in every)) or "unknown"
    effect = "NCCL cannot pair GPUs with their NICs, and without GPU Direct RDMA sends through the host"
    ask = "A measurement of GPUs with NICs (--pairs) shows which lie below one switch"
    if at_processor and all(gpu.name is None for gpu in machine.gpus):
        effect += (
            ". On GH200, GB200 and GB300 nothing is amiss: NCCL goes by C2C over the processor with GPU Direct "
            "(NCCL_NET_GDR_C2C, on by default in 2.30)"
        )
        ask += "; nvidia-smi -L beside the matrix names the GPUs"
    yield Hidden(f"no GPU is near any NIC (all paths are {seen})", effect, ask)


def _places(machine: Machine) -> Iterator[Hidden]:
    lost = [gpu for gpu in machine.gpus if gpu.numa is None]
    if lost and len(machine.gpus) > 1:
        yield Hidden(
            f"the NUMA nodes of {_some(lost)} are not shown", "NCCL takes them to lie as far apart as possible",
            "nvidia-smi topo -m or lspci -vv (NUMA node:) may say them",
        )  # fmt: skip
    bare = [gpu for gpu in machine.gpus if gpu.bus_id is None]
    if bare:
        yield Hidden(
            f"the bus ids of {_some(bare)} are not shown", "A topology file for NCCL needs them",
            "lspci (--lspci) or nvidia-smi -q -x has them",
        )  # fmt: skip


def _some(devices: list[Gpu] | list[Nic] | list[Gpu | Nic]) -> str:
    names = [each.key for each in devices]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} others" if len(names) > 4 else "")
