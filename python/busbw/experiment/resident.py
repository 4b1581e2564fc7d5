"""Variants whose processes live at once and take turns case by case: a round is one cycle of each over all cases.

docs/decisions/0012-libraries-take-turns.md says why whole sweeps by fresh processes do not do.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from busbw.base.errors import UserError
from busbw.experiment.plan import Plan
from busbw.experiment.trial import Outcome, Point, Trial, times_of
from busbw.launch.turns import StillRuns, Turns
from busbw.records import parse_records

ROW_LIMIT_S = 600.0
"""An engine that keeps its turn so long hangs; --timeout and --time-limit of the measurement may end it sooner."""


@dataclass
class Resident:
    """One engine that waits for its turns; `number` is its place among the processes."""

    number: int
    record: Path
    why: Callable[[], str]
    _head: bytes = b""
    _read: int = field(default=0)

    def cycle(self) -> tuple[dict[Point, float], dict[Point, float]] | None:
        """Times and bus bandwidths of the cases that were added to its record; None where none was measured."""
        with suppress(OSError, UserError):
            with self.record.open("rb") as stream:
                self._head = self._head or stream.readline()
                stream.seek(max(self._read, len(self._head)))
                added = stream.read()
            self._read = max(self._read, len(self._head)) + len(added)
            (record,) = parse_records(io.BytesIO(self._head + added), str(self.record))
            times, rates = times_of(record)
            return (times, rates) if times else None
        return None


class Residents:
    """What an experiment needs to measure them: `together` plays a round, `measure` tells what one of them gave."""

    def __init__(self, turns: Turns, residents: Sequence[Resident], still_runs: StillRuns) -> None:
        self._turns = turns
        self._residents = residents
        self._still_runs = still_runs
        self._took: dict[int, float] = {}

    def together(self, number: int, order: Sequence[int]) -> None:
        """One cycle of the variants in this order, row by row."""
        del number
        places = [self._residents[variant].number for variant in order]
        self._took = self._turns.cycle(places, self._still_runs, ROW_LIMIT_S)

    def measure(self, plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Trial:
        """The trial of one variant in the round that was just played."""
        del plan, folder, limit_s
        resident = self._residents[variant]
        seconds = self._took.get(resident.number, 0.0)
        measured = resident.cycle()
        if resident.number in self._turns.late:
            return Trial(number, variant, Outcome.HUNG, seconds, reason=f"a row took more than {ROW_LIMIT_S:g} s")
        if measured is None:
            return Trial(number, variant, Outcome.CRASHED, seconds, reason=resident.why())
        return Trial(number, variant, Outcome.MEASURED, seconds, *measured)
