"""Figures in flat form on their way to runs, whoever wrote them: rows of known columns become cases of runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from busbw.base.effort import EFFORT
from busbw.importers.cells import has_decimal_comma
from busbw.importers.collective import collective_of_file, named_in
from busbw.importers.columns import FIGURES, SIZES, Column, Key
from busbw.importers.draft import Cases, Draft, Sink, pay_for_case
from busbw.importers.json_values import whole_number
from busbw.importers.nccl_tests_rows import OPS
from busbw.importers.rates import settled
from busbw.importers.said import figure_in, ranks_of, size_in
from busbw.importers.shape import SCALE, agrees, derived_ranks, ranks_of_ratio
from busbw.importers.sizes import all_of_1000, of_elements
from busbw.importers.titles import caption, ranks_above
from busbw.importers.torch_names import torch_type
from busbw.importers.units import Figure, Row, Units, units_of
from busbw.importers.values import collective_named, number, type_named
from busbw.importers.work_limit import PER_CELLS
from busbw.records import Case, Collective, Library, Placement, Tool
from busbw.records.bandwidth import bus_factor

FORMAT = "flat table of results"
RCCL_FORMAT = "rccl-tests CSV or JSON"
MAX_RUNS = 2_000
MAX_ROWS = 20_000

Cells = Sequence[tuple[Column, str]]
"""The cells of a row whose columns are known."""

_RCCL = frozenset({"gpusperrank", "ranksperrank", "ranksPerNode".lower()})


_NOBODYS = Key()
_OF_FIGURES = frozenset({*FIGURES, "wrong", "bw"})
_OF_RANKS = frozenset({"ranks", "nodes", "per_node", "gpus"})


@dataclass(slots=True)
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
        self._told_ranks = ranks_above(self._around.heading or "", above) or ranks_above(
            "", [re.sub(r"[_.-]", " ", self._around.file)]
        )
        self.commas = False
        """Whether decimals follow commas, so that dots group digits."""
        self.mark = ""
        self.nameless = 0

    @property
    def is_empty(self) -> bool:
        """Whether no row has become one of a run so far."""
        return not self._runs

    def told(self, collective: Collective | None) -> None:
        """What a document says elsewhere that was measured, where nothing nearer does."""
        self._told = self._told or collective

    def add(self, cells: Cells, line: int, content: str) -> bool:
        """One row; whether it could be read."""
        EFFORT.left -= PER_CELLS
        plain: dict[str, str] = {}
        figures: dict[Key, dict[str, tuple[str, str]]] = {}
        sizes: list[tuple[str, str]] = []
        for column, cell in cells:
            name = column.field
            if name in _OF_FIGURES:
                mine = figures.get(column.key)
                if mine is None:
                    mine = figures[column.key] = {}
                mine.setdefault(name, (cell, column.unit))
            elif name == "variant" and plain.get("variant"):
                plain["variant"] += f" {cell}"
            elif name == "bytes":
                sizes.append((cell, column.unit))
            else:
                plain.setdefault(name, cell)
        if not sizes and "count" in plain and "type" in plain:
            sizes = of_elements(plain["count"], plain["type"])
        if sizes:
            cell, unit = sizes[0] if len(sizes) == 1 else self._of_sizes(sizes)
            plain["bytes"] = f"{cell[:60]}\0{unit}"
        shared = figures.pop(_NOBODYS, {})
        if not figures:
            return self._measured(plain, _NOBODYS, shared, line, content)
        found = {
            key: {**({} if any(name in each for name in FIGURES) else shared), **each} for key, each in figures.items()
        }
        if any(name in FIGURES for name in shared):
            found[_NOBODYS] = shared
        read = [self._measured(plain, key, each, line, content) for key, each in found.items()]
        return any(read)

    def _measured(
        self,
        plain: dict[str, str],
        key: Key,
        figures: Mapping[str, tuple[str, str]],
        line: int,
        content: str,
    ) -> bool:
        size = self._size(plain.get("bytes", ""))
        if size is None:
            return False
        time, algbw, busbw, bw = [
            self._figure(*figures[name]) if name in figures else None for name in ("time", "algbw", "busbw", "bw")
        ]
        if time is None and algbw is None and busbw is None:
            return False
        collective = key.collective or self._collective(plain)
        if collective is None:
            self.nameless += 1
            return True
        if key.ranks or _OF_RANKS.isdisjoint(plain):
            ranks: tuple[int | None, int | None] = (key.ranks, None)
        else:
            ranks = ranks_of(plain)
        run = self._run((collective, *ranks, key.library or plain.get("library")), line)
        if run is None:
            return False
        row = Row(size, time, algbw, busbw, bw)
        cells = {**plain, "wrong": figures["wrong"][0]} if "wrong" in figures else plain
        pay_for_case()
        run.raws.append(_Raw(row, key.placement or _placement(plain), cells, key.variant or plain.get("variant")))
        run.content.append(content[:500])
        return True

    def _collective(self, plain: Mapping[str, str]) -> Collective | None:
        for name in ("collective", "op"):
            found = _collective_of(plain[name][:80]) if name in plain else None
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
        return size_in(text, self.mark, self.commas)

    def _of_sizes(self, sizes: Sequence[tuple[str, str]]) -> tuple[str, str]:
        """The cell that has the bytes of all ranks, where elements, bytes and the part of a rank stand side by side.

        It is the largest, and where a rounded size stands beside the same in bytes, the one with more digits.
        """
        found = [(figure, each) for each in sizes if (figure := self._size("\0".join(each))) is not None]
        if not found:
            return sizes[0]

        def scaled(figure: Figure) -> float:
            return figure.value * SIZES.get(figure.unit, (1.0,))[0]

        most = max(scaled(figure) for figure, _ in found)
        return min((each for each in found if scaled(each[0]) > 0.9 * most), key=lambda each: each[0].slack)[1]

    def _figure(self, cell: str, unit: str) -> Figure | None:
        return figure_in(cell[:60], unit, self.mark, self.commas)

    def _end(self, run: _Run) -> None:
        groups: dict[tuple[str, ...], list[_Raw]] = {}
        for raw in run.raws:
            row = raw.row
            groups.setdefault(
                tuple(each.unit if each else "-" for each in (row.size, row.time, row.algbw, row.busbw, row.bw)), []
            ).append(raw)
        cases = Cases(paid=len(run.raws))
        decided: list[tuple[list[_Raw], Units]] = []
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
            decided.append((raws, units))
        shared = all_of_1000([([raw.row for raw in raws], units) for raws, units in decided])
        for (raws, _), units in zip(decided, shared, strict=True):
            cases += [_case(raw, run.collective, units, many=len(variants) > 1) for raw in raws]
        if not cases or self._contradicts(run, cases):
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

    def _contradicts(self, run: _Run, cases: Sequence[Case]) -> bool:
        """Whether the ranks that the rows name cannot give any of their bus bandwidths; then it is told."""
        ranks = run.ranks if run.nodes is None else None
        factor = bus_factor(run.collective, ranks) if ranks else None
        ratios = [
            case.busbw_GBps / case.algbw_GBps
            for case in cases
            if case.algbw_GBps and case.algbw_GBps > 1 and case.busbw_GBps
        ]
        if not factor or not ratios or any(abs(ratio / factor - 1) < TOO_FAR for ratio in ratios):
            return False
        self._sink.problem(
            run.line,
            f"bandwidths and ranks contradict each other: bus over algorithm bandwidth is {ratios[0]:.3g}, and "
            f"{ranks} ranks of {run.collective} give {factor:.3g}; nothing was imported",
        )
        return True

    def close(self) -> None:
        """The table ends."""
        for run in self._runs.values():
            self._end(run)
        self._runs = {}
        if self.nameless:
            self._sink.problem(None, f"nothing names the collective of {self.nameless} rows; name it with --collective")
        self.nameless = 0


@lru_cache(maxsize=1024)
def _collective_of(text: str) -> Collective | None:
    """The collective that a cell names."""
    named = re.sub(r"(?i)[_-]?(?:perf|test|bench(?:mark)?)$", "", text)
    return collective_named(re.sub(r"^(?:nccl|rccl|mpi|MPI)[_ ]?(?=[A-Za-z])", "", named))


def _size_of(run: _Run, cases: Sequence[Case], notes: list[str]) -> int | None:
    """The ranks of a run; GPUs beside nodes are those of all or of each, as the bandwidths say."""
    if run.ranks is None:
        return _ranks_of_ratios(run, cases, notes)
    if run.nodes is None:
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


def _ranks_of_ratios(run: _Run, cases: Sequence[Case], notes: list[str]) -> int | None:
    """Ranks by bus bandwidth over size and time, where no algorithm bandwidth is printed and all rows say the same."""
    scale = SCALE.get(run.collective)
    found = set()
    for case in cases if scale else ():
        if case.conversion == FROM_TIME and case.algbw_GBps and case.busbw_GBps and case.algbw_GBps > 5:
            found.add(ranks_of_ratio(case.algbw_GBps, case.busbw_GBps, scale or 1.0))
    found.discard(None)
    if len(found) != 1:
        return None
    ranks = found.pop()
    notes.append(f"{ranks} ranks: from bus bandwidth over size and time, nothing names them")
    return ranks


TOO_FAR = 0.1
"""Of bus over algorithm bandwidth: beyond that it is no rounding."""
FROM_TIME = "algorithm bandwidth from size and time"


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
    time, algbw, busbw = (_scaled(row.time, units.time), _scaled(row.algbw, units.rate), _scaled(row.busbw, units.rate))
    conversion = None
    if algbw is None and busbw and time and size:
        algbw, conversion = round(size / time / 1000, 6), FROM_TIME
    return Case(
        run="", case=0, collective=collective, bytes=round(size), placement=raw.placement, outcome="measured",
        time_us=time, algbw_GBps=algbw, busbw_GBps=busbw, count=whole_number(cells.get("count")),
        type=(torch_type(dtype[:40]) or type_named(dtype[:40])) if dtype else None, op=str(op)[:20] if is_op else None,
        root=whole_number(cells.get("root")), wrong=wrong, cycle=whole_number(cells.get("cycle")) or None,
        variant=raw.variant[:80] if many and raw.variant else None, conversion=conversion,
    )  # fmt: skip


def _scaled(figure: Figure | None, factor: float) -> float | None:
    if figure is None:
        return None
    return figure.value if factor == 1.0 else round(figure.value * factor, 9)


def decimal_commas(rows: Sequence[Sequence[str]]) -> bool:
    """Whether decimals follow commas in a table."""
    return any(has_decimal_comma(cell) for row in rows for cell in row)
