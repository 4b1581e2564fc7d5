"""Where a signature was found in a log, and who says it there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_EVIDENCE = 3
MAX_WHO = 4096
MAX_GROUPS = 4096
RANK = re.compile(
    r"\[(?:default|rank|Rank |PG .{0,60}Rank )(\d{1,7})\]|^\s{0,6}(\d{1,7}): |\[\d{1,6},(\d{1,7})\]<std", re.ASCII
)
_HOST = re.compile(r"([A-Za-z0-9][\w.-]{0,254}):\d{1,10}:\d{1,10} \[(-?\d{1,4})\]")


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

    def add(self, line: str, number: int, groups: Mapping[str, str]) -> None:
        """Found once more, in that line."""
        self.count += 1
        self.last = max(self.last, number)
        if len(self.lines) < MAX_EVIDENCE or number < self.lines[-1][0]:
            # What was excused at first is found late.
            self.lines = sorted([*self.lines, (number, line.strip())])[:MAX_EVIDENCE]
        if groups and len(self.groups) < MAX_GROUPS:
            self.groups[tuple(groups.items())] = None
        if len(self.who) < MAX_WHO and (who := speaker(line)):
            self.who[who] = None


def speaker(line: str) -> str:
    """The rank or the host and device that a line comes from; "" where nothing says it."""
    if found := RANK.search(line):
        return f"rank {found[1] or found[2] or found[3]}"
    if found := _HOST.search(line):
        return f"{found[1]} GPU {found[2]}"
    return ""
