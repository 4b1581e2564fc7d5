"""Reads `lspci`, `lspci -vv` or `lspci -vvv`: devices, their links now and at most, NUMA nodes, access control."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from busbw.base.errors import UserError
from busbw.machine.topology.model import Bridge, Gpu, Machine, Nic, PcieLink, normal_bus_id
from busbw.machine.topology.names import AMD
from busbw.machine.topology.paths import connections
from busbw.machine.topology.rates import pcie_generation

MAX_LINES = 500_000
_LOWERED = 2
"""The highest generation to which GPUs lower a link that rests."""
_DEVICE = re.compile(r"((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ([^:]{3,60}): (.{1,200})")
_BARE = re.compile(r"((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]):?\s*$")
"""The address alone, as a loop over devices prints it before what it shows of each."""
_ASKED = re.compile(r"\blspci\b[^|;&]{0,80}?\s-s ?((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?![0-9a-f])")
_PROMPT = re.compile(r"\S{0,40}(?:\[[^\]]{1,60}\])?(?:@\S{1,60})?(?: \S{1,40})?[$#] |\[[^\]]{3,60}\][$#] ")
_LINK = re.compile(r"\s*Lnk(Cap|Sta):\s.*?Speed (\d{1,3}(?:\.\d)?)GT/s[^,]*, Width x(\d{1,2})")
_NUMA = re.compile(r"\s*NUMA node: (\d{1,4})")
_ACS = re.compile(r"\s*ACSCtl:\s.*(?:ReqRedir\+|CmpltRedir\+|UpstreamFwd\+)")
_UPSTREAM = re.compile(r"\s*Capabilities: \[\w{2,3}\] Express \(v\d\) Upstream Port\b")
_CLASS = re.compile(r" \[[0-9a-f]{4}\]$")
_KINDS = re.compile(r"(?:controller|bridge|Bridge|accelerators?|coprocessor|device)(?: \[[0-9a-f]{4}\])?$")
_NAME = re.compile(r"\[([^\[\]]{3,60})\]")
_GPU_KINDS = ("3D controller", "VGA compatible controller", "Display controller")
_AMD_KINDS = ("Processing accelerators", *_GPU_KINDS)
_NIC_KINDS = ("Infiniband controller", "InfiniBand controller", "Ethernet controller", "Network controller")


@dataclass(frozen=True, slots=True)
class PciDevice:
    """One device of the listing. `redirects`: its access control sends traffic between peers up to the root."""

    bus_id: str
    kind: str
    name: str
    line: int
    pcie: PcieLink = field(default_factory=PcieLink)
    numa: int | None = None
    redirects: bool = False
    varied: bool = False
    """Whether it was asked twice and told two rates: it rested once."""
    upstream: bool = False
    """Whether it is the port of a switch towards the processor."""


def read_lspci(text: str, source: str) -> tuple[PciDevice, ...]:
    """Every device of the listing; UserError where there is none."""
    devices: dict[str, PciDevice] = {}
    now = ""
    for number, line in enumerate(text.splitlines()[:MAX_LINES], 1):
        found = _DEVICE.match(line)
        bare = _BARE.match(line) or _ASKED.search(line)
        if found:
            now = normal_bus_id(found[1])
            kind, name = _CLASS.sub("", found[2]), found[3].strip()
            known = devices.get(now) or PciDevice(now, kind, name, number)
            devices[now] = known if known.name else replace(known, kind=kind, name=name)
        elif bare:
            now = normal_bus_id(bare[1])
            devices.setdefault(now, PciDevice(now, "", "", number))
        elif _PROMPT.match(line):
            now = ""  # what the next command shows is not of the last device
        elif now:
            devices[now] = _detail(devices[now], line)
    shown = tuple(each for each in devices.values() if each.kind or each != PciDevice(each.bus_id, "", "", each.line))
    if not any(each.kind for each in shown):
        raise UserError(f"{source} shows no device of `lspci`")
    return shown


def is_device(line: str) -> bool:
    """Whether the line names a device as `lspci` does; times of logs begin like addresses."""
    found = _DEVICE.match(line)
    return found is not None and _KINDS.search(found[2]) is not None


def is_detail(line: str) -> bool:
    """Whether the line is the address of a device alone, or what `lspci -vv` shows of one."""
    return any(each.match(line) for each in (_BARE, _LINK, _NUMA, _UPSTREAM)) or line.lstrip().startswith(
        ("ACSCtl:", "ACSCap:")
    )


def machine_of(devices: tuple[PciDevice, ...], source: str) -> Machine:
    """The GPUs and NICs of a listing; how they reach each other it does not show beyond their NUMA nodes."""
    nvidia = [each for each in devices if each.kind in _GPU_KINDS and "NVIDIA" in each.name]
    # AMD's are shown where there are no others; nothing is expected of them.
    gpus = nvidia or [each for each in devices if each.kind in _AMD_KINDS and "Instinct" in each.name]
    rest = any(each.varied for each in gpus)
    nics = [each for each in devices if each.kind in _NIC_KINDS]
    as_gpus = tuple(
        Gpu(i, each.bus_id, _short(each.name) if nvidia else AMD, numa=each.numa, pcie=_link(each, rest))
        for i, each in enumerate(gpus)
    )  # fmt: skip
    as_nics = tuple(
        Nic(each.bus_id, each.bus_id, rdma="nfini" in each.kind, numa=each.numa, pcie=each.pcie) for each in nics
    )  # fmt: skip
    # Ports of processors count fewer lanes where a narrow card is plugged; that of a switch carries all below it.
    ports = tuple(Bridge(each.bus_id, each.pcie) for each in devices if each.upstream)
    return Machine(source, as_gpus, as_nics, connections=connections(as_gpus, as_nics), bridges=ports)


def _link(device: PciDevice, rest: bool) -> PcieLink:
    """Its link, without the low rate of a GPU at rest where another one was seen to lower its own."""
    link = device.pcie
    lowered = rest and (link.generation or _LOWERED + 1) <= _LOWERED and link.width == link.max_width
    return replace(link, generation=None) if lowered else link


def _detail(device: PciDevice, line: str) -> PciDevice:
    if found := _LINK.match(line):
        generation, width = pcie_generation(float(found[2])), int(found[3]) or None
        if found[1] == "Cap":
            return replace(device, pcie=replace(device.pcie, max_generation=generation, max_width=width))
        # A device that was asked twice was idle once: its rate at work is what the link can do.
        varied = device.pcie.generation not in {None, generation}
        fastest = max(generation or 0, device.pcie.generation or 0) or None
        link = replace(device.pcie, generation=fastest, width=width)
        return replace(device, pcie=link, varied=device.varied or varied)
    if found := _NUMA.match(line):
        return replace(device, numa=int(found[1]))
    if _UPSTREAM.match(line):
        return replace(device, upstream=True)
    if _ACS.match(line):
        return replace(device, redirects=True)
    return device


def _short(name: str) -> str:
    found = _NAME.search(name)
    return found[1] if found else name[:60]
