"""The rank that torchrun's summary names as the first one that failed."""

from __future__ import annotations

import re

_OPENS = "Root Cause"
SUMMARY = (_OPENS, "(local_rank: ")
"""Words of the lines to look at. Those of other ranks look alike, so that none of them may be passed over."""
_RANK = re.compile(r"\brank +: (\d{1,7}) \(local_rank: ")
_MAX_LINES = 12


class FirstFailure:
    """Follows the lines of a summary; other lines are not looked at."""

    def __init__(self) -> None:
        self.left = 0
        """Lines of an open summary in which the rank may still stand."""
        self.ranks: set[str] = set()

    def look(self, line: str) -> None:
        """Look at a line that opens a summary, or stands in one that is open."""
        if _OPENS in line:
            self.left = _MAX_LINES
        elif self.left and (found := _RANK.search(line)):
            self.ranks.add(f"rank {int(found[1])}")
            self.left = 0
        elif self.left:
            self.left -= 1
