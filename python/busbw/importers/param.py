"""PARAM's comms.py: rows of COMMS-RES, with percentiles over ranks."""

from __future__ import annotations

import re

from busbw.importers.draft import Draft, Sink
from busbw.importers.tool_table import OpenTable, op_of_collective
from busbw.importers.torch_names import torch_collective, torch_type
from busbw.importers.values import number, whole
from busbw.records import Case, Tool

FORMAT = "PARAM comms benchmark"

_HEADER = re.compile(r"\s*COMMS-RES\s+(?P<names>total-size \(B\)|size \(B\))")
_ROW = re.compile(
    r"\s*COMMS-RES-(?P<name>[a-z][a-z_0-9]{1,60})-(?P<type>[a-z0-9_]{2,40})(?P<tag>-[^\s]{1,80}?)?\s+(?P<size>\d{1,18})"
    r"\s+(?P<count>\d{1,18})(?P<figures>(?:\s+[\d.]{1,30}){7,8})\s*$"
)
_OTHER = re.compile(r"\s*COMMS-RES-(?:QUANT-)?(\w{1,60})")
_GROUP = re.compile(r"groupSize (\d{1,7})|['\"]world_size['\"]: (\d{1,7})")


class Parser:
    """Reads rows; another collective or type is another run."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._table = OpenTable(sink)
        self._ranks: int | None = None
        self._key: tuple[str, str, str | None] | None = None

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line belongs to this format."""
        if "groupSize " in line or "world_size" in line:
            found = _GROUP.search(line)
            if found:
                self._ranks = int(found[1] or found[2])
            return found is not None and "allSizes" in line
        if "COMMS-RES" not in line:
            return False
        row = _ROW.match(line)
        if row:
            return self._row(row, line, number_)
        if _HEADER.match(line):
            self.close()
            return True
        other = _OTHER.match(line)
        if other:
            self._sink.problem(number_, f"a row of PARAM's {other[1]}, which is no collective with bus bandwidth")
        return other is not None

    def _row(self, row: re.Match[str], line: str, number_: int) -> bool:
        collective, dtype = torch_collective(row["name"]), torch_type(row["type"])
        figures = [number(each) for each in row["figures"].split()]
        size = whole(row["size"])
        if collective is None or size is None or None in figures:
            self._sink.problem(number_, f"a row of PARAM's {row['name']}, which busbw has no collective for")
            return True
        key = (row["name"], row["type"], row["tag"])
        if key != self._key:
            self._key = key
            draft = Draft(FORMAT, Tool("PARAM comms"), number_, collective, size=self._ranks)
            draft.notes.append("times are the median over ranks of each rank's mean")
            self._table.open(draft, self._sink.sweep_starts())
        time, p75, p95, low, high, algbw, busbw = figures[:7]
        assert low is not None and high is not None
        self._table.add(
            Case(
                run="",
                case=0,
                collective=collective,
                bytes=size,
                placement=None,
                outcome="measured",
                time_us=time,
                algbw_GBps=algbw,
                busbw_GBps=busbw,
                type=dtype or row["type"],
                op=op_of_collective(collective),
                count=whole(row["count"]),
                range={"time_us": (low, high)},
                context={"p75_us": p75, "p95_us": p95},
                variant=row["tag"].lstrip("-") if row["tag"] else None,
            ),
            line.strip(),
        )
        return True

    def close(self) -> None:
        """The table ends."""
        self._table.close()
        self._key = None
