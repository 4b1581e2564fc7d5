"""ucc_perftest: a table of one collective, with bus bandwidth where -F asks for it."""

from __future__ import annotations

import re

from busbw.base.secrets import shortened
from busbw.importers.draft import Draft, Sink
from busbw.importers.shape import ranks_of_ratio
from busbw.importers.tool_table import OpenTable, bandwidths
from busbw.importers.torch_names import torch_type
from busbw.importers.values import collective_named, number, whole
from busbw.records import Case, Collective, Library, Placement, Tool

FORMAT = "ucc_perftest"

_FIELD = re.compile(r"(Collective|Memory type|Datatype|Reduction|Inplace):\s{1,24}(\S{1,40})\s*$")
_HEADER = re.compile(r"\s*Count\s+Size\s+Time, us(\s+(?:Bus )?Bandwidth, GB/s)?\s*$")
_ROW = re.compile(r"\s*(\d{1,18}|N/A)\s+(\d{1,18}|N/A)((?:\s+(?:[\d.]{1,30}|N/A|inf|-?nan)){3,6})\s*$")
_TIMES_RANKS = frozenset({"all_gather", "gather", "scatter"})
"""UCC's size is the part of one rank here."""
_SCALE = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "alltoall": 1.0}


class Parser:
    """Reads the fields above the table, then its rows."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._table = OpenTable(sink)
        self._fields: dict[str, str] = {}
        self._collective: Collective | None = None

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line belongs to this format."""
        field = _FIELD.match(line) if line[:1] in "CMDRI" and ":" in line else None
        if field:
            if field[1] == "Collective":
                self.close()
                self._fields = {}
            self._fields[field[1]] = field[2]
            return True
        if self._fields and _HEADER.match(line):
            self._open(number_)
            return True
        if self._table.draft is None:
            return False
        row = _ROW.match(line)
        if row:
            self._row(row, line, number_)
            return True
        if line.startswith("Total time:"):
            self.close()
            return True
        return line.split()[:3] == ["avg", "min", "max"]

    def _open(self, number_: int) -> None:
        name = self._fields.get("Collective", "")
        self._collective = collective_named(
            re.sub(r"(?<=[a-z])v$", "", name.lower()) if name.lower() != "alltoallv" else name
        )
        if self._collective is None:
            self._sink.problem(number_, f"ucc_perftest of {name[:40]}, which busbw has no collective for")
            self._fields = {}
            return
        draft = Draft(FORMAT, Tool("ucc_perftest"), number_, self._collective, library=Library("UCC"))
        draft.options = {"memory": self._fields["Memory type"]} if "Memory type" in self._fields else {}
        self._table.open(draft, self._sink.sweep_starts())

    def _row(self, row: re.Match[str], line: str, number_: int) -> None:
        draft, around, collective = self._table.draft, self._table.around, self._collective
        assert draft is not None and around is not None and collective is not None
        figures = [number(each) for each in row[3].split()]
        time, low, high = figures[:3]
        size = 0 if row[2] == "N/A" else whole(row[2])
        if size is None or time is None or time <= 0:
            self._sink.problem(number_, f"a row of the table that cannot be read: {shortened(line.strip(), 80)!r}")
            return
        busbw = figures[3] if len(figures) > 3 else None
        draft.size = (
            draft.size or (around.command.ranks if around.command else None) or _ranks_of(collective, size, time, busbw)
        )
        ranks = draft.size
        conversion = "time is the mean over ranks"
        if collective in _TIMES_RANKS and ranks:
            size *= ranks
            conversion += f"; size times {ranks} ranks (the tool gives the part of one)"
        elif collective in _TIMES_RANKS:
            conversion += "; size is the part of one rank: nothing names the number of ranks"
        algbw, derived = bandwidths(collective, size, time, ranks)
        placement: Placement | None = {"0": "out_of_place", "1": "in_place"}.get(self._fields.get("Inplace", ""))  # type: ignore[assignment]
        self._table.add(
            Case(
                run="",
                case=0,
                collective=collective,
                bytes=size,
                placement=placement,
                outcome="measured",
                time_us=time,
                algbw_GBps=algbw,
                busbw_GBps=derived if busbw is None else busbw,
                average="mean",
                type=torch_type(self._fields.get("Datatype", "")),
                count=whole(row[1]),
                op=None if self._fields.get("Reduction") in (None, "N/A") else self._fields["Reduction"].lower(),
                range={"time_us": (low, high)} if low is not None and high is not None else {},
                conversion=conversion,
            ),
            line.strip(),
        )

    def close(self) -> None:
        """The table ends."""
        self._table.close()


def _ranks_of(collective: Collective, size: int, time: float, busbw: float | None) -> int | None:
    """Ranks from the bus bandwidth over size and time, which are the tool's own where the size is the whole."""
    scale = _SCALE.get(collective)
    if busbw is None or scale is None or collective in _TIMES_RANKS or size / time < 1000:
        return None
    return ranks_of_ratio(size / time / 1000, busbw, scale)
