"""Units of a table of results: what its header says, held against size over time, which must be the bandwidth.

People write Gbps for gigabytes, leave out that times are milliseconds, and mean a million by MB. Where a table holds
size, time and bandwidth, one of them can be computed from the others, and the unit that makes them agree is the right
one. Where none does, the table contradicts itself and is not imported; where nothing tells, it is not guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import log
from statistics import median

from busbw.importers.columns import GB, RATES, SIZES, TIMES

CLOSE = 0.03
"""Of a ratio that decides between units."""
NEAR = 0.3
"""Of a ratio that the declared units may have: times and bandwidths may be means over ranks of different kinds."""
LEAST_PRECISE = 0.02
"""Of a figure by its last printed digit; what is printed with less says nothing."""
BUS_OVER_ALGORITHM = (0.45, 2.1)
"""Least and most of any collective on two ranks and more, with some room."""

GIB = GB / 1e9
EXACT = 0.01
"""Of the ratio of each row, where GB/s are read as GiB/s though the header does not say so."""
_RATES = {"": (1.0, 0.125, 1e-3, GIB), "gb/s?": (1.0, 0.125), "gbit/s": (0.125, 1.0), "gb/s": (1.0, GIB)}
_TIMES = {"": (1.0, 1e3, 1e6)}
_SIZES = {"": (1.0, 1024.0, 1048576.0)}


@dataclass(slots=True)
class Figure:
    """A number as it is printed, with the unit of its column or cell."""

    value: float
    unit: str
    slack: float
    """Relative, of half the last printed digit."""

    @classmethod
    def of(cls, text: str, unit: str) -> Figure | None:
        """The figure of a text without groups of digits; None where it is none."""
        try:
            value = float(text)
        except ValueError:
            return None
        if not abs(value) < 1e30:
            return None
        behind = text.partition(".")[2]
        digits = len(behind) if behind.isdecimal() or not behind else len(text.lower().split("e")[0].partition(".")[2])
        return cls(value, unit, abs(0.5 * 10.0**-digits / value) if value else 1.0)


@dataclass(slots=True)
class Row:
    """What one row says of one measurement."""

    size: Figure
    time: Figure | None = None
    algbw: Figure | None = None
    busbw: Figure | None = None
    bw: Figure | None = None
    """A bandwidth of which nobody says what it counts."""


@dataclass(frozen=True)
class Units:
    """Factors from what is printed to bytes, microseconds and GB/s."""

    size: float
    time: float
    rate: float
    note: str | None = None


def units_of(rows: Sequence[Row]) -> Units | str:
    """The units of rows that share their columns, or a sentence why they cannot be told."""
    first = rows[0]
    rate = next((each.unit for row in rows for each in (row.algbw, row.busbw) if each is not None), None)
    time = next((row.time.unit for row in rows if row.time is not None), None)
    declared = Units(*next(combinations(first.size.unit, time, rate)))
    evidence = [row for row in rows if _tells(row)]
    if not evidence:
        return _undecided(declared, time, rate)
    low, high = _bounds(evidence, NEAR)
    if low <= _ratio(evidence, declared) <= high and rate != "gb/s?":
        return _better(evidence, first.size.unit, time, rate) or declared
    found = _better(evidence, first.size.unit, time, rate)
    if found is None:
        return (
            "sizes, times and bandwidths contradict each other: size over time is "
            f"{1 / _ratio(evidence, declared):.3g} times the bandwidth that is printed; nothing was imported"
        )
    return found


def combinations(size: str, time: str | None, rate: str | None) -> Iterator[tuple[float, float, float]]:
    """Factors of size, time and rate that the header allows, what it declares first."""
    sizes = _SIZES.get(size) or SIZES.get(size, (1.0,))
    times = _TIMES.get(time or "", (TIMES.get(time or "", 1.0),)) if time is not None else (1.0,)
    rates = _RATES.get(rate or "", (RATES.get(rate or "", 1.0),)) if rate is not None else (1.0,)
    yield from sorted(
        product(sizes, times, rates),
        key=lambda each: (each[0] != sizes[0]) + (each[1] != times[0]) + (each[2] != rates[0]),
    )


def tells_size(rows: Sequence[Row], units: Units) -> bool:
    """Whether figures of the rows bear these units out closely."""
    low, high = _bounds(rows, CLOSE)
    evidence = [row for row in rows if _tells(row)]
    return bool(evidence) and low <= _ratio(evidence, units) <= high


def _tells(row: Row) -> bool:
    rate = row.algbw or row.busbw
    return (
        row.time is not None and rate is not None and row.size.value > 0 and row.time.value > 0 and rate.value > 0
        and row.time.slack < LEAST_PRECISE and rate.slack < LEAST_PRECISE and row.size.slack < 0.25
    )  # fmt: skip


def _ratio(rows: Sequence[Row], units: Units) -> float:
    """Printed bandwidth over size by time."""
    ratios = []
    for row in rows:
        rate = row.algbw or row.busbw
        assert rate is not None and row.time is not None
        ratios.append(rate.value * units.rate / (row.size.value * units.size / (row.time.value * units.time) / 1000))
    return median(ratios)


def _exact(rows: Sequence[Row], units: Units) -> bool:
    """Whether size over time is the algorithm bandwidth in every row, but for the digits that are printed."""
    return all(
        row.algbw is not None and row.time is not None
        and abs(_ratio([row], units) - 1) < EXACT + row.algbw.slack + row.time.slack for row in rows
    )  # fmt: skip


def _bounds(rows: Sequence[Row], room: float) -> tuple[float, float]:
    if all(row.algbw is None for row in rows):
        return BUS_OVER_ALGORITHM
    return 1 / (1 + room), 1 + room


def _better(rows: Sequence[Row], size: str, time: str | None, rate: str | None) -> Units | None:
    """The first allowed units that make the figures agree."""
    low, high = _bounds(rows, CLOSE)
    tried = list(combinations(size, time, rate))
    fitting = [
        (at, each) for at, each in enumerate(tried)
        if low <= _ratio(rows, Units(*each)) <= high
        and (rate != "gb/s" or each[2] == 1.0 or _exact(rows, Units(*each)))
        and (each[0] == tried[0][0] or each[0] not in (1e3, 1e6, 1e9) or _exact(rows, Units(*each)))
    ]  # fmt: skip
    if not fitting:
        return None
    # Units of 1000 and of 1024 lie close together: of as few changes as possible, those that fit best.
    changes = sum(a != b for a, b in zip(fitting[0][1], tried[0], strict=True))
    alike = [each for _, each in fitting if sum(a != b for a, b in zip(each, tried[0], strict=True)) == changes]
    best = min(alike, key=lambda each: abs(log(_ratio(rows, Units(*each)))))
    units = Units(*best)
    return units if best == tried[0] and rate != "gb/s?" else Units(*best, note=_said(units, tried[0], rate))


def _said(units: Units, declared: tuple[float, float, float], rate: str | None) -> str | None:
    said = []
    if units.size != declared[0]:
        named = {1024.0: "sizes are in KiB", 1048576.0: "sizes are in MiB"}
        said.append(named.get(units.size, "sizes are in powers of 1000"))
    if units.time != declared[1]:
        said.append(f"times are in {'ms' if units.time == 1e3 else 's'}")
    if units.rate != declared[2] or rate == "gb/s?":
        name = {1.0: "GB/s", 0.125: "Gbit/s", 1e-3: "MB/s"}.get(units.rate, "GiB/s")
        said.append(f"bandwidths are in {name}")
    return f"{' and '.join(said)}: so that size over time is the bandwidth" if said else None


def _undecided(declared: Units, time: str | None, rate: str | None) -> Units | str:
    if rate == "gb/s?":
        return "gbps may be gigabytes or gigabits, and no times tell which: name the columns GB/s or Gbit/s"
    if time == "" and rate is None:
        return "the column of times names no unit, and no bandwidth tells it: name it time_us, time_ms or time_s"
    return declared
