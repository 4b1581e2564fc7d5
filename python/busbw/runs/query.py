"""Which kept runs a filter means, newest first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from busbw.runs.index import Index

_AGO = re.compile(r"(\d+)\s*([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True)
class Filter:
    """Every condition must hold; texts are parts of the value, whatever their case."""

    collective: str | None = None
    library: str | None = None
    host: str | None = None
    machine: str | None = None
    tag: Sequence[str] = ()
    since: datetime | None = None
    outcome: str | None = None


@dataclass(frozen=True)
class Listed:
    """One run as the list shows it."""

    run: str
    started: str | None
    outcome: str
    library: str | None
    machine: str | None
    hosts: str
    ranks: int | None
    collectives: str
    cases: int
    peak_busbw_GBps: float | None
    wrong: float | None
    note: str
    problem: str | None
    tags: str


def list_runs(index: Index, chosen: Filter) -> list[Listed]:
    """Runs that the filter lets through, newest first; runs without a known start come last."""
    where, values = _conditions(chosen)
    query = (
        "SELECT run, started, outcome, trim(coalesce(library, '') || ' ' || coalesce(library_version, '')), machine,"
        " hosts, ranks, collectives, cases, peak_busbw_GBps, wrong, note, problem,"
        " coalesce((SELECT group_concat(tag, ' ') FROM tags WHERE tags.run = runs.run), '')"
        f" FROM runs {where} ORDER BY started IS NULL, started DESC, run DESC"
    )
    return [Listed(*row) for row in index.rows(query, values)]


def parse_since(text: str, now: datetime | None = None) -> datetime:
    """ "2026-01-31", "2026-01-31T12:00", "90m", "36h", "7d" or "2w"; dates without a zone are UTC."""
    ago = _AGO.fullmatch(text.strip())
    if ago:
        return (now or datetime.now(timezone.utc)) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        since = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(f"'{text}' is no time; write it as 2026-01-31, 2026-01-31T12:00, 36h or 7d") from None
    return since if since.tzinfo else since.replace(tzinfo=timezone.utc)


def _conditions(chosen: Filter) -> tuple[str, list[Any]]:
    found: list[str] = []
    values: list[Any] = []
    for column, part in (
        ("collectives", chosen.collective), ("library || ' ' || coalesce(library_version, '')", chosen.library),
        ("hosts", chosen.host), ("machine", chosen.machine), ("outcome", chosen.outcome),
    ):  # fmt: skip
        if part:
            found.append(f"instr(lower({column}), lower(?)) > 0")
            values.append(part)
    for tag in chosen.tag:
        found.append("EXISTS (SELECT 1 FROM tags WHERE tags.run = runs.run AND tag = ?)")
        values.append(tag)
    if chosen.since is not None:
        # julianday reads the zone; comparing the texts would not.
        found.append("julianday(started) >= julianday(?)")
        values.append(chosen.since.isoformat())
    return (f"WHERE {' AND '.join(found)}" if found else ""), values
