"""Judges the cases of a run against thresholds, giving each the benefit of its own noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from busbw.analysis.comparison import Shape, shape_of
from busbw.analysis.samples import Figure
from busbw.analysis.statistics import Interval, median_interval
from busbw.analysis.units import format_bytes, format_us
from busbw.base.effort import EFFORT, HINT
from busbw.base.errors import UserError
from busbw.gate.thresholds import Threshold
from busbw.records import Case, Record

MOST_PAIRS = 3_000_000
"""Of kinds of cases and thresholds, where the files may be anybody's: about a second."""


class Result(Enum):
    """How one check came out."""

    PASSED = "passed"
    NOISY = "passed within its noise"
    FAILED = "failed"


@dataclass(frozen=True)
class Check:
    """One case against one limit; `detail` says all about it, `brief` fits into a line of a terminal."""

    name: str
    result: Result
    detail: str
    threshold: Threshold | None = None
    brief: str = ""


def judge(  # noqa: PLR0913 - options that are named
    record: Record,
    thresholds: Sequence[Threshold],
    *,
    machine: str | None = None,
    strict: bool = False,
    impossible: Mapping[int, str] | None = None,
    in_part: bool = False,
) -> list[Check]:
    """Every check that applies; UserError where none does, since a gate that judged nothing has let nothing through.

    `impossible` says by a case's place in the record why its figures cannot be true: they fail whatever the limit.
    `in_part`: not all of the record was read, and a size that is not there may be in the rest.
    """
    kind = machine or record.run.machine
    checks = _wrong(record)
    for index, why in (impossible or {}).items():
        case = record.cases[index]
        checks.append(Check(f"{shape_of(case)} at {format_bytes(case.bytes)}", Result.FAILED, f"impossible: {why}"))
    measured: dict[tuple[Shape, int], list[Case]] = {}
    shapes = {shape_of(case) for case in record.cases}
    for case in record.cases:
        if case.outcome == "measured":
            measured.setdefault((shape_of(case), case.bytes), []).append(case)
    meant = [threshold for threshold in thresholds if threshold.fits_machine(kind)]
    if len(shapes) * len(meant) > MOST_PAIRS and not EFFORT.is_lifted:
        raise UserError(f"{len(shapes):,} kinds of cases are more than a gate compares with {len(meant):,} thresholds: "
                        f"{HINT}", exit_code=2)  # fmt: skip
    ordered = sorted(shapes, key=str)
    for threshold in meant:
        for shape in filter(threshold.fits, ordered):
            cases = measured.get((shape, threshold.bytes), [])
            if cases or not in_part:
                checks.append(_check(tuple(cases), shape, threshold, strict=strict))
    if not any(check.threshold for check in checks):
        raise UserError(_nothing(kind, thresholds, shapes), exit_code=2)
    return checks


def _nothing(machine: str | None, thresholds: Sequence[Threshold], shapes: set[Shape]) -> str:
    known = sorted({threshold.machine for threshold in thresholds if threshold.machine})
    if not any(threshold.fits_machine(machine) for threshold in thresholds):
        what = f"machine type {machine}" if machine else "this run, whose machine type is not recorded"
        return f"no threshold is for {what}; --machine says what it is (known: {', '.join(known)})"
    some = "; ".join(sorted(map(str, shapes))[:3])
    return f"no threshold for {machine or 'any machine'} is for what this run measured ({some})"


def _wrong(record: Record) -> list[Check]:
    """Wrong data fails whatever the speed, and so does a case that was not measured."""
    checks = []
    for case in record.cases:
        name = f"{shape_of(case)} at {format_bytes(case.bytes)}"
        if case.wrong:
            checks.append(Check(name, Result.FAILED, f"{case.wrong:g} elements are wrong"))
        elif case.outcome in ("failed", "timed_out"):
            detail = f"{case.outcome.replace('_', ' ')}: {case.reason or 'no reason recorded'}"
            checks.append(Check(name, Result.FAILED, detail))
    return checks


def _check(cases: tuple[Case, ...], shape: Shape, threshold: Threshold, *, strict: bool) -> Check:
    name = f"{shape} at {format_bytes(threshold.bytes)}"
    if not cases:
        return Check(name, Result.FAILED, f"not measured; {_needed(threshold)}", threshold)
    return _judged(name, cases, threshold, strict=strict)


def _judged(name: str, cases: tuple[Case, ...], threshold: Threshold, *, strict: bool) -> Check:
    figure = Figure(cases)
    time, bus = figure.time_us, figure.busbw_GBps
    interval = median_interval(figure.best_samples())
    floor, ceiling = threshold.floor_GBps, threshold.ceiling_us
    worst = Result.PASSED
    said: list[str] = []
    brief: list[str] = []
    if floor is not None:
        best = _optimistic_rate(bus, time, interval)
        worst = _worse(worst, _result(bus is not None and bus >= floor, best is not None and best >= floor, strict))
        said.append(f"{bus:.2f} GB/s{_rates(bus, time, interval)}" if bus is not None else "no bus bandwidth")
        brief.append(f"{bus or 0:.2f} of {floor:.2f} GB/s")
    if ceiling is not None:
        best = interval.low if interval else time
        worst = _worse(
            worst, _result(time is not None and time <= ceiling, best is not None and best <= ceiling, strict)
        )
        said.append(f"{format_us(time)}{_times(interval)}" if time is not None else "no time")
        brief.append(f"{format_us(time) if time is not None else 'no time'} of {format_us(ceiling)}")
    return Check(name, worst, f"{' and '.join(said)}; {_needed(threshold)}", threshold, ", ".join(brief))


def _result(reached: bool, may_reach: bool, strict: bool) -> Result:
    if reached:
        return Result.PASSED
    return Result.NOISY if may_reach and not strict else Result.FAILED


def _worse(a: Result, b: Result) -> Result:
    order = (Result.PASSED, Result.NOISY, Result.FAILED)
    return max(a, b, key=order.index)


def _optimistic_rate(bus: float | None, time: float | None, interval: Interval | None) -> float | None:
    if bus is None or time is None or interval is None or interval.low <= 0:
        return bus
    return max(bus, bus * time / interval.low)


def _rates(bus: float, time: float | None, interval: Interval | None) -> str:
    if time is None or interval is None or interval.low <= 0:
        return ""
    return f" ({bus * time / interval.high:.2f} to {bus * time / interval.low:.2f})"


def _times(interval: Interval | None) -> str:
    return "" if interval is None else f" ({format_us(interval.low)} to {format_us(interval.high)})"


def _needed(threshold: Threshold) -> str:
    """The limit and how it came about; its source is the threshold's."""
    parts = []
    percent = f"{100 * threshold.tolerance:g} %"
    if threshold.floor_GBps is not None:
        why = f" ({threshold.min_busbw_GBps:.2f} less {percent})" if threshold.tolerance else ""
        parts.append(f"needs {threshold.floor_GBps:.2f} GB/s{why}")
    if threshold.ceiling_us is not None and threshold.max_time_us is not None:
        why = f" ({format_us(threshold.max_time_us)} and {percent})" if threshold.tolerance else ""
        parts.append(f"allows {format_us(threshold.ceiling_us)}{why}")
    return " and ".join(parts)
