"""Published figures of others, shipped so that a run can be compared with them offline.

`names()` lists the entries, `load(name)` gives the records of one: `nc48v4` is both sweeps of that machine,
`nc48v4-no-graph-file` one of them. The figures are in figures.json, made by tools/make_catalogue from the pages named
there; only figures and where they come from are kept.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from busbw.base.errors import UsageError
from busbw.records import Case, End, Record, Run
from busbw.records.decode import decode

__all__ = ["describe", "load", "names", "pack", "unpack"]


def names() -> list[str]:
    """Every name that `load` takes: single entries, then groups of several."""
    entries = _figures()["entries"]
    single = [entry["name"] for entry in entries]
    groups = dict.fromkeys(group for entry in entries for group in entry["groups"])
    return single + [group for group in groups if group not in single]


def load(name: str) -> list[Record]:
    """The records of an entry or of a group of entries."""
    return list(load_named(name).values())


def load_named(name: str) -> dict[str, Record]:
    """The records of an entry or of a group of entries, by the name of their own entry."""
    found = [entry for entry in _figures()["entries"] if entry["name"] == name or name in entry["groups"]]
    if not found:
        raise UsageError(f"the catalogue has no entry {name!r}; it has {', '.join(names())}")
    return {entry["name"]: unpack(entry) for entry in found}


def describe(name: str) -> str:
    """One line about an entry or group: how many figures, from which page."""
    records = load(name)
    figures = sum(len(record.cases) for record in records)
    source = records[0].run.source
    where = (source.url or source.file) if source else ""
    return f"{name}: {len(records)} sweeps, {figures} figures, from {where}" if len(records) > 1 else (
        f"{name}: {figures} figures, from {where}"
    )  # fmt: skip


@cache
def _figures() -> dict[str, Any]:
    text = files(__package__).joinpath("figures.json").read_text(encoding="utf-8")
    figures: dict[str, Any] = json.loads(text)
    return figures


def pack(record: Record, name: str, groups: list[str]) -> dict[str, Any]:
    """An entry: what all cases share once, the rest as rows."""
    from busbw.records import encode

    cases = [encode(case) for case in record.cases]
    for case in cases:
        for key in ("schema", "kind", "run", "case"):
            del case[key]
    keys = list(dict.fromkeys(key for case in cases for key in case))
    common = {key: cases[0].get(key) for key in keys if all(case.get(key) == cases[0].get(key) for case in cases)}
    columns = [key for key in keys if key not in common]
    return {
        "name": name,
        "groups": groups,
        "run": encode(record.run),
        "common": common,
        "columns": columns,
        "rows": [[case.get(column) for column in columns] for case in cases],
        "end": encode(record.end) if record.end else None,
    }


def unpack(entry: dict[str, Any]) -> Record:
    """The record of an entry, through the same checks as any record."""
    run = decode(entry["run"])
    assert isinstance(run, Run)
    cases = []
    for index, row in enumerate(entry["rows"]):
        figures = {key: value for key, value in zip(entry["columns"], row, strict=True) if value is not None}
        required = {"placement": None, "time_us": None, "algbw_GBps": None, "busbw_GBps": None}
        case = decode(
            {"schema": 1, "kind": "case", "run": run.run, "case": index, **required, **entry["common"], **figures}
        )
        assert isinstance(case, Case)
        cases.append(case)
    end = decode(entry["end"]) if entry["end"] else None
    assert end is None or isinstance(end, End)
    return Record(run, tuple(cases), end)
