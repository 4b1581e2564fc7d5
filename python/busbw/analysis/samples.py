"""The samples of a case: which of its recorded times count as independent evidence, and how ranks are combined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from busbw.analysis.statistics import MIN_SAMPLES, median
from busbw.analysis.units import format_bytes
from busbw.records import Average, Case


class SampleKind(Enum):
    """Where samples come from, best first; only samples of one kind are compared with each other."""

    BATCHES = "batches"
    ITERATIONS = "iterations"
    REPEATS = "repeats"


@dataclass(frozen=True)
class Figure:
    """What was measured for one size on one side, over all its cases (cycles of a run, or repeated runs)."""

    cases: tuple[Case, ...]

    @property
    def time_us(self) -> float | None:
        """The time to show: the median over cases of the recorded time."""
        return _median_of([case.time_us for case in self.cases])

    @property
    def algbw_GBps(self) -> float | None:
        return _median_of([case.algbw_GBps for case in self.cases])

    @property
    def busbw_GBps(self) -> float | None:
        return _median_of([case.busbw_GBps for case in self.cases])

    @property
    def algorithm(self) -> str | None:
        """What the library called its way of doing it, where every case has one and the same."""
        names = {case.algorithm for case in self.cases}
        return names.pop() if len(names) == 1 else None

    def samples(self, kind: SampleKind) -> tuple[float, ...]:
        """Every sample of one kind, in the order measured; empty where there is none."""
        return tuple(value for case in self.cases for value in _OF_KIND[kind](case) if value > 0)

    def best_samples(self) -> tuple[float, ...]:
        """The samples of the best kind that has enough for an interval; else whatever there is most of."""
        found = [self.samples(kind) for kind in SampleKind]
        return next((values for values in found if len(values) >= MIN_SAMPLES), max(found, key=len))

    def range_of(self, name: str) -> tuple[float, float] | None:
        """The range that the source itself gives for a figure (imported pages do)."""
        ranges = [case.range[name] for case in self.cases if name in case.range]
        return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None


def wrong_results(cases: Iterable[Case]) -> str | None:
    """`wrong results in 3 of 62 cases (12 elements at 8 B)`, which make times worth nothing; None where none are."""
    every = list(cases)
    wrong = [case for case in every if case.wrong]
    if not wrong:
        return None
    count = f"{wrong[0].wrong:g} element{'s' if wrong[0].wrong != 1 else ''}"
    of = f"{len(wrong)} of {len(every)} cases" if len(every) > 1 else "its one case"
    return f"wrong results in {of} ({count} at {format_bytes(wrong[0].bytes)})"


def common_samples(a: Figure, b: Figure) -> tuple[tuple[float, ...], tuple[float, ...], SampleKind] | None:
    """Samples of the best kind of which both sides have enough; None where no kind has.

    A mean of a batch and a time of one iteration have different spreads, so one is never set against the other.
    """
    for kind in SampleKind:
        before, after = a.samples(kind), b.samples(kind)
        if min(len(before), len(after)) >= MIN_SAMPLES:
            return before, after, kind
    return None


def batch_times(case: Case) -> tuple[float, ...]:
    """One time per timed batch: the threads' times combined as the case's own time is."""
    if not case.batches_us:
        return ()
    # A thread that was cut off has fewer batches; only those that every thread finished count.
    return tuple(_combine(case.average, values) for values in zip(*case.batches_us, strict=False))


def iteration_times(case: Case) -> tuple[float, ...]:
    """One time per iteration of the last batch: the slowest process."""
    return tuple(max(values) for values in zip(*case.iterations_us, strict=False)) if case.iterations_us else ()


def _repeat(case: Case) -> tuple[float, ...]:
    return (case.time_us,) if case.time_us is not None else ()


_OF_KIND: dict[SampleKind, Callable[[Case], tuple[float, ...]]] = {
    SampleKind.BATCHES: batch_times,
    SampleKind.ITERATIONS: iteration_times,
    SampleKind.REPEATS: _repeat,
}


def _combine(average: Average | None, values: Sequence[float]) -> float:
    if average == "rank0":
        return values[0]
    if average == "min":
        return min(values)
    if average == "max":
        return max(values)
    return sum(values) / len(values)


def _median_of(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
