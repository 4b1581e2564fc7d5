"""Where a signature was found in a log, and who says it there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from busbw.doctor.lines.moments import moment_of
from busbw.doctor.lines.speakers import speaker

MAX_EVIDENCE = 3
MAX_WHO = 4096
MAX_GROUPS = 4096
_AGED = re.compile(
    r"\s{0,12}(?:[1-9]\d{0,3}d(?:\d{1,2}h)?\s{1,12}Warning\s|Warning\s{1,8}[A-Z]\w{2,40}\s{1,20}[1-9]\d{0,3}d(?:\d{1,2}h)?\s)"
)
"""Events as `kubectl get events` and `kubectl describe` show them, the last of which was days ago."""


@dataclass(slots=True)
class Hit:
    """Where a signature was found: how often, by whom, and the first lines."""

    count: int = 0
    last: int = 0
    lines: list[tuple[int, str]] = field(default_factory=list)
    who: dict[str, None] = field(default_factory=dict)
    groups: dict[tuple[tuple[str, str], ...], None] = field(default_factory=dict)
    begun: int = 0
    """The line in which the traceback begins that its first line ends; 0 without one."""
    when: float | None = None
    """The earliest time that stands in front of a line (`busbw.doctor.lines.moments`)."""
    until: float | None = None
    """The latest one."""
    dated: int = 0
    """How many of its lines have a time with a date in front."""
    aged: int = 0
    """How many are rows of events that are days old, by their own first column."""
    part: str = ""
    """The part of a log in which its first line stands: that of one rank or host."""

    told: dict[int, frozenset[str]] = field(default_factory=dict)
    """By kept line, the names of its groups, where several lines bear the signature out only together."""

    def add(self, line: str, number: int, groups: Mapping[str, str], *, together: bool = False) -> None:
        """Found once more, in that line; `together`: of each part of what is told a line is kept."""
        self.count += 1
        self.last = max(self.last, number)
        self.aged += _AGED.match(line) is not None
        if (moment := moment_of(line)) is not None:
            self.dated += 1
            self.when = moment if self.when is None else min(self.when, moment)
            self.until = moment if self.until is None else max(self.until, moment)
        if len(self.lines) < MAX_EVIDENCE or number < self.lines[-1][0]:
            # What was excused at first is found late.
            self.lines = sorted([*self.lines, (number, line.strip())])[:MAX_EVIDENCE]
            if together:
                self.told[number] = frozenset(groups)
        elif together and not frozenset().union(*self.told.values()).issuperset(groups):
            self._make_room(number, line.strip(), frozenset(groups))
        if groups and len(self.groups) < MAX_GROUPS:
            self.groups[tuple(groups.items())] = None
        if len(self.who) < MAX_WHO and (who := speaker(line)):
            self.who[who] = None

    def told_before(self, fronts: Sequence[str]) -> None:
        """What stood before its lines: who says them, and when, where the lines themselves do not."""
        moments = [moment for front in fronts if (moment := moment_of(front)) is not None]
        if not self.dated and moments:
            self.dated, self.when, self.until = len(moments), min(moments), max(moments)
        if not self.who:
            self.who |= dict.fromkeys(who for front in fronts if (who := speaker(front)))

    def _make_room(self, number: int, line: str, names: frozenset[str]) -> None:
        """Keep that line in place of the last one whose part other kept lines tell as well."""
        for at, (other, _) in reversed(list(enumerate(self.lines))[1:]):
            rest = [self.told.get(each, frozenset()) for each, _ in self.lines if each != other]
            if self.told.get(other, frozenset()) <= names.union(*rest):
                self.told.pop(other, None)
                self.told[number] = names
                self.lines = sorted([*self.lines[:at], *self.lines[at + 1 :], (number, line)])
                return
