"""What the lines of one log may cost: looked at in full up to a sum of work, then by their words, and its end in full.

The sum counts lines and characters, and no time, so that a log gives the same findings on a busy machine. Lines like
ones before them cost nothing, so that the logs of large jobs never come near it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

MIB = 1 << 20
FREE_BYTES = 16 * MIB
ALLOWED = 1_000_000
"""Work on lines that are new by more than their digits, about a microsecond each."""
ALLOWED_PER_MIB = 150_000
"""More for each MiB beyond FREE_BYTES."""
FREE_UNPACKED, TIMES_UNPACKED = 48 * MIB, 12
"""Of a packed log that is itself no larger than FREE_BYTES: so much, and so many times its size."""
FOR_WORDS = 350_000
"""Work on lines with words of a fault, once all else is spent."""
TAIL = 2_000
"""The last lines of a log, which are looked at in full whatever was spent: it ends in what ended the job."""
_EACH, _EACH_TRIED, _PASSED_ON = 12, 8, 20
_LONGEST = 4096
_WORDS = (
    *("rror", "RROR", "ail", "FAIL", "atal", "FATAL", "xception", "raceback", "NCCL WARN", "Xid", "bort", "crash"),
    *("imed out", "imeout", "illed", "efused", "enied", "annot", "nable to", "signal", "orrupt"),
)
"""In lines that tell of faults."""


class Weary:
    """Counts the work on one log, and the lines that were passed over for it."""

    def __init__(self) -> None:
        self._left = ALLOWED
        self._free = FREE_BYTES
        self._most: int | None = None
        self.first = self.last = self.passed = 0

    @property
    def is_tired(self) -> bool:
        """Whether only some lines are looked at any more."""
        return self._left <= 0

    def spend(self, size: int, tried: int, *, passed_on: bool) -> None:
        """A line of that size was looked at in full, so many signatures tried on it, and NCCL's reader may see it."""
        self._left -= (
            _EACH + (size if size < _LONGEST else _LONGEST) // 4 + _EACH_TRIED * tried + _PASSED_ON * passed_on
        )

    def read(self, size: int) -> None:
        """So many bytes more of the log were read."""
        if self._most is not None:
            self._most -= size
            if self._most < 0:
                self._left = -FOR_WORDS
                return
        self._free -= size
        if self._free < 0:
            self._left += -self._free * ALLOWED_PER_MIB // MIB
            self._free = 0

    def is_packed(self, size: int) -> None:
        """The log unpacks while it is read, from so many bytes on disk."""
        self._most = most_unpacked(size)

    def few(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """Of the rest of a log the lines with words of a fault, up to a sum of work, and the last ones."""
        waiting = deque[tuple[int, bytes]]()
        before = b""
        for each in lines:
            if each[1] == before:
                continue  # the same once more
            before = each[1]
            waiting.append(each)
            if len(waiting) > TAIL:
                number, raw = waiting.popleft()
                if not self.is_tired or (self._left > -FOR_WORDS and _tells(raw)):
                    yield number, raw
                else:
                    self.first = self.first or number
                    self.last, self.passed = number, self.passed + 1
        yield from waiting

    @property
    def said(self) -> str:
        """Which lines were passed over; "" where none was."""
        if not self.passed:
            return ""
        return (
            f"{self.passed} of the lines {self.first} to {self.last}: too many lines above them differ from each "
            "other; cut out the part around a fault to have all of it read"
        )


def most_unpacked(size: int) -> int | None:
    """What of a packed log is looked at in full; None: all. A small one can hold a thousand times its size."""
    return FREE_UNPACKED + TIMES_UNPACKED * size if size < FREE_BYTES else None


def _tells(raw: bytes) -> bool:
    line = raw.decode("latin-1")
    for word in _WORDS:  # noqa: SIM110 - a generator, and bytes, cost several times as much
        if word in line:
            return True
    return False
