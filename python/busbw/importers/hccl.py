"""hccl_test of Ascend: a table of size, mean time, algorithm bandwidth and the result of its check."""

from __future__ import annotations

import re

from busbw.importers.collective import collective_of_file
from busbw.importers.context import Surroundings
from busbw.importers.draft import Draft, Sink
from busbw.importers.tool_table import OpenTable, op_of_collective
from busbw.importers.values import number, whole
from busbw.records import Case, Collective, Library, Tool
from busbw.records.bandwidth import bus_factor

FORMAT = "hccl_test"
_HEADER = re.compile(r"\s*data_size\s*\(Bytes\):?\s*\|\s*ave?g_time\s*\(us\):?\s*\|\s*alg_bandwidth\s*\(GB/s\)")
_ROW = re.compile(r"\s*(\d{1,18})\s*\|\s*([\d.]{1,20})\s*\|\s*([\d.]{1,20})\s*\|\s*(\w{1,20})\s*$")


class Parser:
    """Reads the table; the program is named by the command above, `--collective` or the file's name."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._table = OpenTable(sink)
        self._unchecked = False

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line belongs to this format."""
        if _HEADER.match(line):
            self._open(number_)
            return True
        row = _ROW.match(line) if self._table.draft is not None else None
        if row is None:
            return False
        self._row(row, line)
        return True

    def _open(self, number_: int) -> None:
        around = self._sink.sweep_starts()
        draft = Draft(FORMAT, Tool("hccl_test"), number_, _collective(around, self._sink), library=Library("HCCL"))
        self._table.open(draft, around)

    def _row(self, row: re.Match[str], line: str) -> None:
        draft, around = self._table.draft, self._table.around
        assert draft is not None and around is not None
        size, time, algbw = whole(row[1]), number(row[2]), number(row[3])
        collective = draft.collective or "all_reduce"
        ranks = around.command.ranks if around.command else None
        factor = bus_factor(collective, ranks) if ranks else None
        if size is None or algbw is None:
            return
        self._table.add(
            Case(
                run="", case=0, collective=collective, bytes=size, placement=None, outcome="measured", time_us=time,
                algbw_GBps=algbw, busbw_GBps=None if factor is None else round(algbw * factor, 6),
                op=op_of_collective(collective), wrong={"success": 0.0}.get(row[4].lower()),
                context={"check": "failed"} if row[4].lower() == "failed" else {},
                conversion="bus bandwidth from algorithm bandwidth and ranks",
            ),
            line.strip(),
        )  # fmt: skip

    def close(self) -> None:
        """The table ends."""
        self._table.close()


def _collective(around: Surroundings, sink: Sink) -> Collective | None:
    commanded = around.command.collective if around.command else None
    return commanded or sink.collective or collective_of_file(around.file)
