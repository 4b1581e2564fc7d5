"""Curves as points over size: one series per column and placement, with the spread of each point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from busbw.analysis.comparison import Shape, shape_of
from busbw.analysis.samples import Figure
from busbw.analysis.statistics import MIN_SAMPLES, percentile
from busbw.records import Case, Record
from busbw.records.bandwidth import busbw_GBps
from busbw.report.curves import Curve


@dataclass(frozen=True)
class Point:
    """One size of a curve; low and high bound the time where samples, an interval or a source's range say so."""

    bytes: int
    time_us: float | None
    busbw_GBps: float | None
    algbw_GBps: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    low_GBps: float | None = None
    high_GBps: float | None = None
    expected_GBps: float | None = None
    low_algbw_GBps: float | None = None
    high_algbw_GBps: float | None = None


@dataclass(frozen=True)
class Series:
    """One curve in one placement; `column` is the number of the column that it belongs to."""

    column: int
    curve: Curve
    shape: Shape
    points: tuple[Point, ...]


Expected = Callable[[Record, Shape, int], float | None]
"""Bus bandwidth that a run of this shape should reach at this size, in GB/s, where somebody knows it."""


def make_series(curves: Sequence[Curve], expected: Expected = lambda record, shape, size: None) -> list[Series]:
    """Every curve in each placement; what a record itself expects comes before `expected`."""
    found: list[Series] = []
    for number, curve in enumerate(curves):
        for placement in curve.placements:
            figures = curve.figures(placement)
            shape = shape_of(next(iter(figures.values())).cases[0])
            points = tuple(
                _point(figure, size, expected(curve.records[0], shape, size)) for size, figure in figures.items()
            )
            found.append(Series(number, curve, shape, points))
    return found


def series_rows(series: Sequence[Series], names: Sequence[str]) -> list[dict[str, Any]]:
    """Every point of every run, for programs."""
    return [
        {
            "run": each.curve.name, "column": names[each.column], "collective": each.shape.collective,
            "type": each.shape.type, "op": each.shape.op, "root": each.shape.root, "ranks": each.shape.ranks,
            "placement": each.shape.placement, "variant": each.curve.cases[0].variant, **vars(point),
        }
        for each in series
        for point in each.points
    ]  # fmt: skip


def _point(figure: Figure, size: int, expected: float | None) -> Point:
    time, bus = figure.time_us, _busbw(figure, size)
    low, high = _spread(figure)
    rates = figure.range_of("busbw_GBps")
    if rates is None and bus and time and low and high:
        rates = (bus * time / high, bus * time / low)
    slowest, fastest = rates or (None, None)
    expect = _expected(figure.cases) or expected
    said = figure.range_of("algbw_GBps") or (None, None)
    return Point(size, time, bus, figure.algbw_GBps, low, high, slowest, fastest, expect, *said)


def _busbw(figure: Figure, size: int) -> float | None:
    """The bus bandwidth, worked out again where its tool printed it with two decimals: 0.01 may be 0.005 or 0.015.

    Where the time was worked out from the bandwidth, or both from one figure, that way back would only lose digits.
    """
    printed, time, first = figure.busbw_GBps, figure.time_us, figure.cases[0]
    if printed is None or not time or not first.ranks or first.conversion:
        return printed
    exact = busbw_GBps(first.collective, size, time, first.ranks)
    return exact if exact is not None and abs(exact - printed) <= 0.0051 else printed


def _spread(figure: Figure) -> tuple[float | None, float | None]:
    """The middle 80 % of the samples; where samples were not kept, the interval that was measured with."""
    samples = figure.best_samples()
    if len(samples) >= MIN_SAMPLES:
        return percentile(samples, 10), percentile(samples, 90)
    interval = next((case.interval for case in figure.cases if case.interval), None)
    return (interval.low_us, interval.high_us) if interval else (None, None)


def _expected(cases: Sequence[Case]) -> float | None:
    """What the fabric should deliver, where whoever wrote the record knew it (an optional field)."""
    for case in cases:
        value = case.extra.get("expected_busbw_GBps", case.context.get("expected_busbw_GBps"))
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
            return float(value)
    return None
