"""Variant tables: sizes down, one column per variant of any axis, the best marked, factors against a chosen column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from busbw.analysis.comparison import Row
from busbw.analysis.samples import Figure, wrong_results
from busbw.analysis.verdict import Verdict
from busbw.base.errors import UsageError
from busbw.base.quantities import Range, within
from busbw.records.bandwidth import Gbps_from_GBps
from busbw.report.curves import Curve
from busbw.report.judging import Judge
from busbw.report.naming import footnotes, name_columns, title_of

PLACEMENTS = {"out_of_place": "out of place", "in_place": "in place", None: ""}
FIGURES = {"time": "Latency (us)", "algbw": "AlgBW (GB/s)", "busbw": "BusBW (GB/s)",
           "throughput": "Algo throughput (Gbps)"}  # fmt: skip
"""Throughput is as torch all_reduce_bench prints it: twice the algorithm bandwidth, as it counts sends and receives."""
LATENCY_SIZES = (8, 1 << 10, 32 << 10)
BANDWIDTH_SIZES = (1 << 20, 128 << 20, 1 << 30, 4 << 30)


@dataclass(frozen=True)
class Cell:
    """One figure: a value, or the range that its source gives. `factor` is its speed over that of the base column."""

    value: float | None = None
    range: tuple[float, float] | None = None
    best: bool = False
    factor: float | None = None
    interval: tuple[float, float] | None = None
    sure: bool = False


@dataclass(frozen=True)
class Head:
    """A column: what it is called, and the placement that it stands under."""

    label: str
    placement: str
    base: bool = False


@dataclass(frozen=True)
class Table:
    """One quantity of one section. `factors`: every column but the base is followed by its ratio to the base."""

    section: str
    quantity: str
    heads: tuple[Head, ...]
    sizes: tuple[int, ...]
    cells: tuple[tuple[Cell, ...], ...]
    factors: bool = False


@dataclass(frozen=True)
class Section:
    """Columns that belong side by side: what they are called, what they share, what differs besides the times."""

    title: str
    curves: tuple[Curve, ...]
    names: tuple[str, ...]
    base: int | None
    tables: tuple[Table, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Wanted:
    """What the user asked for; None leaves it to what the runs have."""

    axes: tuple[str, ...] = ()
    figures: tuple[str, ...] | None = None
    against: str | None = None
    latency: tuple[int, ...] | None = None
    bandwidth: tuple[int, ...] | None = None
    sizes: tuple[Range, ...] | None = None
    every: bool = False
    named: bool = False
    judge: Judge = field(default_factory=Judge)


def make_sections(curves: Sequence[Curve], wanted: Wanted = Wanted()) -> list[Section]:
    """The curves by what must not stand side by side, each section with its tables."""
    groups: dict[tuple[str, ...], list[Curve]] = {}
    for curve in curves:
        groups.setdefault(tuple(curve.facts.get(fact, "") for fact in _apart(wanted.axes)), []).append(curve)
    found = [_section(members, wanted) for members in groups.values()]
    if wanted.against is not None and all(section.base is None for section in found):
        names = ", ".join(dict.fromkeys(name for section in found for name in section.names))
        raise UsageError(f"--against {wanted.against!r} is no column; the columns are: {names}")
    return found


def _apart(axes: Sequence[str]) -> tuple[str, ...]:
    """The facts that part sections. Without axes, a column may be any work on one number of ranks."""
    if not axes:
        return ("nodes",)
    # Clusters and whole runs differ in their nodes as a matter of course.
    kept = {"collective", "type", "root", "nodes", "cluster"} - set(axes)
    kept -= {"type", "root"} if "collective" in axes else set()
    kept -= {"nodes"} if {"cluster", "run", "heading", "ranks"} & set(axes) else set()
    return tuple(fact for fact in ("collective", "type", "root", "nodes", "cluster") if fact in kept)


def _section(curves: Sequence[Curve], wanted: Wanted) -> Section:
    names = name_columns(curves, wanted.axes, named=wanted.named)
    base = _base(names, wanted.against, curves)
    placements = [each for each in PLACEMENTS if any(each in curve.placements for curve in curves)]
    title = title_of(curves) or "All runs"
    only = PLACEMENTS[placements[0]] if len(placements) == 1 else ""
    title = f"{title}, {only}" if only else title
    notes = [*_wrong(curves, names), *footnotes(curves, names), *_remarks(curves, names)]
    if wanted.figures is not None and "busbw" in wanted.figures:
        notes += _averages(curves, names)
    names = [
        f"{name} (wrong results)" if wrong_results(c.cases) else name for name, c in zip(names, curves, strict=True)
    ]
    tables = [
        table
        for figure in _figures(curves, wanted)
        if (table := _table((title, figure), curves, (names, base, placements), wanted)) is not None
    ]
    return Section(title, tuple(curves), tuple(names), base, tuple(tables), tuple(notes))


def _base(names: Sequence[str], against: str | None, curves: Sequence[Curve]) -> int | None:
    """The column that factors are against: the one asked for, else the first of two that do the same work."""
    if against is not None:
        exact = [i for i, name in enumerate(names) if name == against]
        alike = exact or [i for i, name in enumerate(names) if against.lower() in name.lower()]
        return alike[0] if alike and (exact or len(alike) == 1) else None
    return 0 if len(names) == 2 and len({curve.collective for curve in curves}) == 1 else None


def _figures(curves: Sequence[Curve], wanted: Wanted) -> Iterator[str]:
    """Time and bus bandwidth; algorithm bandwidth where a column has that and no bus bandwidth, as one GPU does."""
    if wanted.figures is not None:
        yield from wanted.figures
        return
    yield "time"
    if any(_has(curve, "algbw") and not _has(curve, "busbw") for curve in curves):
        yield "algbw"
    yield "busbw"


def _has(curve: Curve, figure: str) -> bool:
    return any(_cell(Figure((case,)), figure) != Cell() for case in curve.cases)


def _table(
    what: tuple[str, str], curves: Sequence[Curve], across: tuple[Sequence[str], int | None, Sequence[str | None]],
    wanted: Wanted,
) -> Table | None:  # fmt: skip
    (title, figure), (names, base, placements) = what, across
    columns = [(i, placement) for placement in placements for i, c in enumerate(curves) if placement in c.placements]
    found = [curves[i].figures(placement) for i, placement in columns]
    cells = {
        size: _row([figures.get(size) for figures in found], figure, size, (curves, columns, base), wanted.judge)
        for size in _sizes(figure, sorted({size for figures in found for size in figures}), wanted)
    }
    kept = {size: row for size, row in cells.items() if any(cell.value is not None or cell.range for cell in row)}
    if not kept:
        return None
    several = len(placements) > 1
    heads = [Head(names[i], PLACEMENTS[placement] if several else "", i == base) for i, placement in columns]
    factors = base is not None and len(curves) > 1 and any(cell.factor for row in kept.values() for cell in row)
    return Table(title, FIGURES[figure], tuple(heads), tuple(kept), tuple(kept.values()), factors)


def _sizes(figure: str, present: Sequence[int], wanted: Wanted) -> list[int]:
    """All sizes where columns were asked for; else few, and a sweep's largest, which ends between the usual ones."""
    inside = [size for size in present if within(size, wanted.sizes)]
    asked = wanted.latency if figure == "time" else wanted.bandwidth
    if asked is not None:
        return [size for size in asked if size in inside]
    if wanted.every or wanted.sizes:
        return inside
    if figure == "time":
        chosen = [size for size in LATENCY_SIZES if size in inside]
        return chosen or [size for size in inside[:1] if size <= 64 << 10]
    chosen = [size for size in BANDWIDTH_SIZES if size in inside]
    largest = [size for size in inside[-1:] if size not in chosen and size > 32 << 10]
    return [*chosen, *largest]


def _row(
    figures: Sequence[Figure | None], figure: str, size: int,
    across: tuple[Sequence[Curve], Sequence[tuple[int, str | None]], int | None], judge: Judge,
) -> tuple[Cell, ...]:  # fmt: skip
    curves, columns, base = across
    plain = [_cell(each, figure) if each else Cell() for each in figures]
    of_times = figure != "busbw"
    rivals: dict[str | None, list[Curve]] = {}
    for (i, placement), cell in zip(columns, plain, strict=True):
        if cell.value is not None:
            rivals.setdefault(placement, []).append(curves[i])
    best = {
        placement: dict(zip(map(id, them), judge.best(them, placement, size, of_times=of_times), strict=True))
        for placement, them in rivals.items()
    }
    found = []
    for (i, placement), cell in zip(columns, plain, strict=True):
        if cell == Cell():
            found.append(cell)
            continue
        row = None
        if base is not None and i != base and curves[i].collective == curves[base].collective:
            row = judge.rows(curves[base], curves[i], placement, of_times=of_times).get(size)
        found.append(_with(cell, best.get(placement, {}).get(id(curves[i]), False), row))
    return tuple(found)


def _with(cell: Cell, best: bool, row: Row | None) -> Cell:
    if row is None:
        return Cell(cell.value, cell.range, best)
    interval = (row.interval.low, row.interval.high) if row.interval else None
    sure = row.judgement.verdict in (Verdict.FASTER, Verdict.SLOWER)
    return Cell(cell.value, cell.range, best, row.ratio, interval, sure)


_READ: dict[str, tuple[str, Callable[[float], float]]] = {
    "time": ("time_us", lambda value: value),
    "algbw": ("algbw_GBps", lambda value: value),
    "busbw": ("busbw_GBps", lambda value: value),
    "throughput": ("algbw_GBps", lambda value: 2 * Gbps_from_GBps(value)),
}


def _cell(figure: Figure, name: str) -> Cell:
    key, turned = _READ[name]
    value = getattr(figure, key)
    said = figure.range_of(key)
    return Cell(
        None if value is None else turned(value), None if said is None else (turned(said[0]), turned(said[1]))
    )  # fmt: skip


def _wrong(curves: Sequence[Curve], names: Sequence[str]) -> Iterator[str]:
    """Which columns are of results that were wrong: they are marked as such wherever their name stands."""
    for curve, name in zip(curves, names, strict=True):
        if said := wrong_results(curve.cases):
            yield f"{name} gave {said}: its times say nothing"


def _remarks(curves: Sequence[Curve], names: Sequence[str]) -> Iterator[str]:
    """What a reader must know of the figures themselves."""
    alone = [name for curve, name in zip(curves, names, strict=True) if curve.ranks == 1]
    if alone:
        yield f"One rank sends nothing, so {_and(alone)} has no bus bandwidth; its algorithm bandwidth is of the copy"
    unknown = [
        name for curve, name in zip(curves, names, strict=True)
        if curve.ranks is None and _has(curve, "algbw") and not _has(curve, "busbw")
    ]  # fmt: skip
    if unknown:
        yield f"Nothing says how many ranks {_and(unknown)} had, and bus bandwidth needs it: --ranks N says it"
    told = dict.fromkeys(case.conversion for curve in curves for case in curve.cases if case.conversion)
    yield from (f"Worked out: {text}" for text in list(told)[:4])
    notes = dict.fromkeys(
        note for curve in curves for record in curve.records for note in (*record.run.notes, *record.notes)
    )
    yield from list(notes)[:8]


def _averages(curves: Sequence[Curve], names: Sequence[str]) -> Iterator[str]:
    """What nccl-tests prints below its table, for pages that show all its figures."""
    found = []
    for curve, name in zip(curves, names, strict=True):
        ends = [record.end for record in curve.records if record.end and record.end.average_busbw_GBps]
        found += [f"{name} {end.average_busbw_GBps:g}" for end in ends if len(curve.records) == 1]
    if found:
        yield f"Average bus bandwidth of all rows in GB/s, as the tool printed it: {'; '.join(found)}"


def _and(names: Sequence[str]) -> str:
    shown = [f"'{name}'" if "," in name else name for name in dict.fromkeys(names)]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
