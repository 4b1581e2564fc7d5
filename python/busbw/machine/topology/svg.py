"""Machines and channels as SVG: boxes for NUMA nodes and switches, devices in them, NVLinks as lines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from xml.sax.saxutils import escape

from busbw.machine.nccl.graph_file import GraphFile
from busbw.machine.topology.model import SWITCH, Connection, Gpu, Machine, Nic, PathType

_BOX_W, _BOX_H, _GAP = 110, 44, 16
_RISE, _LEVELS = 18, 16
_STYLE = (
    "text{font:12px sans-serif;fill:#222}.s{font-size:10px;fill:#555}.n{fill:#f4f6f8;stroke:#9aa5b1}"
    ".w{fill:#e6eaee;stroke:#9aa5b1}.g{fill:#d9ead3;stroke:#4d8b31}.i{fill:#dbe7f5;stroke:#3b6ea5}"
    ".v{fill:#fde9c9;stroke:#b9770e}.l{stroke:#b9770e;fill:none}.e{stroke:#3b6ea5;fill:none}"
)
Device = Gpu | Nic


def machine_svg(machine: Machine) -> str:
    """The machine: NVLinks above; below them a box per NUMA node and host bridge, GPUs in its first row, then NICs."""
    direct = [pair for pair in machine.connections if _is_direct(machine, pair)]
    switched = [gpu for gpu in machine.gpus if _has_switch(gpu)]
    top = 44.0 + (44 if switched else 0) + _RISE * min(len(direct), _LEVELS) + 12
    boxes: list[str] = []
    places: dict[str, tuple[float, float]] = {}
    x, bottom = 10.0, top
    for title, devices in _groups(machine):
        across = max(min(len([each for each in devices if isinstance(each, Gpu)]) or len(devices), 8), 2)
        rows = [*_rows([each for each in devices if isinstance(each, Gpu)], across)]
        rows += _rows([each for each in devices if isinstance(each, Nic)], across)
        wide, height = across * (_BOX_W + _GAP) + _GAP, len(rows) * (_BOX_H + _GAP) + 40
        boxes += [_rect(x, top, wide, height, "n"), _text(x + 12, top + height - 12, title)]
        for r, row in enumerate(rows):
            for c, device in enumerate(row):
                place = (x + _GAP + c * (_BOX_W + _GAP), top + _GAP + r * (_BOX_H + _GAP))
                boxes += _device(device, *place)
                places[device.key] = (place[0] + _BOX_W / 2, place[1])
        x, bottom = x + wide + 12, max(bottom, top + height)
    title = f"{machine.source}: GPUs: {len(machine.gpus)}, NICs: {len(machine.nics)}"
    width = max(x, 8.0 * len(title) + 20)
    lines = _to_switch(switched, places, x) + _between_gpus(direct, places, top)
    return _svg(width, bottom + 10, [_text(10, 20, title), *boxes, *lines])


def graph_svg(file: GraphFile) -> str:
    """The channels of every graph: GPUs on a circle, lines with the number of channels that run along them."""
    parts = [_text(10, 20, file.source)]
    x = 10.0
    for graph in [each for each in file.graphs if each.channels][:8]:
        gpus = sorted({gpu for channel in graph.channels for gpu in channel.gpus})[:64]
        centre, radius = (x + 150, 190.0), 105.0
        around = {gpu: _on_circle(centre, radius, i, len(gpus)) for i, gpu in enumerate(gpus)}
        hops = Counter(
            (a, b)
            for channel in graph.channels
            for a, b in zip(channel.gpus, channel.gpus[1:] + (channel.gpus[:1] if graph.id == 0 else ()), strict=False)
            if a in around and b in around and a != b
        )
        for (a, b), count in hops.items():
            parts += _edge(around[a], around[b], f"{count}")
        parts += [_circle(*around[gpu], str(gpu)) for gpu in gpus]
        label = f"{graph.name}: {len(graph.channels)} x {graph.speed_intra_GBps:g} GB/s, {graph.type_intra}"
        parts.append(_text(x, 48, label))
        x += 310
    return _svg(max(x, 320), 340, parts)


def _groups(machine: Machine) -> list[tuple[str, list[Device]]]:
    devices: list[Device] = [*machine.gpus, *machine.nics]
    names: dict[tuple[int, str], list[Device]] = {}
    for device in devices:
        numa = -1 if device.numa is None else device.numa
        names.setdefault((numa, " / ".join(device.bridges)), []).append(device)
    return [
        ((f"NUMA node {numa}" if numa >= 0 else "NUMA node unknown") + (f", {way}" if way else ""), found)
        for (numa, way), found in sorted(names.items(), key=lambda item: item[0])
    ]


def _rows(devices: Sequence[Device], across: int) -> list[Sequence[Device]]:
    return [devices[i : i + across] for i in range(0, len(devices), across)]


def _to_switch(gpus: Sequence[Gpu], places: dict[str, tuple[float, float]], width: float) -> list[str]:
    if not gpus:
        return []
    parts = [_rect(10, 36, width - 22, 26, "v"), _text(22, 53, "NVSwitch")]
    for gpu in gpus:
        x, y = places[gpu.key]
        count = sum(link.count for link in gpu.nvlinks if link.target == SWITCH)
        parts += [_line(f"M{x:.0f} {y:.0f}V62"), _text(x + 4, y - 20, f"NV{count}", "s")]
    return parts


def _between_gpus(pairs: Sequence[Connection], places: dict[str, tuple[float, float]], top: float) -> list[str]:
    parts = []
    for i, pair in enumerate(pairs):
        (x, y), (right, other) = places[pair.a], places[pair.b]
        # Side by side at the top of the box, so that several links of one GPU can be told apart.
        shift = 6 * (i % 9 - 4)
        height = top - 8 - _RISE * (i % _LEVELS)
        parts.append(_line(f"M{x + shift:.0f} {y:.0f}V{height:.0f}H{right + shift:.0f}V{other:.0f}"))
        parts.append(_text((x + right) / 2 + shift - 12, height - 3, pair.text, "s"))
    return parts


def _line(path: str) -> str:
    return f'<path class="l" d="{path}"/>'


def _is_direct(machine: Machine, pair: Connection) -> bool:
    ends = [gpu for gpu in machine.gpus if gpu.key in {pair.a, pair.b}]
    return pair.path is PathType.NVLINK and not all(_has_switch(gpu) for gpu in ends)


def _has_switch(gpu: Gpu) -> bool:
    return any(link.target == SWITCH for link in gpu.nvlinks)


def _device(device: Device, x: float, y: float) -> list[str]:
    gpu = isinstance(device, Gpu)
    second = device.bus_id or (device.name if gpu else "") or ""
    return [
        _rect(x, y, _BOX_W, _BOX_H, "g" if gpu else "i"),
        _text(x + 8, y + 18, device.key[:16]),
        _text(x + 8, y + 34, second[:18], "s"),
    ]


def _edge(start: tuple[float, float], end: tuple[float, float], label: str) -> list[str]:
    (x, y), (to_x, to_y) = start, end
    # Bent to the right of its direction, so that both directions can be seen.
    bend_x, bend_y = (x + to_x) / 2 + (y - to_y) * 0.12, (y + to_y) / 2 + (to_x - x) * 0.12
    path = f'<path class="e" d="M{x:.0f} {y:.0f}Q{bend_x:.0f} {bend_y:.0f} {to_x:.0f} {to_y:.0f}"/>'
    return [path, _text(bend_x - 4, bend_y + 4, label, "s")]


def _on_circle(centre: tuple[float, float], radius: float, i: int, count: int) -> tuple[float, float]:
    angle = 2 * math.pi * i / max(count, 1) - math.pi / 2
    return centre[0] + radius * math.cos(angle), centre[1] + radius * math.sin(angle)


def _circle(x: float, y: float, label: str) -> str:
    return f'<circle class="g" cx="{x:.0f}" cy="{y:.0f}" r="15"/>' + _text(x - 4 * len(label), y + 4, label)


def _rect(x: float, y: float, width: float, height: float, style: str) -> str:
    return f'<rect class="{style}" x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" rx="4"/>'


def _text(x: float, y: float, text: str, style: str = "") -> str:
    shown = escape("".join(c if c.isprintable() else "\ufffd" for c in text))
    kind = f' class="{style}"' if style else ""
    return f'<text{kind} x="{x:.0f}" y="{y:.0f}">{shown}</text>'


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{_STYLE}</style>\n{body}\n</svg>\n'
