"""What a column that is only called bandwidth counts, held against size over time and the number of ranks.

It may be algorithm or bus bandwidth, and the sizes beside it those of all ranks or of one: people's own scripts print
each of them. Where size, time and ranks allow one reading only it is taken, and where they allow none the table is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from busbw.importers.units import CLOSE, Row, combinations
from busbw.records import Collective
from busbw.records.bandwidth import bus_factor

PER_RANK: frozenset[Collective] = frozenset({"all_gather", "reduce_scatter", "alltoall", "gather", "scatter"})
"""Collectives whose size in nccl-tests is ranks times the part of one."""
BUS_OVER_ALGORITHM = (0.45, 2.1)
LEAST_PRECISE = 0.02


@dataclass(frozen=True)
class Meaning:
    """Which bandwidth it is, and what one printed size is in those of nccl-tests."""

    kind: Literal["algbw", "busbw"]
    sizes: int = 1

    @property
    def note(self) -> str:
        """For the notes of the run."""
        what = "algorithm" if self.kind == "algbw" else "bus"
        of_one = ", and sizes are those of one rank" if self.sizes > 1 else ""
        return f"the bandwidth is taken as {what} bandwidth{of_one}: so that it follows from size, time and ranks"


def settled(rows: Sequence[Row], collective: Collective, ranks: int | None) -> tuple[list[Row], str | None] | str:
    """The rows with their bandwidth as what it is, and a note; or a sentence why nothing can be taken."""
    told = [row for row in rows if row.bw is not None and row.algbw is None and row.busbw is None]
    if not told:
        return list(rows), None
    found = _meaning([row for row in told if _tells(row)], collective, ranks)
    if isinstance(found, str):
        return found
    if found is None:
        return list(rows), None
    return [_with(row, found) for row in rows], found.note


def _tells(row: Row) -> bool:
    bw, time = row.bw, row.time
    if bw is None or time is None or min(bw.value, time.value, row.size.value) <= 0:
        return False
    return bw.slack < LEAST_PRECISE and time.slack < LEAST_PRECISE


def _meaning(rows: Sequence[Row], collective: Collective, ranks: int | None) -> Meaning | str | None:
    if not rows:
        return None
    first = rows[0]
    assert first.time is not None and first.bw is not None
    ratios = []
    for size, time, rate in combinations(first.size.unit, first.time.unit, first.bw.unit):
        ratio = median(
            row.bw.value * rate / (row.size.value * size / (row.time.value * time) / 1000)
            for row in rows
            if row.bw is not None and row.time is not None
        )
        fitting = [each for target, each in _readings(collective, ranks) if abs(ratio / target - 1) < CLOSE]
        if len({each.sizes for each in fitting}) > 1:
            return "sizes may be those of one rank or of all, and the bandwidth fits both; nothing was imported"
        if fitting:
            return fitting[0]
        ratios.append(ratio)
    low, high = BUS_OVER_ALGORITHM
    if ranks is None and low <= ratios[0] <= high:
        return None
    return (
        f"sizes, times and bandwidths contradict each other: the bandwidth is {ratios[0]:.3g} times size over time; "
        "nothing was imported"
    )


def _readings(collective: Collective, ranks: int | None) -> list[tuple[float, Meaning]]:
    """(bandwidth over printed size by time, what it then is), the plainest first."""
    factor = bus_factor(collective, ranks) if ranks else None
    found = [(1.0, Meaning("algbw"))]
    if factor and ranks:
        found.append((factor, Meaning("busbw")))
        if collective in PER_RANK and ranks > 1:
            found += [(ranks * factor, Meaning("busbw", ranks)), (float(ranks), Meaning("algbw", ranks))]
    return found


def _with(row: Row, meaning: Meaning) -> Row:
    size = replace(row.size, value=row.size.value * meaning.sizes)
    return replace(row, size=size, **{meaning.kind: row.bw})
