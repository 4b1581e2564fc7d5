"""Kept runs over time: a series for each machine, collective and class of sizes, and what two runs differ in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from busbw.runs.index import Index

CLASSES = (("small", 0, 64 << 10), ("medium", (64 << 10) + 1, (64 << 20) - 1), ("large", 64 << 20, 1 << 62))
"""Latency decides up to 64 KiB, bandwidth from 64 MiB on."""

_QUERY = """
SELECT runs.run, runs.started, coalesce(runs.machine, runs.hosts, ''), coalesce(runs.library, ''),
  coalesce(runs.library_version, ''), coalesce(runs.tool_version, ''), coalesce(runs.launcher, ''),
  coalesce(runs.hosts, ''), cases.collective, coalesce(cases.type, ''), coalesce(cases.ranks, 0), cases.bytes,
  min(cases.time_us)
FROM cases JOIN runs USING (run)
WHERE runs.started IS NOT NULL AND cases.outcome = 'measured' AND cases.time_us > 0 AND cases.bytes > 0
  AND coalesce(cases.placement, '') != 'in_place'
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
        run, started, where, library, version, tool, launcher, hosts, name, type_, ranks, size, time = row
        if (collective and name != collective) or (machine and machine.lower() not in where.lower()):
            continue
        seen = Seen(run, started, time, f"{library} {version}".strip(), tool, launcher, hosts)
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


def differed(index: Index, before: Seen, after: Seen) -> list[str]:
    """What two runs have not in common, as far as records say: library, busbw, launcher, nodes, variables."""
    words = [
        f"{what} {old or 'none'} -> {new or 'none'}"
        for what, old, new in (
            ("library", before.library, after.library), ("busbw", before.tool, after.tool),
            ("launcher", before.launcher, after.launcher), ("nodes", before.hosts, after.hosts),
        ) if old != new
    ]  # fmt: skip
    old, new = (_environment(index, each.run) for each in (before, after))
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return words + [f"{name} {old.get(name, 'unset')} -> {new.get(name, 'unset')}" for name in names]


def _environment(index: Index, run: str) -> dict[str, str]:
    return dict(index.rows("SELECT name, value FROM environment WHERE run = ?", (run,)))
