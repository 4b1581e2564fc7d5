"""One trial: one variant measured once, in one round, by processes of its own; kept as a line of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from busbw.analysis.overlap import overlap_of
from busbw.base.errors import UserError
from busbw.records import Case, Record


class Outcome(Enum):
    """What became of a trial. Only `measured` has times."""

    MEASURED = "measured"
    WRONG = "wrong"
    CRASHED = "crashed"
    HUNG = "hung"


TOTAL = "all calls"
"""As a placement: all calls of a job together. Where a trial has it, what is said of a variant is about it alone."""


@dataclass(frozen=True, order=True)
class Point:
    """What was timed: a collective at a size and placement. Only the same point is compared between variants."""

    collective: str
    bytes: int
    placement: str
    rest: str = ""

    def __str__(self) -> str:
        return "|".join((self.collective, str(self.bytes), self.placement, self.rest))

    @classmethod
    def parse(cls, text: str) -> Point:
        """The inverse of str()."""
        collective, size, placement, rest = text.split("|", 3)
        return cls(collective, int(size), placement, rest)


@dataclass(frozen=True)
class Trial:
    """`times_us` per call and `busbw_GBps` by point; `seconds` is how long the whole trial took."""

    round: int
    variant: int
    outcome: Outcome
    seconds: float
    times_us: Mapping[Point, float] = field(default_factory=dict)
    busbw_GBps: Mapping[Point, float] = field(default_factory=dict)
    reason: str = ""
    limit_s: float | None = None


def point_of(case: Case) -> Point:
    """The point of a case of a record."""
    rest = " ".join(str(value) for value in (case.type, case.op, case.root) if value is not None)
    return Point(case.collective, case.bytes, case.placement or "", rest)


def times_of(record: Record) -> tuple[dict[Point, float], dict[Point, float]]:
    """Times and bus bandwidths of the measured cases; a point measured in several cycles is their mean."""
    times: dict[Point, list[float]] = {}
    rates: dict[Point, list[float]] = {}
    together = beside_times(record)
    for case in record.cases:
        if together:
            break
        if case.outcome == "measured" and case.time_us and case.time_us > 0:
            times.setdefault(point_of(case), []).append(case.time_us)
            rates.setdefault(point_of(case), []).append(case.busbw_GBps or 0.0)
    for point, (time_us, rate) in together.items():
        times[point], rates[point] = [time_us], [rate]
    mean = {point: sum(values) / len(values) for point, values in times.items()}
    return mean, {point: sum(values) / len(values) for point, values in rates.items()}


BESIDE = "beside"
"""As a placement: calls and products together."""


def beside_times(record: Record) -> dict[Point, tuple[float, float]]:
    """Of a run with --beside: the time of both together for each call, and the bus bandwidth that it comes to."""
    found = {}
    for case in record.cases:
        if case.outcome == "measured" and case.beside and case.time_us:
            each = overlap_of(case.beside).together_us
            per_call = each / int(case.beside["calls"])
            found[replace(point_of(case), placement=BESIDE)] = (
                per_call,
                (case.busbw_GBps or 0) * case.time_us / per_call,
            )
    return found


def to_json(trial: Trial) -> str:
    """One line, without its newline."""
    return json.dumps(
        {
            "round": trial.round,
            "variant": trial.variant,
            "outcome": trial.outcome.value,
            "seconds": round(trial.seconds, 3),
            "times_us": {str(point): value for point, value in trial.times_us.items()},
            "busbw_GBps": {str(point): value for point, value in trial.busbw_GBps.items()},
            "reason": trial.reason,
            "limit_s": trial.limit_s,
        },
        ensure_ascii=False,
        allow_nan=False,
    )


def _figure(value: object, least: float) -> float:
    if not isinstance(value, (int, float)) or not least <= value < 1e15:
        raise ValueError(f"{value!r} is no time or rate")
    return float(value)


def from_json(line: str, where: str) -> Trial:
    """The trial of a line; UserError names the place of a line that is none."""
    try:
        raw = json.loads(line)
        return Trial(
            int(raw["round"]),
            int(raw["variant"]),
            Outcome(raw["outcome"]),
            float(raw["seconds"]),
            {Point.parse(point): _figure(value, least=1e-6) for point, value in raw["times_us"].items()},
            {Point.parse(point): _figure(value, least=0.0) for point, value in raw["busbw_GBps"].items()},
            str(raw["reason"]),
            None if raw["limit_s"] is None else float(raw["limit_s"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise UserError(f"{where}: this is no trial of an experiment ({problem})") from None
