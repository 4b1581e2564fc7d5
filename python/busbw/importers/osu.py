"""OSU micro-benchmarks: the latency tests of collectives, blocking or not, with any of their columns."""

from __future__ import annotations

import re

from busbw.base.secrets import shortened
from busbw.importers.context import Surroundings
from busbw.importers.draft import Draft, Sink
from busbw.importers.tool_table import bandwidths, op_of_collective
from busbw.importers.values import collective_named, number, type_named, whole
from busbw.records import Case, Collective, Library, Tool

FORMAT = "OSU micro-benchmarks"

_TITLE = re.compile(
    r"\s*#\s*(?:OSU|OMB-Py) (?P<kind>MPI|NCCL|RCCL|xCCL|XCCL|UPC\+{0,2}|OpenSHMEM|UCC)"
    r"(?P<device>-CUDA|-ROCM|-OPENACC|-SYCL|-XPU)?"
    r"(?P<blocking> Non-[Bb]locking)?(?P<before> Persistent)? "
    r"(?P<name>[A-Za-z][A-Za-z_-]{2,60}?)(?: Personalized Exchange)?"
    r"(?P<persistent> Persistent)? (?P<what>Latency|Bandwidth) Test(?: v(?P<version>[\d.]{1,20}))?\s*$"
)
_OTHER_TITLE = re.compile(r"\s*#\s*(?:OSU|OMB-Py) (.{1,100}?) Test(?: v[\d.]{1,20})?\s*$")
_DATATYPE = re.compile(r"\s*#\s*Datatype: MPI_(\w{3,20})")
_CELL = r"(?:[\d.]{1,30}|nan|-nan|inf|Pass|Fail|PASS|FAIL)"
_ROW = re.compile(rf"\s*\d{{1,20}}(?:\s+{_CELL}){{1,14}}\s*$")
_BARRIER_ROW = re.compile(rf"\s*[\d.]{{1,30}}(?:\s+{_CELL}){{0,14}}\s*$")
_COLUMN = re.compile(r"Size|Iterations|Validation|[A-Z][A-Za-z0-9_. ]{0,30}?\((?:us|%|MB/s)\)")
_NAMES = {
    "Avg Latency": "avg",
    "Latency": "avg",
    "Min Latency": "min",
    "Max Latency": "max",
    "Overall": "overall",
    "Compute": "compute",
    "Pure Comm.": "pure",
    "Overlap": "overlap",
    "Min Comm.": "min",
    "Max Comm.": "max",
    "P50 Tail Lat": "p50",
    "P90 Tail Lat": "p90",
    "P95 Tail Lat": "p95",
    "P99 Tail Lat": "p99",
    "Size": "size",
    "Iterations": "iterations",
    "Validation": "validation",
}
_CONTEXT = {
    "overall": "overall_us",
    "compute": "compute_us",
    "overlap": "overlap_percent",
    "p50": "p50_us",
    "p90": "p90_us",
    "p95": "p95_us",
    "p99": "p99_us",
}
_TYPES = {"CHAR": "int8", "INT": "int32", "FLOAT": "float", "DOUBLE": "double"}
_PER_PEER = frozenset({"all_gather", "alltoall", "alltoallv", "gather", "scatter"})


def _collective(name: str) -> tuple[Collective | None, str | None]:
    """(the collective, its variant where it is one of several with different counts)."""
    plain = name.replace("All-to-All", "alltoall").lower().replace("all-to-all", "alltoall")
    found = collective_named(plain)
    if found or plain == "alltoallw":
        return found or "alltoallv", None if found else "alltoallw"
    vector = collective_named(plain.removesuffix("v")) if plain.endswith("v") else None
    return vector, plain if vector else None


class Parser:
    """Reads tables; a title opens one, a line that is no row closes it."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._draft: Draft | None = None
        self._around: Surroundings | None = None
        self._type: str | None = None
        self._columns: list[str] = []
        self._variant: str | None = None

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line belongs to this format."""
        if "OSU " in line or "OMB-Py " in line:
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
            columns = [_NAMES.get(re.sub(r"\(.*", "", found).strip(), "") for found in _COLUMN.findall(stripped)]
            self._columns = columns if any(columns) else self._columns
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
        collective, self._variant = _collective(title["name"])
        if collective is None or title["what"] != "Latency":
            what = f"{title['name']} {title['what']}"
            self._sink.problem(number_, f"an OSU test of {what}, which is no collective that busbw compares")
            return
        self._around = self._sink.sweep_starts()
        self._type, self._columns = None, []
        self._draft = Draft(
            FORMAT,
            Tool("OSU micro-benchmarks", title["version"]),
            number_,
            collective,
            library=Library("MPI" if title["kind"] in ("MPI", "UPC", "OpenSHMEM") else title["kind"]),
            options={"device": title["device"].lstrip("-").lower()} if title["device"] else {},
        )
        if title["blocking"]:
            self._draft.notes.append(
                "non-blocking: the time is that of the collective alone, the overlap is in the context"
            )
        if title["persistent"] or title["before"]:
            self._draft.options = {**self._draft.options, "persistent": True}

    def _row(self, line: str, number_: int) -> None:
        draft, around = self._draft, self._around
        assert draft is not None and around is not None and draft.collective is not None
        words = line.split()
        columns = self._columns or ["size", "avg"]
        if draft.collective == "barrier" and "size" not in columns:
            columns, words = ["size", *columns], ["0", *words]
        cells = dict(zip(columns, words, strict=False))
        size = whole(cells.get("size", ""))
        time = number(cells.get("pure", cells.get("avg", "")))
        if size is None or time is None:
            self._sink.problem(number_, f"a row of the table that cannot be read: {shortened(line, 80)!r}")
            return
        ranks = around.command.ranks if around.command else None
        conversion = ["bandwidth from size and latency"] if ranks else []
        payload = size
        if draft.collective in _PER_PEER and ranks:
            payload = size * ranks
            conversion.append(f"size times {ranks} ranks (the tool gives the part of one)")
        elif draft.collective in _PER_PEER:
            conversion.append("size is the part of one rank: nothing names the number of ranks")
        algbw, busbw = bandwidths(draft.collective, payload, time, ranks)
        low, high = (number(cells[name]) if name in cells else None for name in ("min", "max"))
        valid = cells.get("validation", "").lower()
        context = {
            name: value for key, name in _CONTEXT.items() if key in cells and (value := number(cells[key])) is not None
        }
        draft.cases.append(
            Case(
                run="",
                case=0,
                collective=draft.collective,
                bytes=payload,
                placement=None,
                outcome="measured",
                time_us=time,
                algbw_GBps=algbw,
                busbw_GBps=busbw,
                type=type_named(self._type),
                variant=self._variant,
                op=op_of_collective(draft.collective),
                checks=1 if valid else None,
                wrong={"pass": 0.0, "fail": 1.0}.get(valid),
                average="mean",
                range={"time_us": (low, high)} if low is not None and high is not None else {},
                iterations=whole(cells.get("iterations", "")),
                context=context,
                conversion="; ".join(conversion) or None,
            )
        )
        if valid == "fail" and len(draft.notes) < 10:
            draft.notes.append(
                f"the validation of {size} bytes failed: the tool does not say how many elements are wrong"
            )
        draft.size = ranks
        draft.rows += 1
        draft.content.append(line)

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
