"""Runs as curves: one series per run, shape, placement and variant, with the spread of each point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from busbw.analysis.comparison import Shape, shape_of
from busbw.analysis.samples import Figure
from busbw.analysis.statistics import MIN_SAMPLES, percentile
from busbw.records import Case, Record
from busbw.records.bandwidth import busbw_GBps


@dataclass(frozen=True)
class NamedRun:
    """A run and what it is called in this report."""

    name: str
    record: Record


@dataclass(frozen=True)
class Point:
    """One size of a curve; low and high bound the time where samples, an interval or a source's range say so."""

    bytes: int
    time_us: float | None
    busbw_GBps: float | None
    low_us: float | None = None
    high_us: float | None = None
    low_GBps: float | None = None
    high_GBps: float | None = None
    expected_GBps: float | None = None


@dataclass(frozen=True)
class Series:
    """One curve."""

    run: int
    name: str
    shape: Shape
    variant: str | None
    points: tuple[Point, ...]

    @property
    def view(self) -> str:
        """What may share a picture: bus bandwidth compares different numbers of ranks, but not different work."""
        return " ".join(part for part in (self.shape.collective, self.shape.type, self.shape.op) if part)

    @property
    def label(self) -> str:
        return f"{self.name} {self.variant}" if self.variant else self.name


Expected = Callable[[Record, Shape, int], float | None]
"""Bus bandwidth that a run of this shape should reach at this size, in GB/s, where somebody knows it."""


def make_series(runs: Sequence[NamedRun], expected: Expected = lambda record, shape, size: None) -> list[Series]:
    """Every curve of the runs, in their order; what a record itself expects comes before `expected`."""
    found: list[Series] = []
    for number, run in enumerate(runs):
        curves: dict[tuple[Shape, str | None], dict[int, list[Case]]] = {}
        for case in run.record.cases:
            if case.outcome == "measured":
                curves.setdefault((shape_of(case), case.variant), {}).setdefault(case.bytes, []).append(case)
        for (shape, variant), by in curves.items():
            points = tuple(
                _point(Figure(tuple(by[size])), size, expected(run.record, shape, size)) for size in sorted(by)
            )
            found.append(Series(number, run.name, shape, variant, points))
    return found


def choose_names(runs: Sequence[tuple[str, Record]]) -> list[str]:
    """The shortest names that tell the runs apart: the library, the machine, or what the user called them."""
    machines = [record.run.machine for _, record in runs]
    for candidate in (_library_names(runs), machines, _names_with_ranks(runs)):
        if all(candidate) and len(set(candidate)) == len(candidate) > 1:
            return [str(name) for name in candidate]
    labels = [label.removeprefix("catalogue:") for label, _ in runs]
    if len(set(labels)) < len(labels):
        labels = [label for label, _ in runs]
    if len(set(labels)) == len(labels):
        return labels
    return [f"{label} {number}" for number, label in enumerate(labels, start=1)]


def _library_names(runs: Sequence[tuple[str, Record]]) -> list[str | None]:
    libraries = [record.run.library for _, record in runs]
    plain = [library.name if library else None for library in libraries]
    if len(set(plain)) == len(plain):
        return plain
    return [f"{library.name} {library.version or ''}".strip() if library else None for library in libraries]


def _names_with_ranks(runs: Sequence[tuple[str, Record]]) -> list[str | None]:
    """For the same libraries at several scales."""
    ranks = [max((case.ranks or 0 for case in record.cases), default=0) for _, record in runs]
    libraries = [record.run.library for _, record in runs]
    return [f"{each.name}, {n} ranks" if each and n else None for each, n in zip(libraries, ranks, strict=True)]


def _point(figure: Figure, size: int, expected: float | None) -> Point:
    time, bus = figure.time_us, _busbw(figure, size)
    low, high = _spread(figure)
    rates = figure.range_of("busbw_GBps")
    if rates is None and bus and time and low and high:
        rates = (bus * time / high, bus * time / low)
    slowest, fastest = rates or (None, None)
    return Point(size, time, bus, low, high, slowest, fastest, _expected(figure.cases) or expected)


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
