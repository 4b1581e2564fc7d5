"""Figures in flat form: CSV, JSON objects or JSON lines with columns of size, time and bandwidths, whoever wrote them.

rccl-tests writes such files (-Z csv or json), so do nccom-test and many scripts.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from typing import Any

from busbw.importers.collective import collective_of_file, named_in
from busbw.importers.draft import Draft, Sink
from busbw.importers.json_values import json_values, whole_number
from busbw.importers.torch_names import torch_type
from busbw.importers.values import collective_named, number, size_in_bytes, type_named
from busbw.records import Case, Collective, Library, Placement, Tool

FORMAT = "flat table of results"
RCCL_FORMAT = "rccl-tests CSV or JSON"
MAX_BYTES = 64 << 20
MAX_RUNS = 2_000

_NAMES = {
    "bytes": "size bytes sizeb sizebytes msgsize messagesize msgsizebytes messagesizebytes sizeinbytes nbytes msgbytes",
    "count": "count elements countelems countelements",
    "type": "type dtype datatype",
    "op": "redop op reduction",
    "root": "root",
    "time_us": "time timeus latencyus latency timeavgus avgtimeus",
    "time_ms": "timems latencyms avglatencyms",
    "time_ns": "timens",
    "time_s": "times seconds",
    "algbw": "algbw algbwgbs algbwgbps algobw algobwgbs algorithmbandwidth",
    "busbw": "busbw busbwgbs busbwgbps busbandwidth busbandwidthgbs",
    "wrong": "wrong nwrong errors",
    "in_place": "inplace placement",
    "collective": "name collective operation coll test",
    "ranks": "ranks nranks worldsize gpus ngpus numgpus np",
    "library": "library",
    "cycle": "numcycle cycle",
}
"""Names of columns without signs and case, by our field."""
_FIELDS = {name: field for field, names in _NAMES.items() for name in names.split()}
_FIGURES = frozenset({"time_us", "time_ms", "time_ns", "time_s", "algbw", "busbw"})
_TO_US = {"time_us": 1.0, "time_ms": 1e3, "time_ns": 1e-3, "time_s": 1e6}


def field_of(name: str) -> str | None:
    """Our field of a column, whatever its case, signs and units."""
    plain = re.sub(r"[^a-z]", "", name.lower())
    if plain in _FIELDS:
        return "algbw_Gbps" if plain == "algbwgbps" and "Gb" in name else _FIELDS[plain]
    return _FIELDS.get(re.sub(r"[^a-z]", "", re.sub(r"\(.*?\)|\[.*?\]", "", name).lower()))


def is_table(names: Mapping[str, str]) -> bool:
    """Whether columns are those of results: a size, and a time or bandwidth."""
    fields = set(names.values())
    return "bytes" in fields and bool(fields & _FIGURES)


class Runs:
    """Rows on their way to runs: another collective, number of ranks or library is another run."""

    def __init__(self, sink: Sink, keys: frozenset[str]) -> None:
        self._sink = sink
        self._is_rccl = {"gpusperrank", "ranksperrank", "ranksPerNode".lower()} & {key.lower() for key in keys} != set()
        self._drafts: dict[tuple[Any, ...], Draft] = {}
        self._around = sink.sweep_starts()
        commanded = self._around.command.collective if self._around.command else None
        self._told = (
            sink.collective or commanded or named_in(self._around.heading) or collective_of_file(self._around.file)
        )
        self.nameless = 0

    def add(self, row: Mapping[str, Any], line: int) -> bool:
        """One row by our fields; whether it could be read."""
        size = whole_number(row.get("bytes"))
        size = size_in_bytes(str(row.get("bytes"))[:40]) if size is None else size
        named = str(row.get("collective", ""))[:80]
        collective = collective_named(re.sub(r"_perf$", "", named)) or self._told
        figures = {name: _figure(row.get(name)) for name in _FIGURES if name in row}
        if size is None or all(value is None for value in figures.values()):
            return False
        if collective is None:
            self.nameless += 1
            return True
        ranks = whole_number(row.get("ranks"))
        key = (collective, ranks, row.get("library"))
        draft = self._drafts.get(key)
        if draft is None or draft.rows >= 20_000:
            self._end(key)
            if len(self._drafts) >= MAX_RUNS:
                return False
            tool = "rccl-tests" if self._is_rccl else "unknown"
            draft = Draft(RCCL_FORMAT if self._is_rccl else FORMAT, Tool(tool), line, collective, size=ranks)
            draft.library = Library(str(row["library"])[:40]) if row.get("library") else None
            self._drafts[key] = draft
        time = next(
            (value * _TO_US[name] for name, value in figures.items() if name in _TO_US and value is not None), None
        )
        draft.cases.append(_case(row, collective, size, time, figures))
        draft.rows += 1
        draft.content.append(str(sorted(row.items()))[:500])
        return True

    def _end(self, key: tuple[Any, ...]) -> None:
        draft = self._drafts.pop(key, None)
        if draft is not None:
            self._sink.sweep_ends(draft, self._around)

    def close(self) -> None:
        """The table ends."""
        for key in list(self._drafts):
            self._end(key)
        if self.nameless:
            self._sink.problem(None, f"nothing names the collective of {self.nameless} rows; name it with --collective")
        self.nameless = 0


def _figure(value: Any) -> float | None:
    return None if isinstance(value, bool) else number(str(value)[:40])


def _case(
    row: Mapping[str, Any], collective: Collective, size: int, time: float | None, figures: Mapping[str, float | None]
) -> Case:
    place: Placement | None = None
    if "in_place" in row:
        text = str(row["in_place"]).lower().replace("-", "_")
        place = "in_place" if text in ("1", "true", "in_place", "inplace") else "out_of_place"
    op, wrong, root = row.get("op"), _figure(row.get("wrong")), whole_number(row.get("root"))
    dtype = row.get("type")
    return Case(
        run="", case=0, collective=collective, bytes=size, placement=place, outcome="measured", time_us=time,
        algbw_GBps=figures.get("algbw"), busbw_GBps=figures.get("busbw"), count=whole_number(row.get("count")),
        type=(torch_type(str(dtype)[:40]) or type_named(str(dtype)[:40])) if dtype else None,
        op=str(op)[:20] if op not in (None, "", "none", "N/A") else None, root=root, wrong=wrong,
        cycle=whole_number(row.get("cycle")) or None,
    )  # fmt: skip


class Parser:
    """Reads CSV and tables between pipes: a header of known columns, then rows of as many cells."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._runs: Runs | None = None
        self._names: list[str | None] = []
        self._mark = ","
        self._beside: dict[str, dict[int, str]] = {}

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line belongs to this format."""
        if self._runs is not None:
            cells = self._cells(line)
            if self._mark == "|" and set(line) <= set("|-+=: \t"):
                return True
            if len(cells) == len(self._names):
                row = {name: cell for name, cell in zip(self._names, cells, strict=True) if name and cell}
                for library, columns in self._beside.items():
                    others = {field: cells[at] for at, field in columns.items()}
                    self._runs.add({**_without_figures(row), **others, "library": library}, number_)
                if not self._runs.add(row, number_) and not row.get("bytes", "").isalpha():
                    self._sink.problem(number_, f"a row of the table that cannot be read: {line.strip()[:80]!r}")
                return True
            if line.strip():
                self.close()
        return self._header(line)

    def _header(self, line: str) -> bool:
        if len(line) > 4000 or line.lstrip()[:1] in "{[<":
            return False
        for mark in ("|",) if line.lstrip().startswith("|") else (",", ";", "\t"):
            if line.count(mark) >= 2:
                self._mark = mark
                cells = self._cells(line)
                names = {cell: field for cell in cells if (field := field_of(cell))}
                if is_table(names) and len(cells) < 100:
                    self._names = [field_of(cell) for cell in cells]
                    self._beside = {}
                    for at, cell in enumerate(cells):
                        named = _BESIDE.match(cell)
                        field = field_of(named["column"]) if named else None
                        if named and field in _FIGURES:
                            self._beside.setdefault(named["library"], {})[at] = str(field)
                    self._runs = Runs(self._sink, frozenset(cells))
                    return True
        return False

    def _cells(self, line: str) -> list[str]:
        return [_without_groups(cell, self._mark) for cell in self._raw_cells(line)]

    def _raw_cells(self, line: str) -> list[str]:
        if self._mark == "|":
            return [cell.strip(" *`") for cell in line.strip().strip("|").split("|")]
        if '"' not in line:
            return [cell.strip() for cell in line.split(self._mark)]
        try:
            return [cell.strip() for cell in next(csv.reader([line], delimiter=self._mark), [])]
        except csv.Error:
            return []

    def close(self) -> None:
        """The table ends."""
        if self._runs is not None:
            self._runs.close()
        self._runs = None


_BESIDE = re.compile(r"(?P<library>NCCL|RCCL|MSCCL|MSCCL\+\+) (?P<column>\w[^\n]{0,60})")
"""A column of another library beside the table's own, as MSCCL++'s Python benchmark prints them."""


def _without_figures(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in _FIGURES and name != "wrong"}


_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d{1,9})?|\d{1,3}(?:[ \u00a0\u202f'_]\d{3})+(?:\.\d{1,9})?")
_DECIMAL_COMMA = re.compile(r"\d{1,3}(?:[. ]\d{3})*,\d{1,9}|\d{1,15},\d{1,9}|\d{1,3}(?:\.\d{3}){2,}")


def _without_groups(cell: str, mark: str) -> str:
    """A number without what groups its digits; where commas do not part cells, 34,8 is 34.8 and 1.048.576 a million."""
    if not cell[:1].isdecimal() or len(cell) > 40:
        return cell
    if mark in (";", "\t") and _DECIMAL_COMMA.fullmatch(cell):
        return cell.replace(".", "").replace(" ", "").replace(",", ".")
    return re.sub(r"[^\d.]", "", cell) if _GROUPED.fullmatch(cell) else cell


_OBJECT = re.compile(r'"(?:size|bytes|msg_?size)[^"]{0,30}"\s*:', re.IGNORECASE)
_BANDWIDTH = re.compile(r'"(?:alg|algo|bus)_?(?:bw|bandwidth)[^"]{0,20}"\s*:', re.IGNORECASE)


def looks_like(head: str) -> bool:
    """Whether a text begins as JSON objects with sizes and bandwidths."""
    if head.lstrip()[:1] not in ("{", "[") or '"kernel"' in head[:4000]:
        return False
    return _OBJECT.search(head) is not None and _BANDWIDTH.search(head) is not None


def parse(text: str, sink: Sink) -> None:
    """Objects with sizes, at any depth that people nest results."""
    runs: Runs | None = None
    unread = 0
    for line, value in json_values(text):
        for raw in _objects(value, {}, 0):
            if runs is None:
                runs = Runs(sink, frozenset(raw))
            row = {field: raw[key] for key in raw if (field := field_of(key))}
            unread += not runs.add(row, line)
    if runs is None:
        sink.problem(1, "JSON with sizes and bandwidths that cannot be read")
        return
    runs.close()
    if unread:
        sink.problem(None, f"{unread} objects with sizes that cannot be read")


def _objects(value: Any, above: Mapping[str, Any], depth: int) -> list[Mapping[str, Any]]:
    """Objects that are rows, each with the plain values of the objects around it."""
    if depth > 8:
        return []
    if isinstance(value, list):
        return [row for each in value[:2_000_000] for row in _objects(each, above, depth + 1)]
    if not isinstance(value, dict):
        return []
    plain = {key: each for key, each in value.items() if isinstance(each, (str, int, float)) and len(key) < 80}
    if is_table({key: field for key in plain if (field := field_of(key))}):
        return [{**above, **plain}]
    around = {
        **above,
        **{
            key: each
            for key, each in plain.items()
            if field_of(key) in ("collective", "ranks", "type", "library", "op")
        },
    }
    return [row for each in value.values() for row in _objects(each, around, depth + 1)]
