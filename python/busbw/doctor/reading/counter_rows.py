"""Rows of a table of ports' error counters, spelled out with the counters' own names."""

from __future__ import annotations

import re
from collections.abc import Sequence

_COUNTERS = (
    (re.compile(r"sym(?:bol)?(?:_?err\w{0,12})?", re.IGNORECASE), "SymbolErrorCounter"),
    (re.compile(r"(?:link_?)?(?:err(?:or)?_?)?recov\w{0,12}", re.IGNORECASE), "LinkErrorRecoveryCounter"),
    (re.compile(r"(?:link_?)?down(?:ed)?(?:_?\w{0,8})", re.IGNORECASE), "LinkDownedCounter"),
    (re.compile(r"(?:port_?)?rcv_?err\w{0,8}", re.IGNORECASE), "PortRcvErrors"),
    (re.compile(r"(?:port_?)?xmit_?disc\w{0,10}", re.IGNORECASE), "PortXmitDiscards"),
)
_FEWEST, _MOST_ROWS = 2, 4096


def with_counters(lines: Sequence[str]) -> list[str]:
    """The lines, each row below such a head with the name of each counter that counted anything."""
    said = list(lines)
    names: list[str] = []
    rows = 0
    for at, line in enumerate(lines):
        cells = [each for each in line.replace("|", " ").split() if each.strip("-+=")]
        if begun := _head(line, cells):
            names, rows, said[at] = begun, 0, ""
        elif names and len(cells) == len(names) and rows < _MOST_ROWS and any(map(str.isdecimal, cells)):
            said[at], rows = _spelled(names, cells), rows + 1
        elif cells:
            names = []
    return said


def _head(line: str, cells: Sequence[str]) -> list[str]:
    """The counter that each column holds, "" for another; nothing where the line is no head of such a table."""
    # A command that looks for such counters is quoted, and no table.
    if not 3 <= len(cells) <= 24 or any(each in line for each in "=:[{\"'") or any(map(str.isdecimal, cells)):
        return []
    names = [next((name for words, name in _COUNTERS if words.fullmatch(each)), "") for each in cells]
    return names if len(set(names) - {""}) >= _FEWEST else []


def _spelled(names: Sequence[str], cells: Sequence[str]) -> str:
    pairs = list(zip(names, cells, strict=True))
    counted = [f"{name}: {cell}" for name, cell in pairs if name and cell.isdecimal() and int(cell)]
    where = " ".join(cell for name, cell in pairs if not name and not cell.isdecimal())
    return f"{where}: {', '.join(counted)}" if counted else ""


_GPU = re.compile(r"\s{0,4}(?P<gpu>GPU \d{1,3}: .{3,60}?) \(UUID")
_OF_LINK = re.compile(r"\s{0,12}Link \d{1,2}: \w[\w ]{1,20}Err\w{0,4}(?: Count)?: [1-9]")


def with_gpus(lines: Sequence[str]) -> list[str]:
    """The lines, those of links that counted errors (`nvidia-smi nvlink -e`) behind their GPU's name."""
    said, gpu = list(lines), ""
    for at, line in enumerate(lines):
        if "GPU" in line and (found := _GPU.match(line)):
            gpu = found["gpu"]
        elif gpu and "Err" in line and _OF_LINK.match(line):
            said[at] = f"{gpu}| {line.strip()}"
    return said
