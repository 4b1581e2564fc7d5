"""OSU micro-benchmarks: the latency tests of collectives, with or without CUDA, with or without min and max."""

from __future__ import annotations

import re

from busbw.importers.context import Surroundings
from busbw.importers.draft import Draft, Sink
from busbw.importers.values import collective_named, number, type_named, whole
from busbw.records import Case, Collective, Library, Tool
from busbw.records.bandwidth import algbw_GBps, busbw_GBps

FORMAT = "OSU micro-benchmarks"

_TITLE = re.compile(
    r"\s*#\s*OSU (?P<kind>MPI|NCCL|RCCL|xCCL|UPC|OpenSHMEM)(?P<device>-CUDA|-ROCM|-OPENACC|-SYCL)?"
    r"(?P<blocking> Non-blocking)? (?P<name>[A-Za-z][A-Za-z_ -]{2,60}?)(?: Personalized Exchange)? "
    r"(?P<what>Latency|Bandwidth) Test(?: v(?P<version>[\d.]{1,20}))?\s*$"
)
_OTHER_TITLE = re.compile(r"\s*#\s*OSU (.{1,100}?) Test(?: v[\d.]{1,20})?\s*$")
_DATATYPE = re.compile(r"\s*#\s*Datatype: MPI_(\w{3,20})")
_ROW = re.compile(r"\s*\d{1,20}(?:\s+[\d.]{1,30}){1,8}\s*$")
_BARRIER_ROW = re.compile(r"\s*[\d.]{1,30}(?:\s+[\d.]{1,30}){0,8}\s*$")
_TYPES = {"CHAR": "int8", "INT": "int32", "FLOAT": "float"}
_PER_PEER = frozenset({"all_gather", "alltoall", "gather", "scatter"})


class Parser:
    """Reads tables; a title opens one, a line that is no row closes it."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._draft: Draft | None = None
        self._around: Surroundings | None = None
        self._type: str | None = None
        self._columns: list[str] = []
        self._unread = 0

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line belongs to this format."""
        if "OSU " in line:
            title, other = _TITLE.match(line), _OTHER_TITLE.match(line)
            if title:
                self._open(title, number_)
            elif other:
                self.close()
                self._sink.problem(number_, f"the OSU test of {other[1]}, which is no collective that busbw compares")
            if title or other:
                return True
        return self._draft is not None and self._table_line(self._draft, line, number_)

    def _table_line(self, draft: Draft, line: str, number_: int) -> bool:
        datatype = _DATATYPE.match(line)
        if datatype:
            self._type = _TYPES.get(datatype[1], datatype[1].lower())
            return True
        stripped = line.strip()
        if stripped.startswith("#"):
            self._columns = re.findall(r"Size|Avg|Min|Max|P50|P90|P99|Iterations|Overall|Compute|Latency", stripped) \
                if "atency" in stripped or "Overall" in stripped else self._columns  # fmt: skip
            return True
        pattern = _BARRIER_ROW if draft.collective == "barrier" else _ROW
        if pattern.match(line):
            self._row(stripped, number_)
            return True
        if stripped:
            self.close()
        return not stripped

    def _open(self, title: re.Match[str], number_: int) -> None:
        self.close()
        collective: Collective | None = collective_named(title["name"].replace("All-to-All", "alltoall"))
        if collective is None or title["what"] != "Latency" or title["blocking"]:
            what = f"{title['name']} {title['what']}" + (" (non-blocking)" if title["blocking"] else "")
            self._sink.problem(number_, f"an OSU test of {what}, which is no collective that busbw compares")
            return
        self._around = self._sink.sweep_starts()
        self._type, self._columns = None, []
        self._draft = Draft(
            FORMAT,
            Tool("OSU micro-benchmarks", title["version"]),
            number_,
            collective,
            library=Library(title["kind"] if title["kind"] != "MPI" else "MPI"),
            options={"device": title["device"].lstrip("-").lower()} if title["device"] else {},
        )

    def _row(self, line: str, number_: int) -> None:
        draft, around = self._draft, self._around
        assert draft is not None and around is not None and draft.collective is not None
        words = line.split()
        if draft.collective == "barrier":
            words.insert(0, "0")
        size, time = whole(words[0]), number(words[1])
        if size is None or time is None:
            self._sink.problem(number_, f"a row of the table that cannot be read: {line[:80]!r}")
            return
        ranks = around.command.ranks if around.command else None
        conversion = ["bandwidth from size and latency"] if ranks else []
        payload = size
        if draft.collective in _PER_PEER and ranks:
            payload = size * ranks
            conversion.append(f"size times {ranks} ranks (the tool gives the part of one)")
        elif draft.collective in _PER_PEER:
            conversion.append("size is the part of one rank: nothing names the number of ranks")
        algbw = algbw_GBps(draft.collective, payload, time, ranks) if ranks else None
        busbw = busbw_GBps(draft.collective, payload, time, ranks) if ranks else None
        ends = self._ends(words)
        draft.cases.append(Case(
            run="", case=0, collective=draft.collective, bytes=payload, placement=None, outcome="measured",
            time_us=time,
            algbw_GBps=None if algbw is None else round(algbw, 6),
            busbw_GBps=None if busbw is None else round(busbw, 6),
            type=type_named(self._type),
            op="sum" if draft.collective in ("all_reduce", "reduce_scatter", "reduce") else None,
            average="mean", range={"time_us": ends} if ends else {}, iterations=self._iterations(words),
            conversion="; ".join(conversion) or None,
        ))  # fmt: skip
        draft.size = ranks
        draft.rows += 1
        draft.content.append(line)

    def _cell(self, words: list[str], name: str) -> str | None:
        columns = [each for each in self._columns if each != "Latency"]
        if self._draft is not None and self._draft.collective == "barrier":
            columns = ["Size", *[each for each in columns if each != "Size"]]
        return words[columns.index(name)] if name in columns and columns.index(name) < len(words) else None

    def _ends(self, words: list[str]) -> tuple[float, float] | None:
        low, high = (number(self._cell(words, name) or "") for name in ("Min", "Max"))
        return (low, high) if low is not None and high is not None else None

    def _iterations(self, words: list[str]) -> int | None:
        return whole(self._cell(words, "Iterations") or "")

    def close(self) -> None:
        """The table ends."""
        if self._draft is not None and self._around is not None:
            if self._draft.cases:
                if self._draft.size is None:
                    self._draft.notes.append("nothing names the number of ranks: no bandwidth was computed")
                self._sink.sweep_ends(self._draft, self._around)
            else:
                self._sink.problem(self._draft.line, "a table starts here, but holds no rows")
        self._draft = self._around = None
