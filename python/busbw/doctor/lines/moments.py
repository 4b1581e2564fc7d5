"""When a line was written, by what stands in front of it: lines of several ranks and files lie in no order of time."""

from __future__ import annotations

import re

NEAR_S = 3600.0
"""Clocks of hosts and zones differ by whole hours: what lies further apart is not compared."""
MAX_HEAD = 160
"""Characters of a line in which its time stands."""
DAY_S = 86400.0

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_TIME = r"(?P<h>[012]\d):(?P<m>[0-5]\d):(?P<s>[0-6]\d)(?:[.,](?P<f>\d{1,9}))?"
_DATED = re.compile(
    r"(?:\d{4}[-/](?P<mon>[01]\d)[-/](?P<day>[0-3]\d)[T ]"
    r"|(?:^|[\[ :])[IWEF](?P<mon2>[01]?\d)(?P<day2>[0-3]\d) "  # PyTorch's C++ writes E421, its Python E0421
    rf"|(?P<name>{'|'.join(_MONTHS)}) {{1,2}}(?P<day3>[0-3]?\d),? (?:\d{{4}} )?"
    r"|(?<![\d/-])(?P<mon4>[01]\d)[-/](?P<day4>[0-3]\d)(?:[-/]\d{4})?[ -])"
    + _TIME
)  # fmt: skip


def moment_of(line: str) -> float | None:
    """Seconds since the begin of a year of months of 31 days; None where no date with a time stands at its head."""
    found = _DATED.search(line, 0, MAX_HEAD)
    if found is None:
        return None
    month = _MONTHS.index(found["name"]) + 1 if found["name"] else int(found["mon"] or found["mon2"] or found["mon4"])
    day = int(found["day"] or found["day2"] or found["day3"] or found["day4"])
    seconds = 3600 * int(found["h"]) + 60 * int(found["m"]) + int(found["s"]) + float(f"0.{found['f'] or 0}")
    return (31 * month + day) * DAY_S + seconds


def came_first(one: float | None, other: float | None) -> bool | None:
    """Whether the one moment lies before the other; None where nothing tells, or they lie too far apart."""
    if one is None or other is None or abs(one - other) > NEAR_S:
        return None
    return one < other
