"""DeepSpeed's communication logger in a training job: its summary table, and the line of each call."""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.base.secrets import shortened
from busbw.importers.draft import Draft, Sink
from busbw.importers.samples_of_calls import Call, Calls
from busbw.importers.shape import ranks_of_ratio
from busbw.importers.tool_table import OpenTable, op_of_collective
from busbw.importers.torch_names import torch_collective
from busbw.importers.values import number
from busbw.records import Case, Collective, Tool
from busbw.records.bandwidth import GBps_from_Gbps, bus_factor

FORMAT = "DeepSpeed communication logger"

_HEADER = re.compile(r"\s*Comm\. Op\s+Message Size\s+Count\s+Total Latency\(ms\)\s+Avg Latency\(ms\)")
_NAME = re.compile(r"([a-z][a-z_]{2,60})\s*$")
_SIZE = r"([\d.]{1,20}) ?([KMGTPE]?B)"
_ROW = re.compile(
    rf"\s*{_SIZE}\s+(\d{{1,12}})\s+([\d.]{{1,20}})\s+([\d.]{{1,20}})\s+([\d.]{{1,20}})\s+([\d.]{{1,20}})\s*$"
)
_CALL = re.compile(
    rf"comm op: ([a-z_]{{3,60}}) \| time \(ms\): ([\d.]{{1,20}}) \| msg size: {_SIZE} \| "
    r"algbw \(Gbps\): ([\d.]{1,20}) \| busbw \(Gbps\): ([\d.]{1,20})"
)
_POWER = {"B": 0, "KB": 1, "MB": 2, "GB": 3, "TB": 4, "PB": 5, "EB": 6}
_TIMES_RANKS = frozenset({"all_gather", "reduce_scatter"})
"""The logger counts one rank's part of these, and turns it into the whole for its bandwidths."""


@dataclass(frozen=True)
class _Figures:
    """One row or call: the size as it is shown, with bandwidths in Gbps."""

    collective: Collective
    size: int
    algbw: float
    busbw: float

    @property
    def ranks(self) -> int | None:
        """The logger's bus over algorithm bandwidth is (n - 1) / n, also for all-reduce, whose size it counts twice."""
        if self.collective in ("broadcast", "reduce", "gather", "scatter", "sendrecv", "barrier"):
            return None
        return ranks_of_ratio(self.algbw, self.busbw, 1.0)

    def payload(self, ranks: int | None) -> int:
        """Bytes as nccl-tests counts them."""
        return self.size * ranks if ranks and self.collective in _TIMES_RANKS else self.size


class Parser:
    """Reads the summary, or gathers the lines of calls."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._table = OpenTable(sink)
        self._in_table = False
        self._collective: Collective | None = None
        self._ranks: int | None = None
        self._calls = sink.shared(LoggedCalls)

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line belongs to this format."""
        if "comm op: " in line:
            call = _CALL.search(line)
            return call is not None and self._calls.take(call, number_)
        if "Comm. Op" in line and _HEADER.match(line):
            self.close()
            self._in_table = True
            return True
        if not self._in_table:
            return False
        row = _ROW.match(line)
        if row:
            self._row(row, line, number_)
            return True
        name = _NAME.match(line)
        if name:
            self._open(name[1], number_)
        elif line.strip():
            self.close()
        return name is not None

    def _open(self, name: str, number_: int) -> None:
        self._table.close()
        self._collective = torch_collective(name)
        if self._collective is None:
            self._sink.problem(number_, f"DeepSpeed's logger shows {name}, which busbw has no collective for")
            return
        draft = Draft(FORMAT, Tool("DeepSpeed communication logger"), number_, self._collective)
        self._table.open(draft, self._sink.sweep_starts())

    def _row(self, row: re.Match[str], line: str, number_: int) -> None:
        draft, collective = self._table.draft, self._collective
        if draft is None or collective is None:
            return
        shown, milliseconds, algbw, busbw = (number(row[at]) for at in (1, 5, 6, 7))
        if shown is None or not milliseconds or algbw is None or busbw is None:
            self._sink.problem(number_, f"a row of the table that cannot be read: {shortened(line.strip(), 80)!r}")
            return
        figures = _Figures(collective, round(shown * 1024 ** _POWER[row[2]]), algbw, busbw)
        # Every row's bandwidth is that of the world's size.
        self._ranks = self._ranks or figures.ranks
        draft.size = self._ranks
        factor = bus_factor(collective, draft.size) if draft.size else None
        self._table.add(
            Case(
                run="",
                case=0,
                collective=collective,
                bytes=figures.payload(draft.size),
                placement=None,
                outcome="measured",
                time_us=milliseconds * 1000,
                busbw_GBps=round(GBps_from_Gbps(busbw), 6),
                algbw_GBps=round(GBps_from_Gbps(busbw) / factor, 6) if factor else None,
                op=op_of_collective(collective),
                iterations=int(row[3]),
                average="rank0",
                conversion="Gbps by 8; size from text of two decimals"
                + (f", times {draft.size} ranks" if draft.size and collective in _TIMES_RANKS else ""),
            ),
            line.strip(),
        )

    def close(self) -> None:
        """The table ends."""
        self._table.close()
        self._in_table = False


class LoggedCalls:
    """The calls that the verbose logger prints one by one."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._calls = Calls()
        self._line: int | None = None
        self._content: list[str] = []
        self._ranks: dict[Collective, int] = {}
        self._raw: list[tuple[_Figures, float]] = []

    def take(self, call: re.Match[str], line: int) -> bool:
        """One call."""
        collective = torch_collective(call[1])
        milliseconds, shown, algbw, busbw = (number(call[at]) for at in (2, 3, 5, 6))
        if collective is None or not milliseconds or shown is None or algbw is None or busbw is None:
            return False
        self._line = self._line or line
        figures = _Figures(collective, round(shown * 1024 ** _POWER[call[4]]), algbw, busbw)
        ranks = figures.ranks
        if ranks:
            self._ranks[collective] = ranks
        if len(self._raw) < 1_000_000:
            self._raw.append((figures, milliseconds * 1000))
        if len(self._content) < 20_000:
            self._content.append(call[0])
        return True

    def close(self) -> None:
        """The file ends."""
        if self._line is None:
            return
        for figures, time in self._raw:
            ranks = self._ranks.get(figures.collective)
            self._calls.add(Call(figures.collective, figures.payload(ranks), None, ranks), "rank 0", time)
        around = self._sink.sweep_starts()
        for ranks, cases in self._calls.by_ranks():
            draft = Draft(
                FORMAT,
                Tool("DeepSpeed communication logger"),
                self._line,
                cases[0].collective,
                cases=cases,
                rows=len(cases),
                size=ranks,
                content=[f"{ranks}", *self._content],
            )
            draft.notes.append("sizes are those of text with two decimals")
            self._sink.sweep_ends(draft, around)
        self._line = None
        self._raw = []
