"""What the lines without results of one file may cost: looked at in full up to a sum of work, then for heads alone.

The sum counts lines and characters, and no time, so that a file reads the same on a busy machine. All that is done is
also taken from what the call may spend on all its files (busbw.base.effort): where that ends, reading does.
"""

from __future__ import annotations

from busbw.base.effort import EFFORT

ALLOWED = 1_300_000
"""Work on lines without results, about a microsecond each."""
FOR_HEADS = 350_000
"""Work on lines that may be heads of tables, once all else is spent; then nothing more is looked at."""
CHEAP, DEAR = 12, 30
PER_LINE_FOLLOWING = 3
PER_LINE = 1
"""Of every line, beside its bytes."""
PER_TAKEN = 5
"""Of a line that a format takes by itself."""
PER_CELLS, PER_CASE = 20, 10
"""Of a row in a form of people's own, and of what becomes of a row: an object, checked and written."""
PER_FIGURES = 4
"""Of a row of nccl-tests, which becomes no object, and two cases for who asks for them."""
PER_SWEEP = 110
PER_PROBLEM = 150
"""A line that looked like a result and is none costs more than one that never did."""
LONG, PER_LONG = 500, 32
"""Lines that are not known again by their shape, and how many of their characters cost as much as a unit of work."""
LONGEST = 2000
"""Of longer lines most formats look at no more."""


def pay_for_rows(count: int) -> None:
    """So many rows of nccl-tests were read, and what will be examined of them."""
    EFFORT.left -= count * (PER_FIGURES + 2 * EFFORT.per_case)


def rows_affordable(most: int) -> int:
    """How many rows of nccl-tests may be read at once."""
    return int(max(0.0, min(most, 1 + EFFORT.left / (PER_FIGURES + 2 * EFFORT.per_case))))


class WorkLimit:
    """Counts the work on lines in vain, and which lines were passed by for it."""

    def __init__(self) -> None:
        self._left = ALLOWED
        self._first = self._last = 0
        self._until = ""

    @property
    def is_reached(self) -> bool:
        """Whether only heads of tables are looked for."""
        return self._left <= 0 and not EFFORT.is_lifted

    @property
    def is_spent(self) -> bool:
        """Whether nothing is looked for any more, beside what follows an open table."""
        return self._left <= -FOR_HEADS and not EFFORT.is_lifted

    def _take(self, units: int) -> None:
        """From what the lines in vain of this file may cost, and from the sum of the call."""
        self._left -= units
        EFFORT.left -= units

    def spend(self, line: str, *, cheap: bool = False) -> None:
        """A line was looked at; `cheap`: only whether a table might start there."""
        if cheap:
            units = CHEAP if len(line) < LONG else CHEAP + min(len(line), LONGEST) // PER_LONG
        else:
            units = DEAR + min(len(line), LONGEST)
        self._take(units)

    def spend_on(self, lines: int) -> None:
        """So many lines were looked at for a prefix."""
        self._take(PER_LINE_FOLLOWING * lines)

    def complain(self) -> None:
        """Something looked like a result and is none."""
        self._take(PER_PROBLEM)

    def restore(self) -> None:
        """The line was a result, or a part of a table."""
        self._left += CHEAP
        EFFORT.left += CHEAP - PER_TAKEN

    def passed(self, first: int, end: int) -> None:
        """Lines up to before `end` are passed by; the one at `end` is looked at, and what follows it."""
        if end > first:
            self._first = self._first or first
            self._last = end - 1
            if self.is_spent and not self._until:
                self._until = f", up to line {first}"

    @property
    def said(self) -> str:
        """Which lines were passed by; "" where none was."""
        if not self._first:
            return ""
        return (
            f"lines {self._first} to {self._last} were searched for heads of nccl-tests' tables alone{self._until}: "
            "too many lines above them hold no result; cut out the part with results to have all of it read"
        )


def may_head_table(line: str) -> bool:
    """Whether nccl-tests' table may start in the line."""
    return "#" in line and ("nThread" in line or " type " in line or "Collective test " in line)
