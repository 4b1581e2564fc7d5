"""Intel MPI Benchmarks and oneCCL's benchmark: tables of collectives, one for each number of processes."""

from __future__ import annotations

import re

from busbw.base.secrets import shortened
from busbw.importers.draft import Draft, Sink
from busbw.importers.tool_table import OpenTable, bandwidths, op_of_collective
from busbw.importers.values import collective_named, number, whole
from busbw.records import Case, Collective, Library, Tool

FORMAT = "Intel MPI Benchmarks"
CCL_FORMAT = "oneCCL benchmark"

_VERSION = re.compile(r"\s*#\s*Intel\(R\) MPI Benchmarks (\S{1,40}),")
_BENCHMARK = re.compile(r"\s*#\s*Benchmarking(?P<ccl>:)? (?:Multi-)?(?P<name>\S{1,60})\s*$")
_PROCESSES = re.compile(r"\s*# #processes(?: =|:) (\d{1,7})|\s*# \( (\d{1,6}) groups of (\d{1,7}) processes")
_COLUMN = re.compile(
    r"#bytes|#repetitions|t_min|t_max|t_avg|t_ovrl|t_pure|t_CPU|overlap|Mbytes/sec|Msg/sec|defects|t\[usec\]"
)
_ROW = re.compile(r"\s*\d{1,20}(?:\s+[\d.]{1,30}){2,8}\s*$")
_PER_PEER = frozenset({"all_gather", "alltoall", "gather", "scatter"})


class Parser:
    """Reads tables: a name, a number of processes, columns, rows."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._table = OpenTable(sink)
        self._version: str | None = None
        self._name = ""
        self._line = 0
        self._ranks: int | None = None
        self._columns: list[str] = []
        self._is_ccl = False

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line belongs to this format."""
        stripped = line.strip()
        if stripped.startswith("#"):
            return self._comment(line, number_)
        if self._columns and _ROW.match(line):
            if self._table.draft is not None:
                self._row(stripped, number_)
            return True
        if (self._name and "t_avg" in line) or "#repetitions" in line:
            self._columns = _COLUMN.findall(line)
            self._open(number_)
            return bool(self._columns)
        if not stripped:
            self._table.close()
            self._columns = []
        return False

    def _comment(self, line: str, number_: int) -> bool:
        version = _VERSION.match(line)
        if version:
            self._version = version[1]
            return True
        benchmark = _BENCHMARK.match(line)
        if benchmark:
            self.close()
            self._name, self._line, self._ranks = benchmark["name"], number_, None
            self._is_ccl = benchmark["ccl"] is not None
            return True
        processes = _PROCESSES.match(line) if self._name else None
        if processes:
            self._ranks = int(processes[1] or processes[3])
        elif self._name and line.lstrip().startswith(("#bytes", "#repetitions")):
            self._columns = _COLUMN.findall(line)
            self._open(number_)
            return True
        return processes is not None

    def _open(self, number_: int) -> None:
        name = self._name.lower()
        blocking = not (name.startswith("i") and collective_named(name[1:].removesuffix("_pure").removesuffix("v")))
        plain = name if blocking else name[1:].removesuffix("_pure")
        collective: Collective | None = collective_named(plain) or collective_named(plain.removesuffix("v"))
        if collective is None:
            self._sink.problem(
                self._line or number_,
                f"the Intel MPI benchmark {self._name}, which is no collective that busbw compares"
                if self._name
                else "a table of the Intel MPI Benchmarks, but no line `# Benchmarking` above it names which",
            )
            return
        draft = Draft(
            CCL_FORMAT if self._is_ccl else FORMAT,
            Tool("oneCCL benchmark" if self._is_ccl else "Intel MPI Benchmarks", self._version),
            number_,
            collective,
            size=self._ranks,
            library=Library("oneCCL" if self._is_ccl else "MPI"),
            program=f"{'' if self._is_ccl else 'IMB '}{self._name}",
        )
        if not blocking:
            draft.notes.append(
                "non-blocking: the time is that of the collective alone (t_pure), the overlap is in the context"
            )
        self._table.open(draft, self._sink.sweep_starts())

    def _row(self, line: str, number_: int) -> None:
        draft = self._table.draft
        assert draft is not None and draft.collective is not None
        cells = dict(zip(self._columns, line.split(), strict=False))
        figures = {name: number(text) for name, text in cells.items()}
        size = whole(cells.get("#bytes", "0"))
        time = figures.get("t_avg") if "t_avg" in cells else figures.get("t_pure")
        if size is None or time is None:
            self._sink.problem(number_, f"a row of the table that cannot be read: {shortened(line, 80)!r}")
            return
        conversion = "bandwidth from size and time"
        if draft.collective in _PER_PEER and draft.size:
            size *= draft.size
            conversion += f"; size times {draft.size} ranks (the tool gives the part of one)"
        algbw, busbw = bandwidths(draft.collective, size, time, draft.size)
        low, high = figures.get("t_min"), figures.get("t_max")
        context = {
            name: value
            for key, name in (("t_ovrl", "overlapped_us"), ("t_CPU", "compute_us"), ("overlap", "overlap_percent"))
            if (value := figures.get(key)) is not None
        }
        self._table.add(
            Case(
                run="",
                case=0,
                collective=draft.collective,
                bytes=size,
                placement=None,
                outcome="measured",
                time_us=time,
                algbw_GBps=algbw,
                busbw_GBps=busbw,
                op=op_of_collective(draft.collective),
                average="mean",
                type="float" if op_of_collective(draft.collective) else "int8",
                iterations=whole(cells.get("#repetitions", "")),
                range={"time_us": (low, high)} if low is not None and high is not None else {},
                context=context,
                wrong=figures.get("defects"),
                conversion=conversion,
            ),
            line,
        )

    def close(self) -> None:
        """The table ends."""
        self._table.close()
        self._name, self._columns = "", []
