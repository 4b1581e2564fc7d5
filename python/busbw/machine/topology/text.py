"""A machine as text for terminals: its devices, the matrix, the legend."""

from __future__ import annotations

from busbw.base.text import clean, columns, shorten
from busbw.machine.topology.cpulist import write_list
from busbw.machine.topology.model import SWITCH, Gpu, Machine, Nic, NvLinks, PcieLink
from busbw.machine.topology.smi_matrix import legend, write_matrix


def describe(machine: Machine) -> list[str]:
    """All lines."""
    host = f" ({machine.host})" if machine.host and machine.host != machine.source else ""
    lines = [clean(f"{machine.source}{host}: GPUs: {len(machine.gpus)}, NICs: {len(machine.nics)}"), ""]
    if machine.gpus:
        header = ("GPU", "bus", "name", "NVLinks", "PCIe", "NUMA")
        lines += [*columns(header, [_gpu_row(machine, gpu) for gpu in machine.gpus], left=range(6)), ""]
    if machine.nics:
        header = ("NIC", "bus", "kind", "rate", "PCIe", "NUMA")
        lines += [*columns(header, [_nic_row(nic) for nic in machine.nics], left=range(6)), ""]
    if machine.numa_nodes:
        nodes = [(str(node.index), shorten(write_list(node.cpus), 60)) for node in machine.numa_nodes]
        lines += [*columns(("NUMA", "processors"), nodes, left=range(2)), ""]
    loose = [gpu for gpu in machine.gpus if gpu.cpus and gpu.numa is None]
    if loose:
        rows = [(gpu.key, shorten(write_list(gpu.cpus), 60)) for gpu in loose]
        lines += [*columns(("GPU", "processors"), rows, left=range(2)), ""]
    if machine.connections:
        lines += [*write_matrix(machine), "", *legend(machine)]
    return lines


def _gpu_row(machine: Machine, gpu: Gpu) -> tuple[str, ...]:
    down = f", {gpu.nvlinks_down} down" if gpu.nvlinks_down else ""
    links = " + ".join(_links(machine, each) for each in gpu.nvlinks[:2]) + (" + ..." if len(gpu.nvlinks) > 2 else "")
    rate = f", {gpu.nvlink_GBps:g} GB/s" if gpu.nvlink_GBps else ""
    name = shorten((gpu.name or "").removeprefix("NVIDIA ") or (f"sm {gpu.sm}" if gpu.sm else ""), 18)
    return gpu.key, gpu.bus_id or "", name, f"{links or 'none known'}{rate}{down}", _pcie(gpu.pcie), _numa(gpu.numa)


def _nic_row(nic: Nic) -> tuple[str, ...]:
    kind = "RDMA" if nic.rdma else "sockets"
    rate = f"{nic.speed_Gbps:g} Gb/s" if nic.speed_Gbps else "?"
    state = " down" if nic.up is False else ""
    return shorten(nic.name, 16), nic.bus_id or "", kind, rate + state, _pcie(nic.pcie), _numa(nic.numa)


def _links(machine: Machine, link: NvLinks) -> str:
    peer = machine.gpu(link.target)
    target = "switch" if link.target == SWITCH else peer.key if peer is not None else link.target
    return f"{link.count}{f' of gen {link.generation}' if link.generation else ''} to {target}"


def _pcie(link: PcieLink) -> str:
    now = f"{link.generation or '?'} x{link.width or '?'}"
    most = f"{link.max_generation or '?'} x{link.max_width or '?'}"
    if most in {now, "? x?"}:
        return "" if now == "? x?" else now
    return f"{now} of {most}"


def _numa(numa: int | None) -> str:
    return "" if numa is None else str(numa)
