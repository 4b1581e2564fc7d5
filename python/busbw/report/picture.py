"""The model of a report: title, verdicts, views of plots, sections of tables, and how it was measured and is repeated.

HTML, SVG, PNG, Markdown, LaTeX and the terminal draw this and decide nothing themselves.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.base.text import clean
from busbw.report.curves import Curve
from busbw.report.judging import Judge
from busbw.report.naming import title_of
from busbw.report.series import Expected, Point, Series, make_series
from busbw.report.variants import PLACEMENTS, Section

LIGHT = ("#0b63b8", "#ef3517", "#4d4276", "#8444ec", "#74a23f", "#9d2212", "#9c678c", "#349b61")
DARK = ("#5a9df0", "#e76e47", "#a8bee5", "#c769dc", "#a0ff81", "#f32e0c", "#e4bdc3", "#62b76a")
"""Apart for every kind of colour vision (a test simulates three), 3:1 and more against their ground."""
_SLOTS = {"NCCL": 0, "BUSBW": 1, "RCCL": 2, "MSCCL": 3, "MSCCL++": 4, "MSCCLPP": 4, "ONECCL": 5, "UCC": 6, "GLOO": 7}
"""A library has one colour on every page; NCCL is also what a log measures that names no library."""
MARKERS = 8
_FAR = 20
"""From this factor on between its ratios, a linear axis shows the largest alone."""


@dataclass(frozen=True)
class Mark:
    """One point of a line: the value, and the bounds of its spread or interval; a range alone has no value."""

    bytes: int
    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Line:
    """One line of a plot. In place is dashed where the other placement is drawn too."""

    column: int
    placement: str
    colour: int
    marker: int
    points: tuple[Mark, ...]
    expected: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Plot:
    """One quantity over size. `logarithmic` is how it is drawn unless the reader asks for the other."""

    id: str
    title: str
    unit: str
    logarithmic: bool
    lines: tuple[Line, ...]
    over: str = "size"
    """`time`: the bytes of its marks are seconds since 1970."""


@dataclass(frozen=True)
class View:
    """What may share pictures: the same work on the same section's columns."""

    title: str
    names: tuple[str, ...]
    colours: tuple[int, ...]
    base: str | None
    plots: tuple[Plot, ...]


def make_views(sections: Sequence[Section], expected: Expected, judge: Judge) -> list[View]:
    """A view for each section and kind of work in it."""
    views = []
    for section in sections:
        kinds = dict.fromkeys(_work(curve) for curve in section.curves)
        for kind in kinds:
            members = [i for i, curve in enumerate(section.curves) if _work(curve) == kind]
            curves = [section.curves[i] for i in members]
            title = section.title if len(kinds) == 1 else f"{kind}, {section.title}"
            base = section.base if section.base in members else members[0]
            names = tuple(section.names[i] for i in members)
            views.append(_view(title, (curves, names, members.index(base)), expected, judge))
    return views


def _work(curve: Curve) -> str:
    return title_of([curve], set(curve.facts) - {"collective", "type", "root"})


def _view(title: str, across: tuple[list[Curve], tuple[str, ...], int], expected: Expected, judge: Judge) -> View:
    curves, names, base = across
    colours = choose_colours(curves)
    series = make_series(curves, expected)

    def lines(name: str) -> tuple[Line, ...]:
        found = [_line(each, name, colours[each.column]) for each in series]
        return tuple(line for line in found if line.points)

    ratios = _ratios(curves, base, colours, judge)
    values = [mark.value for line in ratios for mark in line.points if mark.value] or [1.0]
    far = max(*values, 1.0) > _FAR * min(*values, 1.0)
    plots = [
        Plot("ratio", f"Speed over that of '{names[base]}'", "times", far, ratios),
        Plot("busbw", "Bus bandwidth", "GB/s", False, lines("busbw")),
        Plot("algbw", "Algorithm bandwidth", "GB/s", False, lines("algbw")),
        Plot("latency", "Latency", "us", True, lines("latency")),
    ]
    # Algorithm bandwidth is for the columns that have no other: one rank, or nobody knows how many.
    has_bus = {line.column for line in plots[1].lines} >= {line.column for line in plots[2].lines}
    kept = tuple(plot for plot in plots if plot.lines and not (plot.id == "algbw" and has_bus))
    return View(title, names, tuple(colours), names[base] if len(names) > 1 else None, kept)


def _line(series: Series, name: str, colour: int) -> Line:
    points = tuple(mark for point in series.points if (mark := _mark(point, name)) is not None)
    wanted = tuple(Mark(p.bytes, p.expected_GBps) for p in series.points if p.expected_GBps and name == "busbw")
    return Line(series.column, PLACEMENTS[series.shape.placement], colour, _marker(series.column), points, wanted)


def _marker(column: int) -> int:
    """Another one for a column whose colour an earlier one has."""
    return (column + column // len(LIGHT)) % MARKERS


def _mark(point: Point, name: str) -> Mark | None:
    value, low, high = {
        "latency": (point.time_us, point.low_us, point.high_us),
        "busbw": (point.busbw_GBps, point.low_GBps, point.high_GBps),
        "algbw": (point.algbw_GBps, point.low_algbw_GBps, point.high_algbw_GBps),
    }[name]
    if point.bytes <= 0 or not ((value and value > 0) or (low and high)):
        return None
    return Mark(point.bytes, value or None, low or None, high or None)


def _ratios(curves: Sequence[Curve], base: int, colours: Sequence[int], judge: Judge) -> tuple[Line, ...]:
    """The ratio of speeds of every other column to the base, with the interval of the comparison."""
    found = []
    for i, curve in enumerate(curves):
        for placement in curve.placements if i != base else ():
            rows = judge.rows(curves[base], curve, placement, of_times=curve.ranks == curves[base].ranks)
            points = tuple(
                Mark(size, row.ratio, row.interval.low, row.interval.high) if row.interval and row.interval.high < 1e4
                else Mark(size, row.ratio)
                for size, row in sorted(rows.items()) if size > 0
            )  # fmt: skip
            if points:
                found.append(Line(i, PLACEMENTS[placement], colours[i], _marker(i), points))
    return tuple(found)


def choose_colours(curves: Sequence[Curve]) -> list[int]:
    """The first column of a library has the library's colour; its further ones those that no library here owns."""
    slots = [_slot(curve) for curve in curves]
    owned = set(slots)
    free = [slot for slot in range(len(LIGHT)) if slot not in owned]
    taken: set[int] = set()
    found = []
    for slot in slots:
        if slot not in taken:
            found.append(slot)
            taken.add(slot)
        else:
            found.append(free.pop(0) if free else found[len(found) % len(LIGHT)])
    return found


def _slot(curve: Curve) -> int:
    name = curve.facts.get("library", "NCCL").upper()
    known = next((slot for known, slot in _SLOTS.items() if name == known), None)
    if known is not None:
        return known
    return 1 if name.startswith("BUSBW") else zlib.crc32(clean(name).encode()) % len(LIGHT)
