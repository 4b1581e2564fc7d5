"""DeepSpeed's communication benchmark: one table per collective, sizes of one rank, units in its header."""

from __future__ import annotations

import re

from busbw.base.secrets import shortened
from busbw.importers.context import Surroundings
from busbw.importers.draft import Draft, Sink
from busbw.importers.values import collective_named, number, whole
from busbw.records import Case, Collective, Tool
from busbw.records.bandwidth import GBps_from_Gbps, algbw_GBps

FORMAT = "DeepSpeed communication benchmark"

_START = re.compile(r"\s*-{3,}\s*Performance of (\w{3,20}) on (\d{1,7}) devices\s*-*\s*$")
_HEADER = re.compile(
    r"\s*Size(?: \(Bytes\))?\s+Description\s+Duration(?P<raw> \(us\))?\s+"
    r"Throughput \((?P<unit>G[bB]ps)\)\s+BusBW \(G[bB]ps\)\s*$"
)
_ROW = re.compile(
    r"\s*(?P<size>[\d.]{1,20}(?: [KMGTP]?B)?)\s+(?P<count>\d{1,15})x(?P<element>\d{1,3})\s+"
    r"(?P<duration>[\d.]{1,20})\s*(?P<time_unit>us|ms|s)?\s+(?P<throughput>[\d.]{1,20})\s+(?P<busbw>[\d.]{1,20})\s*$"
)
_TO_US = {"us": 1.0, "ms": 1e3, "s": 1e6}


class Parser:
    """Reads tables; a new one, or a line that is no row, ends the one before."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._draft: Draft | None = None
        self._around: Surroundings | None = None
        self._name = ""
        self._unit: str | None = None
        self._raw = False

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line belongs to this format."""
        start = _START.match(line) if "Performance of" in line else None
        if start:
            self._open(start, number_)
            return True
        if self._draft is None:
            return False
        header = _HEADER.match(line)
        if header:
            self._unit, self._raw = header["unit"], header["raw"] is not None
            return True
        if line.strip("- \t") == "":
            return True
        return self._row_line(line, number_)

    def _row_line(self, line: str, number_: int) -> bool:
        row = _ROW.match(line)
        if row:
            self._row(row, line, number_)
            return True
        if re.match(r"\s*[\d.]+ ?[KMGT]?B?\s+\d+x", line):
            self._sink.problem(number_, f"looks like a row, but cannot be read: {shortened(line.strip(), 80)!r}")
            return True
        return False

    def _open(self, start: re.Match[str], number_: int) -> None:
        self.close()
        self._name = start[1]
        collective: Collective | None = "sendrecv" if start[1] == "pt2pt" else collective_named(start[1])
        if collective is None:
            self._sink.problem(number_, f"a benchmark of {start[1]}, which busbw has no collective for")
            return
        self._around = self._sink.sweep_starts()
        self._unit = None
        self._draft = Draft(FORMAT, Tool("DeepSpeed communication benchmark"), number_, collective, size=int(start[2]))

    def _row(self, row: re.Match[str], line: str, number_: int) -> None:
        draft = self._draft
        assert draft is not None and draft.collective is not None and draft.size is not None
        duration, busbw = number(row["duration"]), number(row["busbw"])
        count, element = whole(row["count"]) or 0, whole(row["element"]) or 0
        unit = "us" if self._raw and not row["time_unit"] else row["time_unit"]
        if duration is None or busbw is None or not element or unit is None or self._unit is None:
            self._sink.problem(number_, "a row without the units that its header should name")
            return
        conversion = ["bandwidth from size and time"]
        # The tool's size is one rank's input; nccl-tests counts the whole payload of a gather.
        payload = count * element * (draft.size if draft.collective in ("all_gather",) else 1)
        if draft.collective == "all_gather":
            conversion.append(f"size times {draft.size} ranks (the tool gives one rank's part)")
        if draft.collective == "all_reduce":
            conversion.append("algorithm bandwidth not the tool's throughput, which counts the size twice")
        if self._unit == "Gbps":
            busbw = GBps_from_Gbps(busbw)
            conversion.append("bus bandwidth from Gbps")
        time = duration * _TO_US[unit]
        algbw = algbw_GBps(draft.collective, payload, time, draft.size)
        draft.cases.append(Case(
            run="", case=0, collective=draft.collective, bytes=payload, placement=None, outcome="measured",
            time_us=time, algbw_GBps=None if algbw is None else round(algbw, 6),
            busbw_GBps=round(busbw, 6), count=count,
            op="sum" if draft.collective in ("all_reduce", "reduce_scatter", "reduce") else None,
            average="rank0", conversion="; ".join(conversion),
        ))  # fmt: skip
        draft.rows += 1
        draft.content.append(f"{self._name} {line.strip()}")
        if draft.rows == 1:
            draft.notes.append(f"the element type is not printed: {element} bytes each")

    def close(self) -> None:
        """The table ends."""
        if self._draft is not None and self._around is not None:
            if self._draft.cases:
                self._sink.sweep_ends(self._draft, self._around)
            else:
                self._sink.problem(self._draft.line, "a table starts here, but holds no rows")
        self._draft = self._around = None
