"""Kept runs over time: a series for each machine, collective and class of sizes, and what two runs differ in."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise
from operator import itemgetter
from typing import Any

from busbw.base.errors import UsageError
from busbw.base.secrets import shortened
from busbw.runs.index import Index

CLASSES = (("small", 0, 64 << 10), ("medium", (64 << 10) + 1, (64 << 20) - 1), ("large", 64 << 20, 1 << 62))
"""Latency decides up to 64 KiB, bandwidth from 64 MiB on."""

NCCL_YEAR = 2015
FIRST_YEARS = {"busbw": 2026, "nccl-tests": 2017, "rccl-tests": 2018}
"""When what measures was published: a clock that lost its battery begins long before."""
SLACK_S = 86400.0
"""A date without a zone may be so far off, and a clock as well."""

MOST_SHARING, IN_TURNS, FEWEST_OF_ONE = 4, 4, 6
"""So many machines may share a name, change places at least so often, and have at least so many runs each."""

_TEXTS = ("library", "library_version", "tool_version", "launcher", "hosts", "driver", "kernel", "hardware")
_QUERY = f"""
SELECT runs.run, runs.started, CAST(coalesce(runs.machine, runs.hosts, '') AS TEXT),
  {", ".join(f"CAST(coalesce(runs.{name}, '') AS TEXT)" for name in _TEXTS)},
  CAST(cases.collective AS TEXT), CAST(coalesce(cases.type, '') AS TEXT),
  CASE typeof(cases.ranks) WHEN 'integer' THEN cases.ranks ELSE 0 END AS count, cases.bytes, min(cases.time_us)
FROM cases JOIN runs USING (run)
WHERE typeof(runs.started) = 'text' AND cases.outcome = 'measured' AND coalesce(cases.wrong, 0) = 0
  AND typeof(cases.time_us) IN ('integer', 'real') AND cases.time_us > 0 AND cases.time_us < 1e15
  AND typeof(cases.bytes) = 'integer' AND cases.bytes > 0 AND typeof(cases.collective) = 'text'
  AND coalesce(cases.placement, '') != 'in_place' AND cases.impossible IS NULL
GROUP BY runs.run, cases.collective, cases.type, count, cases.bytes
"""
"""Records are read without the checks of a run that is used: what is of another kind than it should be counts for
nothing here."""

_HARDWARE = 2 + len(_TEXTS)
"""Its place in a row."""
_SHARED = re.compile(r" \(hardware [^ ]{1,8}\)$")


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
    hardware: str = ""


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


def series(
    index: Index, collective: str | None = None, machine: str | None = None, same: Mapping[str, str] | None = None
) -> list[Series]:
    """Every series; the size of a class is the one that most of its runs measured, and of those the largest.

    `same` says which machines are now called otherwise. Runs whose date cannot be true are left out.
    """
    same = same or {}
    left_out = {run for run, _, _ in dates_that_cannot_be(index)}
    by: dict[tuple[Any, ...], dict[int, list[Seen]]] = {}
    moments: dict[str, float | None] = {}
    dated = []
    for row in index.rows(_QUERY):
        if (started := row[1]) not in moments:
            moments[started] = instant(started)
        at = moments[started]
        if at is not None and row[0] not in left_out:
            dated.append((at, row[0], row))
    dated.sort(key=itemgetter(0, 1))
    apart = _apart(((same.get(row[2], row[2]), row[0], row[_HARDWARE]) for _, _, row in dated), same)
    for _, _, row in dated:
        run, started, called, library, version, *system, name, type_, ranks, size, time_us = row
        where = same.get(called, called)
        where = apart.get((where, system[-1]), where)
        if (collective and name != collective) or (machine and machine.lower() not in where.lower()):
            continue
        seen = Seen(run, started, time_us, f"{library} {version}".strip(), *system)
        kind = next(kind for kind, first, last in CLASSES if first <= size <= last)
        by.setdefault((where, name, type_, ranks, kind), {}).setdefault(size, []).append(seen)
    found = []
    for (where, name, type_, ranks, kind), sizes in by.items():
        size = max(sizes, key=lambda each: (len(sizes[each]), each))
        found.append(Series(where, name, type_, ranks, kind, size, tuple(sizes[size])))
    return sorted(found, key=lambda each: (each.machine, each.collective, each.type, each.ranks, each.bytes))


def _apart(runs: Iterable[tuple[str, str, str]], same: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """Names by machine and hardware, of machines that share a name: `runs` are machine, run and hardware in order.

    A machine that was replaced has other hardware from then on, and one that came back from repair its old one. Where
    a few hardwares go on in turns, these are machines. A job that gets other nodes each time has more of them, and
    stays one. `--same` is somebody's word that it is one machine.
    """
    turns: dict[str, dict[str, str]] = {}
    for where, run, hardware in runs:
        if hardware and where not in same.values():
            turns.setdefault(where, {})[run] = hardware
    found: dict[tuple[str, str], str] = {}
    for where, by in turns.items():
        counts, switches = Counter(by.values()), sum(one != other for one, other in pairwise(by.values()))
        if 2 <= len(counts) <= MOST_SHARING and switches >= IN_TURNS and min(counts.values()) >= FEWEST_OF_ONE:
            found.update({(where, hardware): f"{where} (hardware {hardware[:8]})" for hardware in counts})
    return found


def machines_apart(every: Iterable[Series]) -> list[str]:
    """The names that stand for machines that share one."""
    return sorted({each.machine for each in every if _SHARED.search(each.machine)})


def dates_that_cannot_be(index: Index, now: float | None = None) -> list[tuple[str, str, str]]:
    """Runs, their dates and why those cannot be true: later than now, or older than what measured them."""
    latest = (time.time() if now is None else now) + SLACK_S
    found = []
    for run, started, tool in index.rows(
        "SELECT run, started, coalesce(tool, '') FROM runs WHERE typeof(started) = 'text'"
    ):
        at = instant(started)
        if at is None:
            continue
        first = FIRST_YEARS.get(tool, NCCL_YEAR)
        if at > latest:
            found.append((run, started, "is still to come"))
        elif at < datetime(first, 1, 1, tzinfo=timezone.utc).timestamp() - SLACK_S:
            found.append((run, started, f"is before {tool if tool in FIRST_YEARS else 'NCCL'} was published"))
    return sorted(found)


def named_alike(index: Index, same: Mapping[str, str]) -> list[tuple[str, str]]:
    """Pairs of machines with two names and the same hardware, the name that was seen last behind."""
    names: dict[str, dict[str, float]] = {}
    query = "SELECT CAST(coalesce(machine, hosts, '') AS TEXT), hardware, started FROM runs WHERE hardware != ''"
    for name, hardware, started in index.rows(query):
        where = same.get(name, name)
        seen = names.setdefault(str(hardware), {})
        seen[where] = max(seen.get(where, 0.0), instant(str(started)) or 0.0)
    pairs = [sorted(seen, key=seen.__getitem__) for seen in names.values()]
    return sorted({pair for each in pairs for pair in pairwise(each)})


def same_names(texts: Sequence[str]) -> dict[str, str]:
    """What `--same OLD=NEW` says, each old name with its newest; UsageError for what says nothing or goes in a ring."""
    said: dict[str, str] = {}
    for text in texts:
        old, _, new = (part.strip() for part in text.partition("="))
        if not old or not new or old == new:
            raise UsageError(f"--same {shortened(text, 200)}: give two names of one machine, as in --same gpu7=node07")
        if said.get(old, new) != new:
            raise UsageError(f"--same names two machines for {old[:100]}: {said[old][:100]} and {new[:100]}")
        said[old] = new
    for old in list(said):
        names = {old}
        while said[old] in said:
            if said[old] in names:
                raise UsageError(f"--same leads from {old[:100]} back to itself; the new name stands behind the =")
            names.add(said[old])
            said[old] = said[said[old]]
    return said


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
    for what in ("driver", "kernel", "library", "tool", "launcher", "hosts", "hardware"):
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
