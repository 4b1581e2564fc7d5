"""Writes NCCL's topology file (NCCL_TOPO_FILE) for a machine."""

from __future__ import annotations

from collections.abc import Mapping
from xml.sax.saxutils import quoteattr

from busbw.base.errors import UserError
from busbw.machine.nccl.topology_file import VENDORS
from busbw.machine.topology.cpulist import write_mask
from busbw.machine.topology.model import SWITCH, Gpu, Machine, Nic, PcieLink
from busbw.machine.topology.rates import PCIE_GTPS


def write_topology(machine: Machine) -> str:
    """The file that NCCL reads for this machine: processors, switches, GPUs with NVLinks, NICs.

    Nothing is invented: what is unknown is left out, for NCCL to ask the driver; without bus ids there is no file.
    """
    lost = [gpu.key for gpu in machine.gpus if gpu.bus_id is None]
    if lost:
        raise UserError(
            f"{machine.source} does not say at which bus its GPUs lie ({', '.join(lost[:6])}), which NCCL's file "
            "needs; give the machine's lspci with `busbw topo --audit FILE --lspci LSPCI --export-nccl PATH`, or run "
            "on the machine",
            exit_code=2,
        )
    lines = ['<system version="1">']
    devices: list[Gpu | Nic] = [*machine.gpus, *machine.nics]
    places = sorted({(_numa_key(each.numa), each.bridges[:1]) for each in devices})
    cpus = {node.index: node.cpus for node in machine.numa_nodes}
    for numa, root in places:
        affinity = f" affinity={quoteattr(write_mask(cpus[numa]))}" if cpus.get(numa) else ""
        lines.append(f'  <cpu numaid="{numa}"{affinity}{_processor(machine)}>')
        inside = [d for d in devices if (_numa_key(d.numa), d.bridges[:1]) == (numa, root)]
        lines += _write_level(inside, 1, "    ", {each.bus_id: each.pcie for each in machine.bridges})
        lines.append("  </cpu>")
    return "\n".join([*lines, "</system>", ""])


def _numa_key(numa: int | None) -> int:
    return -1 if numa is None else numa


def _processor(machine: Machine) -> str:
    vendor = next((name for name, short in VENDORS.items() if short == machine.cpu), None)
    # Who made the processor decides what NCCL counts on between sockets; unsaid, it asks the processor.
    return f" arch={quoteattr('x86_64')} vendor={quoteattr(vendor)}" if vendor else ""


def _write_level(devices: list[Gpu | Nic], depth: int, indent: str, links: Mapping[str, PcieLink]) -> list[str]:
    lines: list[str] = []
    for bridge in dict.fromkeys(each.bridges[depth] for each in devices if len(each.bridges) > depth):
        below = [each for each in devices if each.bridges[depth : depth + 1] == (bridge,)]
        speed = _speed(links.get(bridge, PcieLink()))
        lines.append(f'{indent}<pci busid={quoteattr(bridge)} class="0x060400"{speed}>')
        lines += _write_level(below, depth + 1, indent + "  ", links)
        lines.append(f"{indent}</pci>")
    for device in devices:
        if len(device.bridges) <= depth:
            lines += _write_gpu(device, indent) if isinstance(device, Gpu) else _write_nic(device, indent)
    return lines


def _write_gpu(gpu: Gpu, indent: str) -> list[str]:
    bus = quoteattr(gpu.bus_id or "")
    lines = [f'{indent}<pci busid={bus} class="0x030200"{_speed(gpu.pcie)}>']
    if gpu.sm is None:  # NCCL then adds the GPU that it finds at the bus
        return [*lines, f"{indent}</pci>"]
    rank = "" if gpu.rank is None else f' rank="{gpu.rank}"'
    lines.append(f'{indent}  <gpu dev="{gpu.index}" sm="{gpu.sm}"{rank}{_gdr(gpu.gdr)}>')
    for link in gpu.nvlinks:
        switch = link.target == SWITCH
        target = "fffffff:ff:ff.0" if switch else link.target
        kind = "0x068000" if switch else "0x030200"
        lines.append(f'{indent}    <nvlink target={quoteattr(target)} count="{link.count}" tclass="{kind}"/>')
    return [*lines, f"{indent}  </gpu>", f"{indent}</pci>"]


def _write_nic(nic: Nic, indent: str) -> list[str]:
    speed = f' speed="{round(nic.speed_Gbps * 1000)}"' if nic.speed_Gbps else ""
    net = f"<net name={quoteattr(nic.name)}{speed}{_gdr(nic.gdr)}/>"
    if nic.bus_id is None:
        return [f"{indent}<nic>", f"{indent}  {net}", f"{indent}</nic>"]
    device_class = "0x020700" if nic.rdma else "0x020000"
    if nic.name == nic.bus_id:  # a file for virtual machines names the bus alone, and NCCL what it finds there
        return [f'{indent}<pci busid={quoteattr(nic.bus_id)} class="{device_class}"{_speed(nic.pcie)}/>']
    return [
        f'{indent}<pci busid={quoteattr(nic.bus_id)} class="{device_class}"{_speed(nic.pcie)}>',
        f"{indent}  <nic>", f"{indent}    {net}", f"{indent}  </nic>", f"{indent}</pci>",
    ]  # fmt: skip


def _gdr(known: bool | None) -> str:
    return "" if known is None else f' gdr="{int(known)}"'


def _speed(link: PcieLink) -> str:
    # What is unknown stays away: NCCL then looks in sysfs.
    rate = PCIE_GTPS.get(link.generation) if link.generation is not None else None
    speed = f' link_speed="{rate} GT/s PCIe"' if rate else ""
    return speed + (f' link_width="{link.width}"' if link.width else "")
