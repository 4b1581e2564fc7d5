"""Markdown tables of results: sizes down, a column per library, collective and variant, as on the NDmv4 page."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Literal

from busbw.base.secrets import shortened
from busbw.importers.context import Surroundings
from busbw.importers.draft import Draft, Sink
from busbw.importers.values import collective_named, number, size_in_bytes
from busbw.records import Case, Collective, Library, Tool
from busbw.records.bandwidth import bus_factor

FORMAT = "markdown table of results"
Metric = Literal["time_us", "busbw_GBps", "algbw_GBps"]

_METRICS: tuple[tuple[re.Pattern[str], Metric], ...] = (
    (re.compile(r"\b(?:latency|time)\b.*\(?(?:us|µs)\b", re.I), "time_us"),
    (re.compile(r"\bbus ?bw\b.*GB(?:/s|ps)|\bbus bandwidth\b.*GB(?:/s|ps)", re.I), "busbw_GBps"),
    (re.compile(r"\balg(?:o|orithm)?[ _]?(?:bw|bandwidth)\b.*GB(?:/s|ps)", re.I), "algbw_GBps"),
)
_CAPTION = re.compile(r"\s*\*\*(.{1,200}?)\*\*[\s:,.]{0,4}(.{0,200})$")
_ABOUT = re.compile(r"(?i)all[-_ ]?reduce|all[-_ ]?gather|reduce[-_ ]?scatter|all[-_ ]?to[-_ ]?all|[nr]ccl")
_SIZE_HEADER = re.compile(r"(?:message )?size(?: \((?:b|bytes)\))?", re.I)
_COLUMN = re.compile(r"(?:(?P<library>\S+) )?(?P<collective>[A-Za-z_-]+)(?: (?P<variants>\S.*))?")
_SHAPE = re.compile(r"(\d{1,6}) nodes?,? ?(?:of|x|with)? ?(\d{1,6}) gpus?(?:/| per |\b) ?(?:node)?", re.I)
_GPUS = re.compile(r"\b(\d{1,6}) ?(?:x ?)?(?:\w{1,12} )?(?:gpus?|ranks)\b(?! ?/| per)", re.I)
_UNIT = re.compile(r"\s*\((?:GB/s|GBps|us|µs)\)\s*$")
_MISSING = frozenset({"-", "\u2013", "\u2014", "n/a", "N/A", ""})


@dataclass(frozen=True)
class Column:
    """What a column holds: one library's collective, in one or several variants."""

    library: str
    """Empty where the column names the collective alone."""
    collective: Collective
    variants: tuple[str | None, ...]


@dataclass(frozen=True)
class Cell:
    """One figure; `value` is None where the source has none."""

    size: int
    variant: str | None
    value: float | None
    bold: bool


@dataclass
class _Open:
    metric: Metric
    columns: list[Column | None]
    around: Surroundings
    line: int
    ranks: int | None


@dataclass
class _Section:
    """The tables below one heading: their cells meet in one record per library."""

    around: Surroundings
    drafts: dict[str, Draft] = field(default_factory=dict)


class Parser:
    """Reads tables below a caption such as **Latency (us)**; outside of Markdown nothing is a table."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._metric: Metric | None = None
        self._caption = ""
        self._open: _Open | None = None
        self._unnamed: list[str] = []
        self._sections: dict[str | None, _Section] = {}

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line belongs to this format."""
        if line.startswith("#"):
            self.close()
            return False
        if not line.lstrip().startswith("|"):
            self._open = None
            caption = _CAPTION.match(line)
            if caption:
                self._metric = metric_of(caption[1])
                self._caption = f"{caption[1]} {caption[2]}"
            return False  # whoever reads another table below it needs the caption too
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if self._open is not None:
            return self._row(cells, number_)
        return self._header(cells, number_)

    def _header(self, cells: list[str], number_: int) -> bool:
        if not _SIZE_HEADER.fullmatch(cells[0]) or len(cells) < 2 or len(cells) > 200:
            self._without_unit(cells, number_)
            return False
        if self._metric is None:
            self._unnamed = cells[1:]
            return False
        columns = [column_of(cell) for cell in cells[1:]]
        if not any(columns):
            return False
        for cell, column in zip(cells[1:], columns, strict=True):
            if column is None:
                self._sink.problem(number_, f"the column {cell[:60]!r} names no library and collective")
        around = self._sink.sweep_starts()
        self._open = _Open(
            self._metric, columns, around, number_, _ranks_of(f"{around.heading or ''} / {self._caption}")
        )
        self._sections.setdefault(self._open.around.heading, _Section(self._open.around))
        return True

    def _without_unit(self, cells: list[str], number_: int) -> None:
        """Say of sizes and figures that nobody names a unit for that they are no results yet."""
        if not self._unnamed or all(set(cell) <= set("-: ") for cell in cells):
            return
        names, self._unnamed = self._unnamed, []
        figures = [number(cell.strip("* ")) for cell in cells[1:]]
        about = f"{self._sink.sweep_starts().heading or ''} {' '.join(self._sink.above())}"
        if size_in_bytes(cells[0]) is not None and any(each is not None for each in figures) and _ABOUT.search(about):
            self._sink.problem(
                number_,
                f"the columns {', '.join(names)[:120]!r} name no time or bandwidth with its unit: write them as "
                "`NCCL time (us)`, or a caption such as **AllReduce latency (us)** above the table",
            )

    def _row(self, cells: list[str], number_: int) -> bool:
        table = self._open
        assert table is not None
        if all(set(cell) <= set("-: ") and cell for cell in cells):
            return True
        size = size_in_bytes(cells[0])
        if size is None or len(cells) != len(table.columns) + 1:
            self._sink.problem(number_, f"a row of the table that cannot be read: {shortened(' | '.join(cells), 80)!r}")
            return True
        for column, cell in zip(table.columns, cells[1:], strict=True):
            if column is not None:
                self._cell(table, column, size, cell, number_)
        return True

    def _cell(self, table: _Open, column: Column, size: int, cell: str, number_: int) -> None:
        parts = [part.strip() for part in cell.split("/")] if len(column.variants) > 1 else [cell]
        if len(parts) != len(column.variants):
            self._sink.problem(number_, f"{cell!r} has {len(parts)} figures for {len(column.variants)} variants")
            return
        draft = self._draft(table, column)
        for variant, part in zip(column.variants, parts, strict=True):
            bold = part.startswith("**") and part.endswith("**") and len(part) > 4
            figure = part.strip("* ")
            value = number(figure)
            if value is None and figure not in _MISSING:
                self._sink.problem(number_, f"{part[:40]!r} is no figure")
                continue
            draft.content.append(f"{table.metric} {column} {size} {variant} {part}")
            draft.rows += 1
            draft.cases.append(_case(table, column.collective, Cell(size, variant, value, bold)))

    def _draft(self, table: _Open, column: Column) -> Draft:
        section = self._sections[table.around.heading]
        draft = section.drafts.get(column.library)
        if draft is None:
            version = table.around.library_versions.get(column.library)
            draft = Draft(
                FORMAT, Tool(_tool_of(column.library)), table.line, column.collective,
                library=Library(column.library, version=version) if column.library else None, size=table.ranks,
                machine=table.around.machine or table.around.heading_machine,
            )  # fmt: skip
            section.drafts[column.library] = draft
        return draft

    def close(self) -> None:
        """A heading or the end of the file: the tables below the last one are complete."""
        self._open = None
        self._metric = None
        for section in self._sections.values():
            for draft in section.drafts.values():
                self._sink.sweep_ends(draft, section.around.of_tool(draft.tool.name))
        self._sections = {}


def metric_of(caption: str) -> Metric | None:
    """What the figures below a caption are, and in which unit; None where it does not say both."""
    return next((metric for pattern, metric in _METRICS if pattern.search(caption)), None)


def column_of(header: str) -> Column | None:
    """The library, collective and variants that a column's header names."""
    match = _COLUMN.fullmatch(_UNIT.sub("", header))
    collective = collective_named(match["collective"]) if match else None
    if match is None or collective is None:
        return None
    variants: tuple[str | None, ...] = (None,)
    if match["variants"]:
        variants = tuple(each.strip() for each in match["variants"].split("/"))
    return Column(match["library"] or "", collective, variants)


def _tool_of(library: str) -> str:
    # MSCCL is an interpreter inside of NCCL and is measured by nccl-tests, as its page does.
    return "mscclpp-test" if library == "MSCCL++" else "nccl-tests"


def _ranks_of(text: str) -> int | None:
    """Ranks that a heading or caption names, one for each GPU."""
    shape = _SHAPE.search(text)
    if shape:
        return int(shape[1]) * int(shape[2])
    gpus = {found[1] for found in _GPUS.finditer(text)}
    return int(gpus.pop()) if len(gpus) == 1 else None


def _case(table: _Open, collective: Collective, cell: Cell) -> Case:
    case = Case(
        run="", case=0, collective=collective, bytes=cell.size, placement=table.around.placement, outcome="measured",
        variant=cell.variant, best=cell.bold or None,
    )  # fmt: skip
    if cell.value is None:
        return replace(case, outcome="skipped", reason="the source gives no figure")
    return _with_figures(case, table.metric, cell.value, table.ranks)


def _with_figures(case: Case, metric: Metric, value: float, ranks: int | None) -> Case:
    """The figure given, and the two that follow from it with the size and the ranks."""
    factor = bus_factor(case.collective, ranks) if ranks else None
    if not factor or value <= 0:
        return replace(case, **{metric: value})  # type: ignore[arg-type]
    if metric == "time_us":
        algbw = case.bytes / value / 1000
        return replace(
            case, time_us=value, algbw_GBps=round(algbw, 6), busbw_GBps=round(algbw * factor, 6),
            conversion="algbw and busbw from the time",
        )  # fmt: skip
    algbw = value / factor if metric == "busbw_GBps" else value
    given = replace(case, algbw_GBps=round(algbw, 6), busbw_GBps=round(algbw * factor, 6))
    given = replace(given, **{metric: value})  # type: ignore[arg-type]
    return replace(
        given,
        time_us=round(case.bytes / algbw / 1000, 3),
        conversion=f"the rest from {metric.removesuffix('_GBps')}",
    )
