"""The summary table: latency at small sizes, bus bandwidth at large ones, a column per run, the best marked."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from busbw.analysis.units import format_bytes
from busbw.base.text import WIDTH, clean, columns, display_width, paint, shorten
from busbw.report.series import Point, Series

LATENCY_SIZES = (8, 1 << 10, 32 << 10)
BANDWIDTH_SIZES = (1 << 20, 128 << 20, 1 << 30, 4 << 30)
_TITLES = {
    "all_reduce": "AllReduce", "all_gather": "AllGather", "reduce_scatter": "ReduceScatter", "alltoall": "AllToAll",
    "alltoallv": "AllToAllv", "broadcast": "Broadcast", "reduce": "Reduce", "gather": "Gather", "scatter": "Scatter",
    "sendrecv": "SendRecv", "hypercube": "HyperCube", "barrier": "Barrier",
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """The figures of the variants of one column at one size."""

    values: tuple[float | None, ...]
    best: tuple[bool, ...]

    def text(self, digits: int, mark: Callable[[str], str]) -> str:
        shown = ["-" if value is None else f"{value:.{digits}f}" for value in self.values]
        return " / ".join(mark(text) if best else text for text, best in zip(shown, self.best, strict=True))


@dataclass(frozen=True)
class Table:
    """One quantity of one section: sizes down, runs across."""

    section: str
    quantity: str
    columns: tuple[str, ...]
    sizes: tuple[int, ...]
    cells: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class _Column:
    label: str
    collective: str
    series: tuple[Series, ...]


def make_tables(
    series: Sequence[Series], latency: Sequence[int] | None = None, bandwidth: Sequence[int] | None = None
) -> list[Table]:
    """Tables by number of ranks and placement, in the form of the NDmv4 page; sizes that nobody has are left out."""
    tables = []
    for key in dict.fromkeys((each.shape.ranks, each.shape.placement) for each in series):
        group = [each for each in series if (each.shape.ranks, each.shape.placement) == key]
        across = _columns(group)
        title = _title(*key)
        present = sorted({point.bytes for each in group for point in each.points})
        for quantity, chosen, value, better in (
            ("Latency (us)", _sizes(latency, LATENCY_SIZES, present, largest=False), _time, min),
            ("BusBW (GB/s)", _sizes(bandwidth, BANDWIDTH_SIZES, present, largest=True), _rate, max),
        ):
            rows = [(size, _row(across, size, value, better)) for size in chosen]
            rows = [(size, row) for size, row in rows if any(v is not None for cell in row for v in cell.values)]
            if rows:
                labels = tuple(column.label for column in across)
                tables.append(Table(title, quantity, labels, tuple(s for s, _ in rows), tuple(r for _, r in rows)))
    return tables


def _columns(group: Sequence[Series]) -> list[_Column]:
    """A column per run and collective (and type or op, where a run has several); variants share one."""
    keys = dict.fromkeys((each.run, each.view) for each in group)
    views = {view for _, view in keys}
    collectives = {each.shape.collective for each in group}
    found = []
    for run, view in keys:
        members = tuple(each for each in group if (each.run, each.view) == (run, view))
        collective = members[0].shape.collective
        parts = [members[0].name]
        if len(views) > 1:
            parts.append(_TITLES[collective] if len(views) == len(collectives) else view)
        variants = [each.variant for each in members if each.variant]
        parts += ["/".join(variants)] if variants else []
        found.append(_Column(" ".join(parts), view, members))
    return found


def _sizes(asked: Sequence[int] | None, usual: Sequence[int], present: Sequence[int], *, largest: bool) -> list[int]:
    if asked is not None:
        return list(asked)
    chosen = [size for size in usual if size in present]
    if largest:
        # A sweep that ends between or before the usual sizes still shows its largest; latencies are no bandwidths.
        end = present[-1]
        return [*chosen, *([end] if end not in chosen and end > 32 << 10 else [])]
    return chosen or [size for size in present[:1] if size <= 64 << 10]


def _row(
    across: Sequence[_Column],
    size: int,
    value: Callable[[Point], float | None],
    better: Callable[[Iterable[float]], float],
) -> tuple[Cell, ...]:
    """The best is the best of a collective: a gather and a reduction at one size are no rivals."""
    found = [tuple(_at(each, size, value) for each in column.series) for column in across]
    best: dict[str, float] = {}
    for kind in {column.collective for column in across}:
        rivals = [v for c, vs in zip(across, found, strict=True) if c.collective == kind for v in vs if v is not None]
        if len(rivals) > 1:
            best[kind] = better(rivals)
    return tuple(
        Cell(values, tuple(v is not None and v == best.get(column.collective) for v in values))
        for column, values in zip(across, found, strict=True)
    )


def _at(series: Series, size: int, value: Callable[[Point], float | None]) -> float | None:
    return next((value(point) for point in series.points if point.bytes == size), None)


def _time(point: Point) -> float | None:
    return point.time_us


def _rate(point: Point) -> float | None:
    return point.busbw_GBps


def _title(ranks: int | None, placement: str | None) -> str:
    parts = ["" if ranks is None else f"{ranks} rank{'s' if ranks != 1 else ''}", (placement or "").replace("_", " ")]
    return ", ".join(part for part in parts if part) or "All runs"


def tables_text(tables: Sequence[Table], *, colour: bool = False) -> str:
    """For a terminal of 80 columns: sizes down where the columns fit, else a line per run."""
    lines: list[str] = []
    for section, members in _sections(tables):
        lines += [paint(shorten(section, WIDTH), "bold", colour=colour), ""]
        for table in members:
            lines += [table.quantity, *_grid(table, colour=colour), ""]
    if any(any(cell.best) for table in tables for row in table.cells for cell in row):
        lines.append(f"{'bold:' if colour else '*'} best of its collective at this size")
    return "\n".join(lines).rstrip() + "\n"


def _grid(table: Table, *, colour: bool) -> list[str]:
    def mark(text: str) -> str:
        return f"*{text}"

    cells = [[cell.text(2, mark) for cell in row] for row in table.cells]
    header = ["size", *(clean(label) for label in table.columns)]
    rows = [[format_bytes(size), *row] for size, row in zip(table.sizes, cells, strict=True)]
    lines = columns(header, rows)
    if max(map(display_width, lines)) > WIDTH - 2:
        header = ["", *(format_bytes(size) for size in table.sizes)]
        taken = sum(2 + max(map(len, (size, *row))) for size, row in zip(header[1:], cells, strict=True))
        width = max(16, WIDTH - 2 - taken)
        rows = [[shorten(label, width), *(row[i] for row in cells)] for i, label in enumerate(table.columns)]
        lines = columns(header, rows, left=(0,))
    if colour:
        lines = [_embolden(line) for line in lines]
    return [f"  {line}" for line in lines]


def _embolden(line: str) -> str:
    """Stars to bold face; a star inside a label is no mark, because marks stand before a digit."""
    return re.sub(r"\*(\d+\.\d+)", "\x1b[1m\\1\x1b[0m ", line)


def tables_markdown(tables: Sequence[Table]) -> str:
    """As on the NDmv4 page: bold marks the best, "-" is missing, "a / b / c" are the named variants."""
    lines: list[str] = []
    for section, members in _sections(tables):
        lines += [f"### {_markdown(section)}", ""]
        for table in members:
            lines += [f"**{table.quantity}**", ""]
            lines.append("| " + " | ".join(["Message Size", *(_markdown(label) for label in table.columns)]) + " |")
            lines.append("|" + ":---:|" * (len(table.columns) + 1))
            for size, row in zip(table.sizes, table.cells, strict=True):
                cells = [cell.text(2, lambda text: f"**{text}**") for cell in row]
                lines.append("| " + " | ".join([format_bytes(size), *cells]) + " |")
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _markdown(text: str) -> str:
    """A name as text: no cell border, no tag, no link, no emphasis."""
    escaped = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{c}" if c in "\\`*_[]|#!" else c for c in escaped)


def tables_rows(tables: Sequence[Table]) -> list[dict[str, Any]]:
    """One flat row per figure, for CSV and JSON."""
    return [
        {
            "section": table.section, "quantity": table.quantity, "column": label, "bytes": size, "value": value,
            "best": best,
        }
        for table in tables
        for size, row in zip(table.sizes, table.cells, strict=True)
        for label, cell in zip(table.columns, row, strict=True)
        for value, best in zip(cell.values, cell.best, strict=True)
    ]  # fmt: skip


def series_rows(series: Sequence[Series]) -> list[dict[str, Any]]:
    """Every point of every run, for programs."""
    return [
        {
            "run": each.name, "collective": each.shape.collective, "type": each.shape.type, "op": each.shape.op,
            "root": each.shape.root, "ranks": each.shape.ranks, "placement": each.shape.placement,
            "variant": each.variant, **vars(point),
        }
        for each in series
        for point in each.points
    ]  # fmt: skip


def rows_csv(rows: Sequence[dict[str, Any]]) -> str:
    """CSV; a text that a spreadsheet would run as a formula is defused with a leading quote."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _defused(value) for key, value in row.items()} for row in rows)
    return stream.getvalue()


def _defused(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def _sections(tables: Sequence[Table]) -> list[tuple[str, list[Table]]]:
    return [
        (section, [table for table in tables if table.section == section])
        for section in dict.fromkeys(table.section for table in tables)
    ]
