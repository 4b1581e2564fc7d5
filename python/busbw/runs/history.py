"""Kept runs over time: a series for each machine, collective and class of sizes, and what two runs differ in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from busbw.runs.index import Index

CLASSES = (("small", 0, 64 << 10), ("medium", (64 << 10) + 1, (64 << 20) - 1), ("large", 64 << 20, 1 << 62))
"""Latency decides up to 64 KiB, bandwidth from 64 MiB on."""

_QUERY = """
SELECT runs.run, runs.started, coalesce(runs.machine, runs.hosts, ''), coalesce(runs.library, ''),
  coalesce(runs.library_version, ''), coalesce(runs.tool_version, ''), coalesce(runs.launcher, ''),
  coalesce(runs.hosts, ''), coalesce(runs.driver, ''), coalesce(runs.kernel, ''),
  cases.collective, coalesce(cases.type, ''), coalesce(cases.ranks, 0), cases.bytes,
  min(cases.time_us)
FROM cases JOIN runs USING (run)
WHERE runs.started IS NOT NULL AND cases.outcome = 'measured' AND cases.time_us > 0 AND cases.bytes > 0
  AND coalesce(cases.placement, '') != 'in_place' AND coalesce(cases.wrong, 0) = 0
  AND cases.impossible IS NULL
GROUP BY runs.run, cases.collective, cases.type, cases.ranks, cases.bytes
"""


@dataclass(frozen=True)
class Seen:
    """One run of a series: its time per call in microseconds, and what it ran with."""

    run: str
    started: str
    time_us: float
    library: str
    tool: str
    launcher: str
    hosts: str
    driver: str = ""
    kernel: str = ""


@dataclass(frozen=True)
class Series:
    """Runs of one machine, collective, type, number of ranks and size, the oldest first."""

    machine: str
    collective: str
    type: str
    ranks: int
    kind: str
    bytes: int
    runs: tuple[Seen, ...]


def series(index: Index, collective: str | None = None, machine: str | None = None) -> list[Series]:
    """Every series; the size of a class is the one that most of its runs measured, and of those the largest."""
    by: dict[tuple[Any, ...], dict[int, list[Seen]]] = {}
    dated = [(instant(row[1]), row) for row in index.rows(_QUERY)]
    for _, row in sorted(((at, row) for at, row in dated if at is not None), key=lambda each: (each[0], each[1][0])):
        run, started, where, library, version, *system, name, type_, ranks, size, time = row
        if (collective and name != collective) or (machine and machine.lower() not in where.lower()):
            continue
        seen = Seen(run, started, time, f"{library} {version}".strip(), *system)
        kind = next(kind for kind, first, last in CLASSES if first <= size <= last)
        by.setdefault((where, name, type_, ranks, kind), {}).setdefault(size, []).append(seen)
    found = []
    for (where, name, type_, ranks, kind), sizes in by.items():
        size = max(sizes, key=lambda each: (len(sizes[each]), each))
        found.append(Series(where, name, type_, ranks, kind, size, tuple(sizes[size])))
    return sorted(found, key=lambda each: (each.machine, each.collective, each.type, each.ranks, each.bytes))


def instant(started: str) -> float | None:
    """Seconds since 1970, whatever zone a record says its time in; None for what is no time, or before 1970."""
    try:
        when = datetime.fromisoformat(started.replace("Z", "+00:00"))
        seconds = (when if when.tzinfo else when.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError):
        return None
    return seconds if seconds > 0 else None


NEAR = 6
"""So many runs on either side of a change say what was usual there: its place is known to a run or two."""


def differed(index: Index, before: Sequence[Seen], after: Sequence[Seen], tells: Callable[[str], bool]) -> list[str]:
    """What was usual in the last runs before a change and another thing in the first ones after it, as records say.

    Driver, kernel, library, busbw, launcher, nodes, then variables that `tells` lets pass. What most runs of a side
    have not in common, as a number of a job, is usual nowhere.
    """
    sides = (before[-NEAR:], after[:NEAR])
    found = []
    for what in ("driver", "kernel", "library", "tool", "launcher", "hosts"):
        old, new = (_usual([getattr(seen, what) for seen in side]) for side in sides)
        if old != new and None not in (old, new):
            found.append(f"{_NAMES.get(what, what)} {old or 'none'} -> {new or 'none'}")
    variables = tuple([_environment(index, seen.run) for seen in side] for side in sides)
    for name in sorted({name for side in variables for each in side for name in each if tells(name)}):
        old, new = (_usual([each.get(name, "unset") for each in side]) for side in variables)
        if old != new and None not in (old, new):
            found.append(f"{name} {old} -> {new}")
    return found


_NAMES = {"tool": "busbw", "hosts": "nodes"}


def _usual(values: Sequence[str]) -> str | None:
    """What more than half of them are."""
    value, times = Counter(values).most_common(1)[0]
    return value if 2 * times > len(values) else None


def _environment(index: Index, run: str) -> dict[str, str]:
    return dict(index.rows("SELECT name, value FROM environment WHERE run = ?", (run,)))
