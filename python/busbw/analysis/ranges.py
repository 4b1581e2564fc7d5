"""Sums up a comparison over sizes in words: from where to where B is faster, by how much, and where nothing changes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from busbw.analysis.statistics import Interval, geometric_mean, median, student_quantile
from busbw.analysis.units import format_bytes
from busbw.analysis.verdict import MARGIN, Verdict, about_as_fast, judge, no_difference, times_as_fast

# One number stands for a range of sizes when its ratios differ by no more than this factor.
_ALIKE = 1.15
# Fewer sizes than this cannot show together that nothing changes, where each has one sample only.
_MIN_POOL = 5
# Sizes of single samples may differ together by this much and still be called the same: the scatter of one-shot tables.
POOLED_MARGIN = 0.05


@dataclass(frozen=True)
class Point:
    """One compared size of one sweep."""

    size: int
    ratio: float
    verdict: Verdict
    interval: Interval | None = None


@dataclass(frozen=True)
class SizeRange:
    """Neighbouring sizes about which the same can be said."""

    verdict: Verdict
    points: tuple[Point, ...]
    exceptions: tuple[Point, ...] = field(default=())
    pooled: Interval | None = None
    """Interval of the mean ratio over the sizes, where the sizes themselves have none."""

    @property
    def first(self) -> int:
        return self.points[0].size

    @property
    def last(self) -> int:
        return self.points[-1].size

    @property
    def agreeing(self) -> tuple[Point, ...]:
        return tuple(point for point in self.points if point not in self.exceptions)


def find_ranges(points: Sequence[Point], *, margin: float = MARGIN) -> list[SizeRange]:
    """Cuts a sweep into ranges of one verdict each; a lone deviating size inside a longer range is its exception."""
    ordered = sorted(points, key=lambda point: point.size)
    runs = _absorb(_runs(ordered))
    return [_judged(run, exceptions, margin) for run, exceptions in runs]


def describe(ranges: Sequence[SizeRange], b: str = "B") -> list[str]:
    """One sentence for each range, and one for the largest sizes where the last range does not say it all."""
    whole = len(ranges) == 1
    sentences = [
        f"{_span(r, first=i == 0, last=i == len(ranges) - 1, whole=whole)} {_effect(r, b)}{_except(r)}"
        for i, r in enumerate(ranges)
    ]
    largest = largest_sizes(ranges)
    if largest is not None:
        sentences.append(f"at the largest sizes ({_from_to(largest)}) {_speed(largest, b)}")
    return sentences


def largest_sizes(ranges: Sequence[SizeRange]) -> tuple[Point, ...] | None:
    """The points of the last two octaves, where their range as a whole says less than they do."""
    if not ranges or ranges[-1].verdict not in (Verdict.FASTER, Verdict.SLOWER):
        return None
    last = ranges[-1].agreeing
    top = tuple(point for point in last if point.size * 4 >= last[-1].size)
    return top if len(top) < len(last) and not _alike(last) else None


def _runs(points: Sequence[Point]) -> list[list[Point]]:
    runs: list[list[Point]] = []
    for point in points:
        if runs and _class(runs[-1][-1]) is _class(point):
            runs[-1].append(point)
        else:
            runs.append([point])
    return runs


def _class(point: Point) -> Verdict:
    """Single samples never say "no difference"; so that a range of them can, they run together with undecided ones."""
    return Verdict.NO_DIFFERENCE if point.verdict is Verdict.UNDECIDED else point.verdict


def _absorb(runs: list[list[Point]]) -> list[tuple[list[Point], list[Point]]]:
    absorbed: list[tuple[list[Point], list[Point]]] = []
    index = 0
    while index < len(runs):
        run, lone = list(runs[index]), []
        while index + 2 < len(runs) and len(runs[index + 1]) == 1 and len(run) >= 2 and len(runs[index + 2]) >= 2:
            lone += runs[index + 1]
            run += runs[index + 1] + runs[index + 2]
            index += 2
        absorbed.append((run, lone))
        index += 1
    return absorbed


def _judged(run: Sequence[Point], exceptions: Sequence[Point], margin: float) -> SizeRange:
    plain = [point for point in run if point not in exceptions]
    kind = _class(plain[0])
    pooled = _pooled(plain)
    if kind is Verdict.NO_DIFFERENCE and not all(point.verdict is Verdict.NO_DIFFERENCE for point in plain):
        single = all(point.interval is None for point in plain)
        limit = max(margin, POOLED_MARGIN) if single else margin
        inside = pooled is not None and judge(pooled, margin=limit).verdict is Verdict.NO_DIFFERENCE
        kind = Verdict.NO_DIFFERENCE if inside else Verdict.UNDECIDED
    return SizeRange(kind, tuple(run), tuple(exceptions), pooled)


def _pooled(points: Sequence[Point]) -> Interval | None:
    """The interval of the mean ratio, taking each size as one observation (Student's t on the logarithms)."""
    if len(points) < _MIN_POOL:
        return None
    logs = [math.log(point.ratio) for point in points]
    mean = math.fsum(logs) / len(logs)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in logs) / (len(logs) - 1))
    half = student_quantile(len(logs) - 1) * deviation / math.sqrt(len(logs))
    return Interval(math.exp(mean - half), math.exp(mean + half))


def _alike(points: Sequence[Point]) -> bool:
    ratios = [point.ratio for point in points]
    return max(ratios) <= _ALIKE * min(ratios)


def _span(r: SizeRange, *, first: bool, last: bool, whole: bool) -> str:
    if r.first == r.last:
        return f"at {format_bytes(r.first)}"
    if whole:
        return f"at all {len(r.points)} sizes ({_from_to(r.points)})"
    if first:
        return f"up to {format_bytes(r.last)}"
    if last:
        return f"from {format_bytes(r.first)} up"
    return f"from {_from_to(r.points)}"


def _from_to(points: Sequence[Point]) -> str:
    if points[0].size == points[-1].size:
        return format_bytes(points[0].size)
    return f"{format_bytes(points[0].size)} to {format_bytes(points[-1].size)}"


def _effect(r: SizeRange, b: str) -> str:
    if r.verdict is Verdict.NO_DIFFERENCE:
        return _equal(r)
    if r.verdict is Verdict.UNDECIDED:
        mean = geometric_mean([point.ratio for point in r.agreeing])
        return f"undecided ({b} was {mean:.2f} times as fast, which may be chance)"
    return _speed(r.agreeing, b)


def _equal(r: SizeRange) -> str:
    """How far from equal the range could still be, taken over its sizes together."""
    if r.pooled is not None:
        return f"{no_difference(r.pooled)} over {len(r.agreeing)} sizes together"
    widest = [point.interval for point in r.agreeing if point.interval is not None]
    if not widest:
        return "no difference"
    return no_difference(Interval(min(each.low for each in widest), max(each.high for each in widest)))


def _speed(points: Sequence[Point], b: str) -> str:
    """From the lowest to the highest speed; where the sizes are alike, as sure as they are together."""
    if not _alike(points):
        ratios = [point.ratio for point in points]
        return about_as_fast(min(ratios), max(ratios), b)
    known = [point.interval for point in points if point.interval is not None]
    if known:
        together = _pooled(points) or Interval(min(each.low for each in known), max(each.high for each in known))
        return times_as_fast(together.low, together.high, b)
    middle = median([point.ratio for point in points])
    return about_as_fast(middle, middle, b)


def _except(r: SizeRange) -> str:
    if not r.exceptions:
        return ""
    listed = ", ".join(f"{format_bytes(p.size)} ({p.verdict.value})" for p in r.exceptions)
    return f", except at {listed}"
