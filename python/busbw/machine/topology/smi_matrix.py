"""Reads and writes the matrix of `nvidia-smi topo -m`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from busbw.base.errors import UserError
from busbw.machine.topology.cpulist import read_list
from busbw.machine.topology.matrix_rows import CELL, Rows, read_rows
from busbw.machine.topology.model import SWITCH, Connection, Gpu, Machine, Nic, NumaNode, NvLinks, PathType
from busbw.machine.topology.names import carries_sockets, is_interface
from busbw.machine.topology.pasted import plain_lines

_LEGEND = re.compile(r"\s*(NIC\d{1,3}):\s+(\S{1,64})\s*$")
_CELL = CELL
_MAX_LINES = 5000
_MOST_LINKS = 18
_SWITCHED = 6


def read_matrix(text: str, source: str) -> Machine:
    """The machine that the matrix shows; UserError where there is none."""
    lines = plain_lines(text, _MAX_LINES)
    found = read_rows(lines, source)
    names = {legend[1]: legend[2] for line in lines if (legend := _LEGEND.fullmatch(line))}
    rows = dict(found.cells)
    _fill_by_symmetry(found.devices, rows)
    missing = [device for device in found.devices if device not in rows]
    if missing:
        raise UserError(f"{source}: the matrix has no row for {', '.join(missing[:8])}; is it cut off?")
    _refuse_damaged(found, source)
    places = {device: _place(found, device) for device in found.cells}
    return _machine(source, found.devices, rows, places, names)


def _refuse_damaged(found: Rows, source: str) -> None:
    """UserError where a device does not reach itself as X, or two reach each other in two ways: nobody prints that."""
    at = {device: i for i, device in enumerate(found.devices)}
    for device, cells in found.cells.items():
        for other, cell in zip(found.devices, cells, strict=True):
            where = f"{source}:{found.lines[device]}"
            if (cell == "X") != (device == other):
                to = "itself" if device == other else other
                raise UserError(f"{where}: {device} reaches {to} as {cell}; the matrix is damaged or edited")
            back = found.cells.get(other)
            if back is not None and back[at[device]] != cell:
                raise UserError(
                    f"{where}: {device} reaches {other} as {cell}, and {other} reaches {device} as "
                    f"{back[at[device]]}; the matrix is damaged or edited"
                )


def _place(found: Rows, device: str) -> tuple[str, str]:
    """Processors and NUMA node of a row, by the words of the heading."""
    rest = found.rest[device]
    if found.columns and found.columns[0] == "NUMA":
        return "", rest[0] if rest else ""
    return rest[0] if rest else "", rest[1] if len(rest) > 1 else ""


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
        Nic(name := names.get(each, each), rdma=not (is_interface(name) or carries_sockets(name)))
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
        numa=_numa(numa),
        cpus=read_list(cpus) if cpus[:1].isdecimal() else (),
        c2c=_holds_memory(numa),
    )


def _holds_memory(said: str) -> bool:
    """Whether NUMA nodes of GPUs' memory stand beside the processor's (0,2-17): such GPUs hang at it by C2C."""
    first, comma, rest = said.partition(",")
    return bool(comma) and first.isdecimal() and rest[:1].isdecimal()


def _numa(said: str) -> int | None:
    """A range of NUMA nodes (0-3) says that the machine hides which; of a list (0,3-9) the others are GPUs' memory."""
    first, comma, _ = said.partition(",")
    return int(first) if first.isdecimal() and len(first) < 5 and (comma or first == said) else None


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
    # No GPU has more links of its own. A peer that shows none (MIG, a GPU that is lost) changes nothing of it.
    if len(counts) > 1 and (sum(counts.values()) > _MOST_LINKS or _all_alike(counts, len(machine.gpus) - 1)):
        return (NvLinks(SWITCH, max(counts.values())),)
    return tuple(NvLinks(peer.bus_id or peer.key, count) for peer, count in counts.items())


def _all_alike(counts: dict[Gpu, int], peers: int) -> bool:
    """Whether all peers have so many links that only a switch gives them; boards of four join each pair by six."""
    least = min(counts.values())
    return len(counts) == peers and least >= _SWITCHED and not (peers == 3 and sum(counts.values()) <= _MOST_LINKS)


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
