"""Where a signature was found in a log, and who says it there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from busbw.doctor.lines.moments import moment_of
from busbw.doctor.lines.speakers import speaker

MAX_EVIDENCE = 3
MAX_WHO = 4096
MAX_GROUPS = 4096


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
    part: str = ""
    """The part of a log in which its first line stands: that of one rank or host."""

    def add(self, line: str, number: int, groups: Mapping[str, str]) -> None:
        """Found once more, in that line."""
        self.count += 1
        self.last = max(self.last, number)
        if (moment := moment_of(line)) is not None:
            self.when = moment if self.when is None else min(self.when, moment)
        if len(self.lines) < MAX_EVIDENCE or number < self.lines[-1][0]:
            # What was excused at first is found late.
            self.lines = sorted([*self.lines, (number, line.strip())])[:MAX_EVIDENCE]
        if groups and len(self.groups) < MAX_GROUPS:
            self.groups[tuple(groups.items())] = None
        if len(self.who) < MAX_WHO and (who := speaker(line)):
            self.who[who] = None
