"""What the lines of one log may cost: looked at in full up to a sum of work, then by their words, and its end in full.

The sum counts lines and characters, and no time, so that a log gives the same findings on a busy machine. Lines like
ones before them are not in it. All that is done is also taken from what the call may spend on all its files
(busbw.base.effort): where that ends, the rest of a log is passed over up to its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from busbw.base.effort import EFFORT, MIB, PER_MIB

ALLOWED = 1_000_000
"""Work on lines that are new by more than their digits, about a microsecond each."""
FOR_WORDS = 350_000
"""Work on lines with words of a fault, once all else is spent."""
TAIL = 2_000
"""The last lines of a log, which are looked at in full whatever was spent: it ends in what ended the job."""
TAIL_BYTES = 512 << 10
PER_MIB_COUNTED = 1_000
"""Of what is passed over: its lines are counted."""
FOR_THE_END = 0.3
"""Of what may be spent on a log, so much is kept to reach its end."""
_EACH, _EACH_TRIED, _PASSED_ON = 50, 8, 20
_LOOKED_AT = 1.5
"""Of what a call may spend it takes so many times as much: in a log that differs in each line they are many."""
_OF_ALL, _OF_WORDS, _OF_OBJECT, _TIMES_TAIL = 1, 2, 15, 60
"""Of every line; of one that is looked through for words; to take an object apart; a line of the end."""
_LONGEST = 4096
HOW = "; cut out the part around a fault to have all of it read, or give --whole where you trust the file"
_WORDS = (
    *("rror", "RROR", "ail", "FAIL", "atal", "FATAL", "xception", "raceback", "NCCL WARN", "Xid", "bort", "crash"),
    *("imed out", "imeout", "illed", "efused", "enied", "annot", "nable to", "signal", "orrupt"),
)
"""In lines that tell of faults."""


class WorkLimit:
    """Counts the work on one log, and the lines that were passed over for it."""

    def __init__(self) -> None:
        self._left = ALLOWED
        self._per_byte = PER_MIB / MIB
        self._kept = 0.0 if EFFORT.is_lifted else max(0.0, EFFORT.left * FOR_THE_END)
        # Of many logs each end is shorter.
        self._tail = TAIL if EFFORT.is_lifted else max(20, min(TAIL, int(self._kept / _TIMES_TAIL)))
        self.first = self.last = self.passed = 0
        self.is_cut = False
        """Whether the end of the log was not reached either."""

    @property
    def is_reached(self) -> bool:
        """Whether only some lines are looked at any more."""
        return (self._left <= 0 and not EFFORT.is_lifted) or EFFORT.left <= self._kept

    @property
    def is_spent(self) -> bool:
        """Whether the rest is passed over, up to its end."""
        return EFFORT.left <= self._kept

    def spend(self, size: int, tried: int, *, passed_on: bool) -> None:
        """A line of that size was looked at in full, so many signatures tried on it, and NCCL's reader may see it."""
        units = _EACH + (size if size < _LONGEST else _LONGEST) // 4 + _EACH_TRIED * tried + _PASSED_ON * passed_on
        self._left -= units
        EFFORT.left -= units * _LOOKED_AT

    def spend_on_object(self, size: int) -> None:
        """An object of so many characters was taken apart."""
        EFFORT.left -= _OF_OBJECT + size // 16

    def read(self, size: int) -> None:
        """So many bytes more of the log were read."""
        EFFORT.left -= size * self._per_byte

    def read_lines(self, count: int) -> None:
        """So many lines were made of them."""
        EFFORT.left -= count * _OF_ALL

    def costs(self, per_mib: int) -> None:
        """What it takes to read and unpack each MiB of the log."""
        self._per_byte = per_mib / MIB

    def counted(self, first: int, lines: int, size: int) -> bool:
        """So many bytes with so many lines are passed over; whether there may be more of them."""
        self.passes(first, first + lines - 1, lines)
        EFFORT.left -= size * (self._per_byte - (PER_MIB - PER_MIB_COUNTED) / MIB)
        return EFFORT.left > 0

    def passes(self, first: int, last: int, lines: int) -> None:
        """Lines are passed over."""
        if lines > 0:
            self.first = self.first or first
            self.last, self.passed = last, self.passed + lines

    def few(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """Of the rest of a log the lines with words of a fault, up to a sum of work, and the last ones."""
        waiting = deque[tuple[int, bytes]]()
        before = b""
        for each in lines:
            if each[1] == before or not each[1]:
                continue  # the same once more, or nothing
            before = each[1]
            waiting.append(each)
            if len(waiting) > self._tail:
                number, raw = waiting.popleft()
                EFFORT.left -= _OF_WORDS
                if self._left > -FOR_WORDS and EFFORT.left > self._kept and _tells(raw):
                    yield number, raw
                else:
                    self.passes(number, number, 1)
        yield from waiting

    @property
    def said(self) -> str:
        """Which lines were passed over; "" where none was."""
        end = "; the lines behind them were not counted" if self.is_cut else ""
        if not self.passed:
            return f"what stands behind its first lines: reading costs too much{HOW}" if self.is_cut else ""
        return (
            f"{self.passed} of the lines {self.first} to {self.last}: there are too many lines above them, or too many "
            f"that differ from each other{end}{HOW}"
        )


def _tells(raw: bytes) -> bool:
    line = raw.decode("latin-1")
    for word in _WORDS:  # noqa: SIM110 - a generator, and bytes, cost several times as much
        if word in line:
            return True
    return False
