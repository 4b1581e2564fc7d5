"""What the lines without results of one file may cost: looked at in full up to a sum of work, then for heads alone.

The sum counts lines and characters, and no time, so that a file reads the same on a busy machine. Lines that hold
results cost nothing: a log that is all results is read to its end, whatever its size.
"""

from __future__ import annotations

MIB = 1 << 20
FREE_BYTES = 16 * MIB
ALLOWED = 1_300_000
"""Work on lines without results, about a microsecond each."""
ALLOWED_PER_MIB = 150_000
"""More for each MiB beyond FREE_BYTES."""
FOR_HEADS = 350_000
"""Work on lines that may be heads of tables, once all else is spent; then nothing more is looked at."""
CHEAP, DEAR = 12, 30
PER_LINE_FOLLOWING = 3
PER_PROBLEM = 150
"""A line that looked like a result and is none costs more than one that never did."""
LONG, PER_LONG = 500, 32
"""Lines that are not known again by their shape, and how many of their characters cost as much as a unit of work."""
LONGEST = 2000
"""Of longer lines most formats look at no more."""


class Tiring:
    """Counts the work on lines in vain, and which lines were passed by for it."""

    def __init__(self) -> None:
        self._left = ALLOWED
        self._granted = FREE_BYTES
        self._first = self._last = 0
        self._until = ""

    @property
    def is_tired(self) -> bool:
        """Whether only heads of tables are looked for."""
        return self._left <= 0

    @property
    def is_spent(self) -> bool:
        """Whether nothing is looked for any more, beside what follows an open table."""
        return self._left <= -FOR_HEADS

    def spend(self, line: str, *, cheap: bool = False) -> None:
        """A line was looked at; `cheap`: only whether a table might start there."""
        if cheap:
            self._left -= CHEAP if len(line) < LONG else CHEAP + min(len(line), LONGEST) // PER_LONG
        else:
            self._left -= DEAR + min(len(line), LONGEST)

    def spend_on(self, lines: int) -> None:
        """So many lines were looked at for a prefix."""
        self._left -= PER_LINE_FOLLOWING * lines

    def complain(self) -> None:
        """Something looked like a result and is none."""
        self._left -= PER_PROBLEM

    def restore(self) -> None:
        """The line was a result, or a part of a table."""
        self._left += CHEAP

    def read_up_to(self, taken: int, packed: int | None = None) -> None:
        """So many bytes of the file are read, from so many where it is packed: a larger file may cost more.

        A small packed file is none, whatever it unpacks to.
        """
        taken = taken if packed is None or packed >= FREE_BYTES else 0
        if taken > self._granted:
            self._left += (taken - self._granted) * ALLOWED_PER_MIB // MIB
            self._granted = taken

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
