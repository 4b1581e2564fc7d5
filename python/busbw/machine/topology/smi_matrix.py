"""Reads and writes the matrix of `nvidia-smi topo -m`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from busbw.base.errors import UserError
from busbw.machine.topology.cpulist import read_list
from busbw.machine.topology.model import SWITCH, Connection, Gpu, Machine, Nic, NumaNode, NvLinks, PathType
from busbw.machine.topology.names import is_interface

MAX_DEVICES = 256
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_DEVICE = re.compile(r"GPU\d{1,3}|NIC\d{1,3}|mlx\d_\d{1,3}|[a-z]\w*_\d{1,3}")
_CELL = re.compile(r"X|PIX|PXB|PHB|NODE|SYS|SOC|NV(\d{1,3})")
_HEADING = re.compile(r"\s+GPU0\b|GPU0\s+(?:[A-Za-z]\w*\d\s+)*CPU Affinity")
"""Whoever pastes it may strip it."""
_LEGEND = re.compile(r"\s*(NIC\d{1,3}):\s+(\S{1,64})\s*$")


def read_matrix(text: str, source: str) -> Machine:
    """The machine that the matrix shows; UserError where there is none."""
    lines = [_ESCAPES.sub("", line) for line in text.splitlines()[:5000]]
    start = next((i for i, line in enumerate(lines) if _HEADING.match(line)), None)
    if start is None:
        raise UserError(f"{source} shows no matrix of `nvidia-smi topo -m`: no line begins with GPU0 as a heading")
    devices = [word for word in lines[start].split() if _DEVICE.fullmatch(word)]
    if len(devices) > MAX_DEVICES or len(set(devices)) != len(devices):
        raise UserError(f"{source}:{start + 1}: {len(devices)} columns, or two of one name; is it one machine?")
    names = {found[1]: found[2] for line in lines[start:] if (found := _LEGEND.fullmatch(line))}
    rows: dict[str, list[str]] = {}
    places: dict[str, tuple[str, str]] = {}
    for number, line in enumerate(lines[start + 1 :], start + 2):
        words = line.split()
        if not words or words[0] not in devices or words[0] in rows:
            continue
        cells = words[1 : len(devices) + 1]
        if len(cells) < len(devices) or not all(_CELL.fullmatch(cell) for cell in cells):
            raise UserError(f"{source}:{number}: the row of {words[0]} has not one of X NV# PIX ... per column")
        rows[words[0]] = cells
        rest = words[len(devices) + 1 :]
        places[words[0]] = (rest[0] if rest else "", rest[1] if len(rest) > 1 else "")
    _fill_by_symmetry(devices, rows)
    missing = [device for device in devices if device not in rows]
    if missing:
        raise UserError(f"{source}: the matrix has no row for {', '.join(missing[:8])}; is it cut off?")
    return _machine(source, devices, rows, places, names)


def _fill_by_symmetry(devices: Sequence[str], rows: dict[str, list[str]]) -> None:
    """Rows of NICs that were cut off: what GPUs show of them stands in the GPUs' rows, and more nobody needs."""
    if not all(each in rows for each in devices if each.startswith("GPU")):
        return
    for j, device in enumerate(devices):
        if device not in rows:
            rows[device] = ["X" if other == device else rows[other][j] if other.startswith("GPU") else "SYS"
                            for other in devices]  # fmt: skip


def _machine(
    source: str,
    devices: Sequence[str],
    rows: dict[str, list[str]],
    places: dict[str, tuple[str, str]],
    names: dict[str, str],
) -> Machine:
    pairs = tuple(
        _connection(names.get(a, a), names.get(b, b), rows[a][j])
        for i, a in enumerate(devices)
        for j, b in enumerate(devices)
        if i < j
    )
    gpus = tuple(_gpu(device, *places[device]) for device in devices if device.startswith("GPU"))
    nics = tuple(
        Nic(names.get(each, each), rdma=not is_interface(names.get(each, each)))
        for each in devices
        if not each.startswith("GPU")
    )
    numa: dict[int, NumaNode] = {
        gpu.numa: NumaNode(gpu.numa, gpu.cpus) for gpu in gpus if gpu.numa is not None and gpu.cpus
    }
    machine = Machine(source, gpus, nics, tuple(numa.values()), pairs)
    return replace(machine, gpus=tuple(replace(gpu, nvlinks=_nvlinks(machine, gpu)) for gpu in gpus))


def _gpu(device: str, cpus: str, numa: str) -> Gpu:
    return Gpu(
        index=int(device.removeprefix("GPU")),
        # A range of NUMA nodes (0-3) says that the machine hides which.
        numa=int(numa) if numa.isdecimal() and len(numa) < 5 else None,
        cpus=read_list(cpus) if cpus[:1].isdecimal() else (),
    )


def _connection(a: str, b: str, cell: str) -> Connection:
    found = _CELL.fullmatch(cell)
    if found and found[1]:
        return Connection(a, b, PathType.NVLINK, int(found[1]))
    return Connection(a, b, PathType.SYS if cell == "SOC" else PathType(cell))  # SOC: SYS before driver 387


def _nvlinks(machine: Machine, gpu: Gpu) -> tuple[NvLinks, ...]:
    """Links to peers. Where every peer has as many and there are more than two GPUs, only a switch can do that.

    A cell shows the fewer links of the two GPUs, so a GPU has as many as the best of its cells: a peer with links down
    hides behind the least of them.
    """
    counts = {
        peer: pair.nvlinks
        for peer in machine.gpus
        if peer != gpu and (pair := machine.between(gpu.key, peer.key)) is not None and pair.nvlinks
    }
    if len(counts) > 1 and len(counts) == len(machine.gpus) - 1 and min(counts.values()) >= 6:
        return (NvLinks(SWITCH, max(counts.values())),)
    return tuple(NvLinks(peer.bus_id or peer.key, count) for peer, count in counts.items())


def write_matrix(machine: Machine, width: int = 80) -> list[str]:
    """The matrix as lines of at most `width` columns: blocks of columns where it is wider, without the legend."""
    devices: list[Gpu | Nic] = [*machine.gpus, *machine.nics]
    labels = _labels(machine)
    cells = [[_cell(machine, device, other) for other in devices] for device in devices]
    sizes = [max(len(label), *(len(row[i]) for row in cells)) for i, label in enumerate(labels)]
    first = max(map(len, labels), default=0)
    lines: list[str] = []
    for block in _blocks(sizes, width - first):
        head = "".join(f"  {labels[i]:<{sizes[i]}}" for i in block)
        lines += [""] * bool(lines) + [f"{'':<{first}}{head}".rstrip()]
        for label, row in zip(labels, cells, strict=True):
            lines.append((f"{label:<{first}}" + "".join(f"  {row[i]:<{sizes[i]}}" for i in block)).rstrip())
    return lines


def _blocks(sizes: Sequence[int], room: int) -> list[list[int]]:
    blocks: list[list[int]] = []
    used = 0
    for i, size in enumerate(sizes):
        if not blocks or used + size + 2 > room:
            blocks.append([])
            used = 0
        blocks[-1].append(i)
        used += size + 2
    return blocks


def legend(machine: Machine) -> list[str]:
    """What the words of the matrix mean, and which device a short name stands for."""
    shown = {pair.path for pair in machine.connections} | {PathType.SELF}
    lines = [
        f"{'NV#' if path is PathType.NVLINK else path.value:<4}  {path.meaning}" for path in PathType if path in shown
    ]
    return lines + [f"{label:<4}  {nic.name}" for label, nic in _short_nics(machine) if label != nic.name]


def _cell(machine: Machine, a: Gpu | Nic, b: Gpu | Nic) -> str:
    pair = machine.between(a.key, b.key)
    return pair.text if pair is not None else "?"


def _labels(machine: Machine) -> list[str]:
    return [gpu.key for gpu in machine.gpus] + [label for label, _ in _short_nics(machine)]


def _short_nics(machine: Machine) -> list[tuple[str, Nic]]:
    return [(nic.name if len(nic.name) <= 6 else f"NIC{i}", nic) for i, nic in enumerate(machine.nics)]
