"""Compares two sides case by case: matches their sweeps, refuses unlike shapes, and judges every size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace

from busbw.analysis.differences import Difference, find_differences
from busbw.analysis.fit import LatencyBandwidth, fit_latency_bandwidth
from busbw.analysis.ranges import Point, SizeRange, find_ranges
from busbw.analysis.samples import Figure, common_samples, wrong_results
from busbw.analysis.sequence import MIN_ROUNDS
from busbw.analysis.statistics import MIN_SAMPLES, Interval, median
from busbw.analysis.verdict import MARGIN, Judged, Judgement, judge, judge_single, of_rounds, of_runs, of_samples
from busbw.base.errors import UserError
from busbw.base.quantities import Range, within
from busbw.records import Case, Record
from busbw.records.derive import completed


@dataclass(frozen=True)
class Shape:
    """What must agree before times may be set against each other; None is unknown or not applicable."""

    collective: str
    type: str | None
    op: str | None
    root: int | None
    ranks: int | None
    placement: str | None

    def __str__(self) -> str:
        words = [self.collective, *(word for word in (self.type, self.op) if word)]
        if self.root is not None and self.root >= 0:
            words.append(f"root {self.root}")
        if self.ranks is not None:
            words.append(f"on {self.ranks} rank{'s' if self.ranks != 1 else ''}")
        if self.placement:
            words.append(self.placement.replace("_", " "))
        return " ".join(words)


DIMENSIONS = tuple(each.name for each in fields(Shape))


@dataclass(frozen=True)
class Side:
    """One side of a comparison: a run, or several runs that repeat each other."""

    label: str
    records: tuple[Record, ...]

    def sweeps(self, ranks: int | None = None) -> dict[Shape, dict[int, Figure]]:
        """Every measured size, by shape; `ranks` is how many a case had where nothing says it."""
        found: dict[Shape, dict[int, list[Case]]] = {}
        for record in self.records:
            for read in record.cases:
                if read.outcome == "measured":
                    case = read if read.ranks or ranks is None else replace(read, ranks=ranks)
                    # Without a bus bandwidth, unlike numbers of ranks would be compared by what they do not share.
                    case = completed(case) if case.busbw_GBps is None and (case.ranks or 0) > 1 else case
                    found.setdefault(shape_of(case), {}).setdefault(case.bytes, []).append(case)
        return {shape: {size: Figure(tuple(cases)) for size, cases in by.items()} for shape, by in found.items()}


@dataclass(frozen=True)
class Options:
    """How to compare."""

    allow_different: bool = False
    level: float = 0.95
    margin: float = MARGIN
    sizes: tuple[Range, ...] | None = None
    ranks: int | None = None
    """Ranks of a side where nothing says how many."""
    in_turns: bool = False
    """Both sides were measured in turns: cycle by cycle next to each other, until somebody who looked had enough."""
    letter: str = "B"
    """What sentences call the second side."""


@dataclass(frozen=True)
class Row(Judged):
    """One size on both sides, what is said of B against A, and from how many samples a side."""

    size: int
    a: Figure
    b: Figure
    judgement: Judgement
    samples: tuple[int, int]


@dataclass(frozen=True)
class Sweep:
    """All sizes of one shape, what they say together, and the lines fitted through both sides."""

    shape: Shape
    other: Shape
    rows: tuple[Row, ...]
    ranges: tuple[SizeRange, ...]
    fits: tuple[LatencyBandwidth | None, LatencyBandwidth | None]
    of_bus_bandwidth: bool = False


@dataclass(frozen=True)
class Comparison:
    """Everything `busbw compare` says about B against A."""

    a: Side
    b: Side
    differences: tuple[Difference, ...]
    sweeps: tuple[Sweep, ...]
    notes: tuple[str, ...] = field(default=())
    margin: float = MARGIN
    in_turns: bool = False
    letter: str = "B"

    @property
    def rows(self) -> Iterator[Row]:
        return (row for sweep in self.sweeps for row in sweep.rows)


def shape_of(case: Case) -> Shape:
    return Shape(
        case.collective, case.type, case.op, None if case.root is None or case.root < 0 else case.root, case.ranks,
        case.placement,
    )  # fmt: skip


def compare_all(sides: Sequence[Side], options: Options) -> list[Comparison]:
    """Every other side against the first, which is A; the others are B, C and so on."""
    return [
        compare(sides[0], side, replace(options, letter=chr(ord("B") + min(i, 24)))) for i, side in enumerate(sides[1:])
    ]


def compare(a: Side, b: Side, options: Options = Options()) -> Comparison:
    """Compares what both sides have; raises UserError where their shapes differ and that was not allowed."""
    first, second = (side.sweeps(options.ranks) for side in (a, b))
    for side, sweeps in ((a, first), (b, second)):
        if not sweeps:
            raise UserError(f"{side.label} holds no measured case: there is nothing to compare")
    unlike = _unlike(first, second)
    if unlike and not options.allow_different:
        said = "; ".join(f"{name}: {_listed(first, name)} against {_listed(second, name)}" for name in unlike)
        raise UserError(
            f"{a.label} and {b.label} differ in shape ({said}), so their times say nothing about each other; "
            "--allow-different compares them all the same"
        )
    if not options.allow_different:
        _ask_for_ranks(a, b, first, second)
    notes = [
        f"different {name}: {_listed(first, name)} in A against {_listed(second, name)} in {options.letter}, "
        "compared all the same"
        for name in unlike
    ]
    notes += _unknown(first, second, options.letter)
    found = [
        _sweep(shape, other, first[shape], second[other], options)
        for shape, other in _matches(list(first), list(second), frozenset(unlike))
    ]
    kept = tuple(sweep for sweep in found if sweep.rows)
    if not kept:
        missing = "size" if found else "combination of collective, type, op, root, ranks and placement"
        raise UserError(f"{a.label} and {b.label} share no {missing}: there is nothing to compare")
    notes[:0] = _wrong(kept, options.letter)
    notes += _left_out(first, second, kept, options.letter)
    notes += [note for side in (a, b) for record in side.records for note in record.notes]
    first_of_each = [a.records[0], b.records[0]]
    return Comparison(
        a, b, tuple(find_differences(first_of_each)), kept, tuple(notes), options.margin, options.in_turns,
        options.letter,
    )  # fmt: skip


def _wrong(sweeps: Sequence[Sweep], letter: str) -> Iterator[str]:
    """A side that was fast at what it got wrong is told first."""
    rows = [row for sweep in sweeps for row in sweep.rows]
    for name, figures in (("A", [row.a for row in rows]), (letter, [row.b for row in rows])):
        if said := wrong_results(case for figure in figures for case in figure.cases):
            yield f"{name} gave {said}: its times say nothing"


def _ask_for_ranks(
    a: Side, b: Side, first: dict[Shape, dict[int, Figure]], second: dict[Shape, dict[int, Figure]]
) -> None:
    """UserError where the ranks of one side are known and those of the other are not: a guess may mislead."""
    known = [bool(_values(sweeps, "ranks")) for sweeps in (first, second)]
    if known[0] != known[1]:
        side, other = (b, first) if known[0] else (a, second)
        raise UserError(
            f"nothing says on how many ranks {side.label} was measured, the other on {_listed(other, 'ranks')}: "
            "name them with --ranks N; --allow-different compares all the same"
        )


def _unlike(first: dict[Shape, dict[int, Figure]], second: dict[Shape, dict[int, Figure]]) -> list[str]:
    """Dimensions in which both sides are known and have no value in common."""
    unlike = []
    for name in DIMENSIONS:
        one, two = _values(first, name), _values(second, name)
        if one and two and not one & two:
            unlike.append(name)
    return unlike


def _unknown(first: dict[Shape, dict[int, Figure]], second: dict[Shape, dict[int, Figure]], letter: str) -> list[str]:
    notes = []
    for name in DIMENSIONS:
        known = [bool(_values(sweeps, name)) for sweeps in (first, second)]
        if known[0] != known[1]:
            side, other = ("A", second) if not known[0] else (letter, first)
            notes.append(f"{name} of {side} is not known; taken to be that of the other ({_listed(other, name)})")
    return notes


def _values(sweeps: dict[Shape, dict[int, Figure]], name: str) -> set[object]:
    return {getattr(shape, name) for shape in sweeps} - {None}


def _listed(sweeps: dict[Shape, dict[int, Figure]], name: str) -> str:
    return ", ".join(sorted(str(value) for value in _values(sweeps, name)))


def _matches(first: Sequence[Shape], second: Sequence[Shape], free: frozenset[str]) -> Iterator[tuple[Shape, Shape]]:
    """Each shape of A with the shapes of B that agree with it in most dimensions and contradict it in none."""
    known = frozenset(second)
    for shape in first:
        if shape in known:  # no other one agrees in all
            yield shape, shape
            continue
        scored = [(_agreement(shape, other, free), other) for other in second]
        best = max((score for score, _ in scored if score is not None), default=None)
        if best is not None:
            yield from ((shape, other) for score, other in scored if score == best)


def _agreement(a: Shape, b: Shape, free: frozenset[str]) -> int | None:
    agreeing = 0
    for name in DIMENSIONS:
        one, two = getattr(a, name), getattr(b, name)
        if one == two:
            agreeing += 1
        elif name not in free and one is not None and two is not None:
            return None
    return agreeing


def _left_out(
    first: dict[Shape, dict[int, Figure]], second: dict[Shape, dict[int, Figure]], kept: Sequence[Sweep], letter: str
) -> list[str]:
    notes = []
    pairs = (("A", first, [(s.shape, s.rows) for s in kept]), (letter, second, [(s.other, s.rows) for s in kept]))
    for name, sweeps, used in pairs:
        taken = {(shape, row.size) for shape, rows in used for row in rows}
        missed = [(shape, size) for shape, by in sweeps.items() for size in by if (shape, size) not in taken]
        if missed:
            notes.append(f"{len(missed)} case{'s' if len(missed) != 1 else ''} only in {name}")
    return notes


@dataclass(frozen=True)
class _Pair:
    """What both sides have of one size, the ratio of their speeds, and how much that jumps from size to size."""

    a: Figure
    b: Figure
    ratio: float
    scatter: float | None
    by_bus: bool

    @property
    def factor(self) -> float:
        """Equal times of unlike shapes are unlike bandwidths: what carries a ratio of times over to one of rates."""
        times = (self.a.time_us, self.b.time_us)
        return self.ratio * times[1] / times[0] if self.by_bus and times[0] and times[1] else 1.0


def _sweep(shape: Shape, other: Shape, a: dict[int, Figure], b: dict[int, Figure], options: Options) -> Sweep:
    sizes = [size for size in sorted(a.keys() & b.keys()) if within(size, options.sizes)]
    # A time on four ranks and a time on two move different amounts; bus bandwidth is made for that comparison.
    by_bus = shape.ranks != other.ranks or shape.collective != other.collective
    ratios = {size: ratio for size in sizes if (ratio := _ratio(a[size], b[size], by_bus=by_bus)) is not None}
    scatter = ratio_scatter(list(ratios.values()))
    rows = tuple(_row(size, _Pair(a[size], b[size], ratio, scatter, by_bus), options) for size, ratio in ratios.items())
    points = [Point(row.size, row.ratio, row.judgement.verdict, row.interval) for row in rows]
    ranges = tuple(find_ranges(points, margin=options.margin))
    return Sweep(shape, other, rows, ranges, (_fit(a), _fit(b)), by_bus)


def _ratio(a: Figure, b: Figure, *, by_bus: bool) -> float | None:
    """Speed of B over speed of A, from the first figure that both have."""
    rates = [(_rate(b, name), _rate(a, name)) for name in ("busbw_GBps", "algbw_GBps")]
    choices = rates if by_bus else [(a.time_us, b.time_us), *rates]
    for over, under in choices:
        if over and under and over > 0 and under > 0:
            return over / under
    return None


def _rate(figure: Figure, name: str) -> float | None:
    """The rate, or the middle of its range where a source gives that alone: the interval says how little it is."""
    value: float | None = getattr(figure, name)
    said = figure.range_of(name)
    return math.sqrt(said[0] * said[1]) if value is None and said else value


def _row(size: int, pair: _Pair, options: Options) -> Row:
    """The verdict of one size from the best evidence that both sides have."""
    a, b = pair.a, pair.b
    counts = (len(a.best_samples()), len(b.best_samples()))
    common = common_samples(a, b)
    ranged = _range_interval(a, b)
    runs = [tuple(case.time_us for case in each.cases if case.time_us and case.time_us > 0) for each in (a, b)]
    if ranged is not None:
        said = judge(ranged, margin=options.margin, ratio=pair.ratio)
    elif options.in_turns and min(map(len, runs)) >= MIN_ROUNDS:
        logs = [math.log(before / after * pair.factor) for before, after in zip(*runs, strict=False)]
        said, counts = of_rounds(logs, alpha=1 - options.level, margin=options.margin), (len(logs), len(logs))
    elif max(len(a.cases), len(b.cases)) > 1 and all(runs) and max(map(len, runs)) > 1:
        # Where runs repeat each other, their own noise is not what matters but how one differs from the next.
        said, counts = of_runs(*runs, margin=options.margin, factor=pair.factor), (len(a.cases), len(b.cases))
    elif common is not None:
        before, after, _ = common
        counts = len(before), len(after)
        said = of_samples(before, after, level=options.level, margin=options.margin, factor=pair.factor)
    else:
        said = judge_single(pair.ratio, pair.scatter, samples=counts)
    return Row(size, a, b, said, counts)


def _range_interval(a: Figure, b: Figure) -> Interval | None:
    """Where a source gives ranges, the ratio lies anywhere between their extremes."""
    for name in ("busbw_GBps", "algbw_GBps"):
        one, two = a.range_of(name), b.range_of(name)
        if one is None and two is None:
            continue
        value_a, value_b = getattr(a, name), getattr(b, name)
        one, two = one or (value_a, value_a), two or (value_b, value_b)
        if all(value is not None and value > 0 for value in (*one, *two)):
            return Interval(two[0] / one[1], two[1] / one[0])
    return None


def ratio_scatter(ratios: Sequence[float]) -> float | None:
    """How much a ratio jumps from size to size besides its trend: from second differences of its logarithm."""
    logs = [math.log(ratio) for ratio in ratios]
    bends = [abs(logs[i - 1] - 2 * logs[i] + logs[i + 1]) for i in range(1, len(logs) - 1)]
    return 1.4826 * median(bends) / math.sqrt(6) if len(bends) >= MIN_SAMPLES else None


def _fit(figures: dict[int, Figure]) -> LatencyBandwidth | None:
    points = [(size, time) for size, figure in figures.items() if (time := figure.time_us) and size > 0]
    return fit_latency_bandwidth([size for size, _ in points], [time for _, time in points])
