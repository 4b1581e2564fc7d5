"""Figures in flat form on their way to runs, whoever wrote them; and JSON with sizes, times and bandwidths.

rccl-tests writes such files (-Z csv or json), so do nccom-test and many scripts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from busbw.importers.cells import has_decimal_comma, plain_number, split_unit
from busbw.importers.collective import collective_of_file, named_in
from busbw.importers.columns import FIGURES, Column, column_of, is_table
from busbw.importers.draft import Draft, Sink
from busbw.importers.json_values import json_values, whole_number
from busbw.importers.nccl_tests_rows import OPS
from busbw.importers.rates import settled
from busbw.importers.shape import agrees, derived_ranks
from busbw.importers.titles import caption, ranks_in
from busbw.importers.torch_names import torch_type
from busbw.importers.units import Figure, Row, Units, units_of
from busbw.importers.values import collective_named, number, size_in_bytes, type_named
from busbw.records import Case, Collective, Library, Placement, Tool

FORMAT = "flat table of results"
RCCL_FORMAT = "rccl-tests CSV or JSON"
MAX_BYTES = 64 << 20
MAX_RUNS = 2_000
MAX_ROWS = 20_000

Cells = Sequence[tuple[Column, str]]
"""The cells of a row whose columns are known."""

_RCCL = frozenset({"gpusperrank", "ranksperrank", "ranksPerNode".lower()})


@dataclass
class _Raw:
    """A row that waits for the units of its table."""

    row: Row
    placement: Placement | None
    cells: dict[str, str]
    variant: str | None


@dataclass
class _Run:
    """Rows of one collective, number of ranks and library."""

    collective: Collective
    ranks: int | None
    library: str | None
    nodes: int | None
    """Where the ranks may be those of each of so many nodes."""
    line: int
    raws: list[_Raw] = field(default_factory=list)
    content: list[str] = field(default_factory=list)


class Runs:
    """Rows on their way to runs: another collective, number of ranks or library is another run."""

    def __init__(self, sink: Sink, names: Sequence[str] = ()) -> None:
        self._sink = sink
        self._is_rccl = not _RCCL.isdisjoint(name.lower() for name in names)
        self._runs: dict[tuple[Any, ...], _Run] = {}
        self._around = sink.sweep_starts()
        above = sink.above()[-6:]
        commanded = self._around.command.collective if self._around.command else None
        self._told = (
            sink.collective or caption(above[-1:]) or commanded or named_in(self._around.heading) or caption(above)
            or collective_of_file(self._around.file)
        )  # fmt: skip
        self._told_ranks = ranks_in(" / ".join([self._around.heading or "", *above]))
        self.commas = False
        """Whether decimals follow commas, so that dots group digits."""
        self.mark = ""
        self.nameless = 0

    def told(self, collective: Collective | None) -> None:
        """What a document says elsewhere that was measured, where nothing nearer does."""
        self._told = self._told or collective

    def add(self, cells: Cells, line: int, content: str) -> bool:
        """One row; whether it could be read."""
        plain: dict[str, str] = {}
        figures: dict[tuple[str | None, Collective | None, Placement | None], dict[str, tuple[str, str]]] = {}
        for column, cell in cells:
            if column.field in FIGURES or column.field in ("wrong", "bw"):
                mine = figures.setdefault((column.library, column.collective, column.placement), {})
                mine.setdefault(column.field, (cell, column.unit))
            elif column.field in ("variant",) and plain.get("variant"):
                plain["variant"] += f" {cell}"
            elif column.field == "bytes":
                plain.setdefault("bytes", f"{cell}\0{column.unit}")
            else:
                plain.setdefault(column.field, cell)
        shared = figures.pop((None, None, None), {})
        found = {
            key: {**({} if any(name in each for name in FIGURES) else shared), **each} for key, each in figures.items()
        }
        if not found or any(name in FIGURES for name in shared):
            found[None, None, None] = shared
        read = [self._measured(plain, key, each, line, content) for key, each in found.items()]
        return any(read)

    def _measured(
        self,
        plain: Mapping[str, str],
        key: tuple[str | None, Collective | None, Placement | None],
        figures: Mapping[str, tuple[str, str]],
        line: int,
        content: str,
    ) -> bool:
        size = self._size(plain.get("bytes", ""))
        values = {name: self._figure(*figures[name]) for name in (*FIGURES, "bw") if name in figures}
        if size is None or all(values.get(name) is None for name in FIGURES):
            return False
        library, of_column, placement = key
        collective = of_column or self._collective(plain)
        if collective is None:
            self.nameless += 1
            return True
        run = self._run((collective, *_ranks_of(plain), library or plain.get("library")), line)
        if run is None:
            return False
        row = Row(size, values.get("time"), values.get("algbw"), values.get("busbw"), values.get("bw"))
        cells = {**plain, **{name: cell for name, (cell, _) in figures.items() if name not in FIGURES}}
        run.raws.append(_Raw(row, placement or _placement(plain), cells, plain.get("variant")))
        run.content.append(content[:500])
        return True

    def _collective(self, plain: Mapping[str, str]) -> Collective | None:
        for name in ("collective", "op"):
            named = re.sub(r"(?i)[_-]?(?:perf|test|bench(?:mark)?)$", "", plain.get(name, "")[:80])
            found = collective_named(re.sub(r"^(?:nccl|rccl|mpi|MPI)[_ ]?(?=[A-Za-z])", "", named))
            if found:
                return found
        return self._told

    def _run(self, key: tuple[Collective, int | None, int | None, str | None], line: int) -> _Run | None:
        run = self._runs.get(key)
        if run is not None and len(run.raws) >= MAX_ROWS:
            self._end(self._runs.pop(key))
            run = None
        if run is None:
            if len(self._runs) >= MAX_RUNS:
                return None
            collective, ranks, nodes, library = key
            run = self._runs[key] = _Run(collective, ranks, library, nodes, line)
        return run

    def _size(self, text: str) -> Figure | None:
        cell, _, unit = text.partition("\0")
        plain = plain_number(cell[:40], self.mark, commas=self.commas)
        figure = Figure.of(plain, unit)
        if figure is None:
            size = size_in_bytes(plain)
            figure = None if size is None else Figure(float(size), "", 0.0)
        return figure if figure is not None and 0 <= figure.value < 1 << 63 else None

    def _figure(self, cell: str, unit: str) -> Figure | None:
        value, own = split_unit(cell[:40])
        plain = plain_number(value, self.mark, commas=self.commas)
        figure = Figure.of(plain, own or unit)
        # -1 and the like say that there is no figure.
        return figure if figure is not None and figure.value >= 0 and number(plain) is not None else None

    def _end(self, run: _Run) -> None:
        groups: dict[tuple[str, ...], list[_Raw]] = {}
        for raw in run.raws:
            row = raw.row
            groups.setdefault(
                tuple(each.unit if each else "-" for each in (row.size, row.time, row.algbw, row.busbw, row.bw)), []
            ).append(raw)
        cases: list[Case] = []
        notes: list[str] = []
        variants = list(dict.fromkeys(raw.variant for raw in run.raws))
        command = self._around.command
        known = run.ranks or self._told_ranks or (command.ranks if command else None)
        for raws in groups.values():
            rows = settled([raw.row for raw in raws], run.collective, known if run.nodes is None else None)
            if isinstance(rows, str):
                self._sink.problem(run.line, rows)
                continue
            notes += [rows[1]] if rows[1] and rows[1] not in notes else []
            for raw, row in zip(raws, rows[0], strict=True):
                raw.row = row
            units = units_of(rows[0])
            if isinstance(units, str):
                self._sink.problem(run.line, units)
                continue
            notes += [units.note] if units.note and units.note not in notes else []
            cases += [_case(raw, run.collective, units, many=len(variants) > 1) for raw in raws]
        if not cases:
            return
        if len(variants) > 1:
            shown = ", ".join(str(each)[:40] for each in variants[:8])
            notes.append(f"rows of {len(variants)} variants: {shown}")
        tool = "rccl-tests" if self._is_rccl else "unknown"
        library = Library(run.library[:40]) if run.library else None
        draft = Draft(
            RCCL_FORMAT if self._is_rccl else FORMAT, Tool(tool), run.line, run.collective, cases=cases,
            rows=len(cases), content=run.content, size=_size_of(run, cases, notes), notes=notes, library=library,
        )  # fmt: skip
        told = self._told_ranks
        if (
            draft.size is None
            and run.nodes is None
            and told is not None
            and derived_ranks(cases) in (None, told)
            and agrees(cases, told)
        ):
            draft.size = told
            notes.append(f"{told} ranks: from the words above the table")
        self._sink.sweep_ends(draft, self._around)

    def close(self) -> None:
        """The table ends."""
        for run in self._runs.values():
            self._end(run)
        self._runs = {}
        if self.nameless:
            self._sink.problem(None, f"nothing names the collective of {self.nameless} rows; name it with --collective")
        self.nameless = 0


def _ranks_of(plain: Mapping[str, str]) -> tuple[int | None, int | None]:
    """(ranks, nodes): with nodes where nobody says whether the ranks are those of each node or of all."""
    ranks, nodes, each = (whole_number(plain.get(name)) for name in ("ranks", "nodes", "per_node"))
    if ranks is not None:
        return ranks, None
    gpus = whole_number(plain.get("gpus"))
    if each is not None:
        return (nodes * each if nodes else gpus), None
    return gpus, nodes if gpus and nodes and nodes > 1 else None


def _size_of(run: _Run, cases: Sequence[Case], notes: list[str]) -> int | None:
    """The ranks of a run; GPUs beside nodes are those of all or of each, as the bandwidths say."""
    if run.nodes is None or run.ranks is None:
        return run.ranks
    derived = derived_ranks(cases)
    both = (run.ranks, run.ranks * run.nodes)
    fitting = [each for each in both if derived in (None, each) and agrees(cases, each)]
    if len(fitting) == 1:
        notes.append(f"{fitting[0]} ranks: of {both[0]} or {both[1]}, what the bandwidths allow")
        return fitting[0]
    notes.append(
        f"{run.ranks} GPUs may be those of each of {run.nodes} nodes or of all: the number of ranks is left open"
    )
    return None


def _placement(plain: Mapping[str, str]) -> Placement | None:
    if "in_place" not in plain:
        return None
    text = plain["in_place"].lower().replace("-", "_").replace(" ", "_")
    return "in_place" if text in ("1", "true", "in_place", "inplace", "yes") else "out_of_place"


def _case(raw: _Raw, collective: Collective, units: Units, *, many: bool) -> Case:
    row, cells = raw.row, raw.cells
    op, dtype = cells.get("op"), cells.get("type")
    is_op = op and (op.lower() in OPS or collective_named(op) is None) and op not in ("none", "N/A")
    size = row.size.value * units.size
    wrong = number(cells.get("wrong", "")[:40])
    return Case(
        run="", case=0, collective=collective, bytes=round(size), placement=raw.placement, outcome="measured",
        time_us=_scaled(row.time, units.time), algbw_GBps=_scaled(row.algbw, units.rate),
        busbw_GBps=_scaled(row.busbw, units.rate), count=whole_number(cells.get("count")),
        type=(torch_type(dtype[:40]) or type_named(dtype[:40])) if dtype else None, op=str(op)[:20] if is_op else None,
        root=whole_number(cells.get("root")), wrong=wrong, cycle=whole_number(cells.get("cycle")) or None,
        variant=raw.variant[:80] if many and raw.variant else None,
    )  # fmt: skip


def _scaled(figure: Figure | None, factor: float) -> float | None:
    if figure is None:
        return None
    return figure.value if factor == 1.0 else round(figure.value * factor, 9)


# -- JSON ------------------------------------------------------------------------------------------------------------

_OBJECT = re.compile(r'"(?:size|bytes|msg_?(?:size|bytes)|message_?size|n_?bytes)[^"]{0,30}"\s*:', re.IGNORECASE)
_BANDWIDTH = re.compile(
    r'"(?:(?:oop|ip|op|out_of_place|in_place)_)?(?:alg|algo|bus)_?(?:bw|bandwidth)[^"]{0,20}"\s*:', re.IGNORECASE
)


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
                runs = Runs(sink, list(raw))
                runs.told(_collective_in(value))
            cells = [(column, str(each)[:80]) for name, each in raw.items() if (column := column_of(name)) is not None]
            unread += not runs.add(cells, line, str(sorted((column.field, cell) for column, cell in cells)))
    if runs is None:
        sink.problem(1, "JSON with sizes and bandwidths that cannot be read")
        return
    runs.close()
    if unread:
        sink.problem(None, f"{unread} objects with sizes that cannot be read")


_AROUND = frozenset(
    {"collective", "ranks", "gpus", "nodes", "per_node", "type", "library", "op", "variant", "in_place"}
)


def _objects(value: Any, above: Mapping[str, Any], depth: int) -> list[Mapping[str, Any]]:
    """Objects that are rows, each with the plain values of the objects around it."""
    if depth > 8:
        return []
    if isinstance(value, list):
        return [row for each in value[:2_000_000] for row in _objects(each, above, depth + 1)]
    if not isinstance(value, dict):
        return []
    plain = {key: each for key, each in value.items() if isinstance(each, (str, int, float)) and len(key) < 80}
    plain = {key: each for key, each in plain.items() if not isinstance(each, bool) or column_of(key)}
    placed = _of_placements(value)
    if is_table([column_of(key) for key in (*plain, *placed)]):
        return [{**above, **plain, **placed}]
    around = {**above}
    for key, each in plain.items():
        column = column_of(key)
        if column is not None and column.field in _AROUND:
            around[key] = each
    return [row for each in value.values() for row in _objects(each, around, depth + 1)]


def _collective_in(value: Any) -> Collective | None:
    """The only collective that a document of one table names anywhere, in a field for it."""
    found: set[Collective] = set()
    waiting = [value] if isinstance(value, dict) else []
    for each in waiting:
        for key, inner in list(each.items())[:200]:
            column = column_of(key) if isinstance(inner, str) and len(key) < 80 else None
            named = collective_named(inner[:80]) if column is not None and column.field == "collective" else None
            found |= {named} if named else set()
            if isinstance(inner, dict) and len(waiting) < 100:
                waiting.append(inner)
    return found.pop() if len(found) == 1 else None


def _of_placements(value: Mapping[str, Any]) -> dict[str, Any]:
    """Figures that lie in objects named out_of_place and in_place, by one name each."""
    found: dict[str, Any] = {}
    for key, inner in value.items():
        if (
            isinstance(inner, dict)
            and len(key) < 40
            and re.fullmatch(r"(?i)(?:out[_-]?of[_-]?place|oop|in[_-]?place|ip)", key)
        ):
            found |= {
                f"{key} {name}": each
                for name, each in inner.items()
                if isinstance(each, (str, int, float)) and len(name) < 40
            }
    return found


def decimal_commas(rows: Sequence[Sequence[str]]) -> bool:
    """Whether decimals follow commas in a table."""
    return any(has_decimal_comma(cell) for row in rows for cell in row)
