"""A baseline: thresholds made from runs that are known to be good, each with the noise that those runs showed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.analysis.comparison import Shape, shape_of
from busbw.analysis.samples import Figure
from busbw.analysis.statistics import median, relative_spread
from busbw.analysis.units import format_bytes
from busbw.base.errors import UserError
from busbw.base.quantities import Range, within
from busbw.base.text import clean
from busbw.records import Case, Record

# A good run may differ from good runs by this much and by three times their own spread; tighter gates cry wolf.
LEAST_TOLERANCE = 0.03
_SPREADS = 3.0
# Up to here people speak of latency, above of bandwidth.
_LATENCY_UP_TO = 64 << 10


@dataclass(frozen=True)
class Entry:
    """One size of one shape over all the good runs."""

    machine: str | None
    shape: Shape
    bytes: int
    time_us: float
    busbw_GBps: float | None
    tolerance: float
    runs: int


def make(records: Sequence[Record], sizes: tuple[Range, ...] | None = None) -> list[Entry]:
    """An entry for every case that all the good runs measured; UserError where a run is no good one."""
    cases: dict[tuple[str | None, Shape, int], list[list[Case]]] = {}
    for record in records:
        _refuse_bad(record)
        by_key: dict[tuple[str | None, Shape, int], list[Case]] = {}
        for case in record.cases:
            if case.outcome == "measured" and case.time_us and within(case.bytes, sizes):
                by_key.setdefault((record.run.machine, shape_of(case), case.bytes), []).append(case)
        for key, found in by_key.items():
            cases.setdefault(key, []).append(found)
    entries = [_entry(key, runs) for key, runs in cases.items() if len(runs) == len(records)]
    if not entries:
        raise UserError("the runs have no measured case in common, on one machine type, at these sizes")
    return entries


def to_toml(entries: Sequence[Entry], records: Sequence[Record]) -> str:
    """The baseline as a file of thresholds that `busbw gate --thresholds` reads."""
    runs = ", ".join(clean(record.run.run) for record in records)
    lines = [f"# Made by `busbw baseline make` from {len(records)} good runs: {runs}", ""]
    source = f"baseline of {len(records)} run{'s' if len(records) != 1 else ''}"
    for entry in entries:
        lines.append("[[threshold]]")
        named = {"machine": entry.machine, **vars(entry.shape)}
        lines += [f"{name} = {_value(value)}" for name, value in named.items() if value is not None]
        lines.append(f"bytes = {entry.bytes}  # {format_bytes(entry.bytes)}")
        if entry.bytes <= _LATENCY_UP_TO or not entry.busbw_GBps:
            lines.append(f"max_time_us = {entry.time_us:.6g}")
        else:
            lines.append(f"min_busbw_GBps = {entry.busbw_GBps:.6g}")
        lines += [f"tolerance_percent = {100 * entry.tolerance:.2f}", f"source = {_value(source)}", ""]
    return "\n".join(lines)


def _refuse_bad(record: Record) -> None:
    for case in record.cases:
        if case.wrong:
            raise UserError(
                f"run {record.run.run} has wrong data ({shape_of(case)} at {format_bytes(case.bytes)}): no baseline"
            )


def _entry(key: tuple[str | None, Shape, int], runs: Sequence[Sequence[Case]]) -> Entry:
    figures = [Figure(tuple(cases)) for cases in runs]
    times = [figure.time_us for figure in figures if figure.time_us]
    rates = [figure.busbw_GBps for figure in figures if figure.busbw_GBps]
    within = [relative_spread(samples) for figure in figures if len(samples := figure.best_samples()) > 1]
    # Between runs where there are enough to know it, and never less than a run scatters within itself.
    spread = max([*within, relative_spread(times) if len(times) >= 3 else 0.0])
    tolerance = min(0.5, max(LEAST_TOLERANCE, _SPREADS * spread))
    return Entry(*key, median(times), median(rates) if rates else None, tolerance, len(runs))


def _value(value: object) -> str:
    """A TOML value: JSON's strings are TOML's once control characters are gone."""
    return json.dumps(clean(value), ensure_ascii=False) if isinstance(value, str) else str(value)
