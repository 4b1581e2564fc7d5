"""What one call may spend on foreign files, all of them together: a sum of work, counted and not timed.

A unit is about a microsecond of a quiet processor. Readers say what they did (bytes unpacked, lines, rows); where the
sum is spent they stop, and say what they did not read. `--whole` lifts the bound for files that the user trusts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

ALLOWED = 3_000_000
"""For a call; what follows from what was read, and the start of busbw, take up to 2 s more."""
MIB = 1 << 20
PER_MIB = 6_000
"""To read text in blocks and make lines of it."""
PER_MIB_OF_RECORDS, PER_CASE_OF_RECORDS = 60_000, 5
"""To make objects of the lines of a record."""
PER_EXAMINED = 100
"""What a case costs that is drawn, compared or judged once it is read."""
PER_SWEEP_EXAMINED = 1_000
"""What the first case of a type, redop, root or variant costs beside it: whatever is drawn or compared begins anew."""
PER_MIB_UNPACKED = {b"\x1f\x8b": 8_000, b"BZh": 50_000, b"\xfd7zXZ": 30_000, b"\x28\xb5\x2f\xfd": 15_000}
"""Beside it, by what a packed file starts with."""
HINT = "split it, or give --whole where you trust it"


class Effort:
    """What is left of the sum of one call."""

    def __init__(self, allowed: float = ALLOWED) -> None:
        self.left: float = allowed
        self.per_case = 0
        """What will be done with each case that is read now, beside reading it."""
        self.is_cut = False
        """Whether the user was told that a part alone was read."""

    @property
    def is_spent(self) -> bool:
        """Whether nothing more is to be read."""
        return self.left <= 0

    @property
    def is_lifted(self) -> bool:
        """Whether the user trusts the files."""
        return self.left == math.inf

    def lift(self) -> None:
        """Read all, whatever it costs."""
        self.left = math.inf

    def allow(self, units: float) -> None:
        """At least so much may be spent: of many files that the user named."""
        self.left = max(self.left, units)

    def spend(self, units: float) -> None:
        """So much was done. Where each line of a large file pays, `left` is lowered in place: a call costs as much."""
        self.left -= units

    @contextmanager
    def part(self, share: float) -> Iterator[None]:
        """Only this share of what is left may be spent within; what is not stays for what follows."""
        before = self.left
        if before <= 0 or before == math.inf or share >= 1:
            yield
            return
        mine = self.left = before * share
        try:
            yield
        finally:
            self.left = before - (mine - self.left)

    @contextmanager
    def examining(self) -> Iterator[None]:
        """Each case that is read within will be examined, and pays for that as it is read: reading ends in time."""
        before, self.per_case = self.per_case, PER_EXAMINED
        try:
            yield
        finally:
            self.per_case = before


EFFORT = Effort()
"""Of this process: a command reads its files in one."""


def per_mib(start: bytes) -> int:
    """What a MiB costs of a file that begins so: to read it, and to unpack it where it is packed."""
    return PER_MIB + next((cost for magic, cost in PER_MIB_UNPACKED.items() if start.startswith(magic)), 0)
