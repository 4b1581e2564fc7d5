"""The state of GPUs as people paste it: the table of `nvidia-smi`, and rows of its `--query-gpu=... --format=csv`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace

from busbw.machine.topology.gpu_state import GpuState
from busbw.machine.topology.model import PcieLink, normal_bus_id

MAX_GPUS = 64
MAX_COLUMNS = 64
_FIRST = re.compile(
    r"[|│]\s{1,6}(?P<index>\d{1,3})\s{1,4}(?P<name>\S[^|│]{2,60}?)\s+(?:On|Off|N/A)\s*[|│]\s*"
    r"(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s+\w{2,3}\s*[|│]\s*(?P<ecc>\d{1,9}|Off|N/A)\s*[|│]"
)
_SECOND = re.compile(
    r"[|│]\s*\S{1,8}\s+(?P<heat>\d{1,3})C\s+P(?P<state>\d{1,2})\s[^|│]{1,60}[|│]\s*(?P<used>\d{1,8})MiB\s*/\s*"
    r"(?P<total>\d{1,8})MiB\s*[|│]\s*(?:(?P<busy>\d{1,3})%|N/A)"
)
_THIRD = re.compile(r"[|│]\s+[|│]\s+[|│]\s+(?P<mig>Enabled|Disabled)\*?\s*[|│]")
_COLUMN = re.compile(r"[a-z][a-z0-9_]{1,40}(?:\.[a-z0-9_]{1,40}){0,5}(?: \[[\w/% ]{1,12}\])?")
_NUMBER = re.compile(r"-?\d{1,12}(?:\.\d{1,4})?")


def read_table(lines: Sequence[str]) -> tuple[GpuState, ...]:
    """Every GPU of the first table of `nvidia-smi` in these lines; none where there is no table."""
    found: dict[int, GpuState] = {}
    last: int | None = None
    for line in lines:
        if "|" not in line and "│" not in line:
            continue
        if row := _FIRST.match(line.strip()):
            last = int(row["index"])
            if last in found or len(found) >= MAX_GPUS:
                last = None
                continue
            ecc = int(row["ecc"]) if row["ecc"].isdecimal() else None
            found[last] = GpuState(last, normal_bus_id(row["bus"]), row["name"].strip(), ecc_uncorrected=ecc)
        elif last is not None and (row := _SECOND.match(line.strip())):
            found[last] = replace(
                found[last],
                temperature_C=float(row["heat"]),
                pstate=int(row["state"]),
                memory_used_MiB=float(row["used"]),
                memory_total_MiB=float(row["total"]),
                utilisation_percent=float(row["busy"]) if row["busy"] else None,
            )
        elif last is not None and (row := _THIRD.match(line.strip())):
            found[last] = replace(found[last], mig=row["mig"] == "Enabled")
            last = None
    return tuple(found[index] for index in sorted(found))


def read_queried(lines: Sequence[str]) -> tuple[GpuState, ...]:
    """Every GPU of tables of commas that `nvidia-smi --query-gpu` printed, which names its columns itself."""
    found: dict[int, GpuState] = {}
    for names, cells in _rows(lines):
        said = dict(zip(names, cells, strict=True))
        index = said.get("index", "")
        if index.isdecimal() and len(index) < 4 and len(found) < MAX_GPUS:
            state = _queried(int(index), said)
            found[state.index] = merged(found[state.index], state) if state.index in found else state
    return tuple(found[index] for index in sorted(found))


def is_queried(line: str) -> bool:
    """Whether the line names columns of such a table."""
    cells = [each.strip() for each in line.split(",", MAX_COLUMNS)]
    return len(cells) > 1 and "index" in cells and all(map(_COLUMN.fullmatch, cells))


def is_row(line: str) -> bool:
    """Whether the line is one of those of the table of `nvidia-smi` that tell of a GPU."""
    return any(each.match(line.strip()) for each in (_FIRST, _SECOND, _THIRD))


def merged(first: GpuState, second: GpuState) -> GpuState:
    """What either says of one GPU; where both say something the first counts."""
    empty = GpuState(first.index)
    filled = {
        each.name: getattr(second, each.name)
        for each in fields(GpuState)
        if getattr(first, each.name) == getattr(empty, each.name)
    }
    return replace(first, **filled)


def _rows(lines: Sequence[str]) -> Iterator[tuple[list[str], list[str]]]:
    names: list[str] = []
    for line in lines:
        if "," not in line:
            names = []
        elif is_queried(line):
            names = [each.strip().partition(" ")[0] for each in line.split(",", MAX_COLUMNS)]
        elif names and len(cells := [each.strip() for each in line.split(",", MAX_COLUMNS)]) == len(names):
            yield names, cells
        else:
            names = []


def _queried(index: int, said: dict[str, str]) -> GpuState:
    def number(*names: str) -> float | None:
        for name in names:
            if (cell := _NUMBER.match(said.get(name, ""))) is not None:
                return float(cell[0])
        return None

    def whole(*names: str) -> int | None:
        value = number(*names)
        return int(value) if value is not None and value >= 0 else None

    state = re.fullmatch(r"P(\d{1,2})", said.get("pstate", ""))
    bus = said.get("pci.bus_id") or said.get("gpu_bus_id")
    mig = said.get("mig.mode.current")
    return GpuState(
        index,
        normal_bus_id(bus) if bus else None,
        said.get("name") or said.get("gpu_name"),
        pcie=PcieLink(
            whole("pcie.link.gen.current", "pcie.link.gen.gpucurrent"),
            whole("pcie.link.width.current"),
            whole("pcie.link.gen.max", "pcie.link.gen.gpumax"),
            whole("pcie.link.width.max"),
        ),
        utilisation_percent=number("utilization.gpu"),
        memory_used_MiB=number("memory.used"),
        memory_total_MiB=number("memory.total"),
        pstate=int(state[1]) if state else None,
        temperature_C=number("temperature.gpu"),
        mig=mig == "Enabled" if mig in {"Enabled", "Disabled"} else None,
        ecc_uncorrected=whole("ecc.errors.uncorrected.volatile.total"),
    )
