"""Reads `nvidia-smi -q` as text: the state of every GPU, by the words that stand above each value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from busbw.machine.topology.gpu_state import GpuState
from busbw.machine.topology.model import PcieLink, normal_bus_id

MAX_GPUS = 64
MAX_FIELDS = 2000
_BEGINS = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s*$")
_FIELD = re.compile(r"(?P<indent> {4,20})(?P<key>[A-Z][\w /().-]{1,60}?)(?:\s*: (?P<value>.{0,120}))?\s*$")
_NUMBER = re.compile(r"(\d{1,12}(?:\.\d{1,4})?)\b")


@dataclass
class _Section:
    """What is said of one GPU: each value behind the words above it."""

    bus_id: str
    said: dict[str, str] = field(default_factory=dict)


def read_text(lines: Sequence[str]) -> tuple[GpuState, ...]:
    """Every GPU of the listing, numbered as they stand; none where there is no listing."""
    return tuple(_state(index, each) for index, each in enumerate(_sections(lines)))


def begins(line: str) -> bool:
    """Whether a GPU's part of the listing begins there."""
    return _BEGINS.match(line) is not None


def _sections(lines: Sequence[str]) -> Iterator[_Section]:
    now: _Section | None = None
    count = 0
    above: list[tuple[int, str]] = []
    for line in lines:
        if start := _BEGINS.match(line):
            if now is not None and now.said:
                yield now
                count += 1
            now, above = _Section(normal_bus_id(start[1])), []
            if count >= MAX_GPUS:
                return
        elif now is None:
            continue
        elif line.strip() and not line.startswith("    "):
            if now.said:
                yield now
                count += 1
            now = None
        elif (row := _FIELD.match(line)) is not None:
            depth = len(row["indent"])
            above = [each for each in above if each[0] < depth]
            if row["value"] is None:
                above.append((depth, row["key"].strip()))
            elif len(now.said) < MAX_FIELDS:
                path = "/".join([*(each for _, each in above), row["key"].strip()])
                now.said.setdefault(path, row["value"].strip())
    if now is not None and now.said and count < MAX_GPUS:
        yield now


def _state(index: int, section: _Section) -> GpuState:
    said = section.said

    def number(*names: str) -> float | None:
        for name in names:
            if (found := _NUMBER.match(said.get(name, ""))) is not None:
                return float(found[1])
        return None

    def whole(*names: str) -> int | None:
        value = number(*names)
        return None if value is None else int(value)

    def lanes(name: str) -> int | None:
        found = re.match(r"(\d{1,2})x", said.get(name, ""))
        return int(found[1]) if found else None

    state = re.fullmatch(r"P(\d{1,2})", said.get("Performance State", ""))
    mig = said.get("MIG Mode/Current")
    link = "PCI/GPU Link Info"
    idle = said.get("Clocks Event Reasons/Idle") or said.get("Clocks Throttle Reasons/Idle")
    return GpuState(
        index,
        section.bus_id,
        said.get("Product Name"),
        pcie=PcieLink(
            whole(f"{link}/PCIe Generation/Current", f"{link}/PCIe Generation/Device Current"),
            lanes(f"{link}/Link Width/Current"),
            whole(f"{link}/PCIe Generation/Max"),
            lanes(f"{link}/Link Width/Max"),
        ),
        utilisation_percent=number("Utilization/GPU", "Utilization/Gpu"),
        memory_used_MiB=number("FB Memory Usage/Used"),
        memory_total_MiB=number("FB Memory Usage/Total"),
        bar1_MiB=number("BAR1 Memory Usage/Total"),
        pstate=int(state[1]) if state else None,
        slowdowns=("idle",) if idle == "Active" else (),
        mig=mig == "Enabled" if mig in {"Enabled", "Disabled"} else None,
    )
