"""The rank that torchrun's summary names as the first one that failed, and which of several hosts' was the first."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from busbw.doctor.lines.moments import NEAR_S, moment_of

_OPENS = "Root Cause"
SUMMARY = (_OPENS, "(local_rank: ")
"""Words of the lines to look at. Those of other ranks look alike, so that none of them may be passed over."""
_RANK = re.compile(r"\brank +: (\d{1,7}) \(local_rank: ")
_HOST = re.compile(r"\bhost +: (\S{1,120})")
_TIME = re.compile(r"\btime +: (\d{4}-\d\d-\d\d)_(\d\d:\d\d:\d\d)")
_MAX_LINES = 12
APART_S = 2.0
"""Launchers of several hosts look at their ranks each on its own; what lies closer tells no order."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A rank that a summary names; `host` and `when` where the summary tells them."""

    rank: str
    host: str = ""
    when: float | None = None


class FirstFailure:
    """Follows the lines of a summary; other lines are not looked at."""

    def __init__(self) -> None:
        self.left = 0
        """Lines of an open summary in which the rank may still stand."""
        self.failed: set[Failed] = set()
        self.host = ""
        self.when: float | None = None

    def look(self, line: str) -> None:
        """Look at a line that opens a summary, or stands in one that is open."""
        if _OPENS in line:
            self.left, self.host, self.when = _MAX_LINES, "", None
        elif self.left and (found := _RANK.search(line)):
            self.failed.add(Failed(f"rank {int(found[1])}", self.host, self.when))
            self.left = 0
        elif self.left:
            self.left -= 1
            if found := _HOST.search(line):
                self.host = found[1]
            elif found := _TIME.search(line):
                self.when = moment_of(f"{found[1]} {found[2]}")


def earliest(failed: Collection[Failed]) -> frozenset[str]:
    """The ranks of which no other host's launcher saw one fail before: theirs failed by it."""
    return frozenset(each.rank for each in failed if not any(_before(other, each) for other in failed))


def _before(one: Failed, other: Failed) -> bool:
    if one.when is None or other.when is None or not one.host or not other.host or one.host == other.host:
        return False
    return APART_S <= other.when - one.when <= NEAR_S
