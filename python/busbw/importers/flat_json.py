"""JSON with sizes, times and bandwidths, however people nest it: objects, lists of columns, sizes as keys.

rccl-tests writes such files (-Z json), so do nccom-test and many scripts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from busbw.base.effort import EFFORT
from busbw.importers.columns import Column, column_of, is_table
from busbw.importers.draft import Sink
from busbw.importers.flat import FORMAT, Runs
from busbw.importers.json_values import json_values
from busbw.importers.values import collective_named, size_in_bytes
from busbw.records import Collective

__all__ = ["FORMAT", "MAX_BYTES", "cells_of_object", "looks_like", "parse", "rows_in"]

MAX_BYTES = 64 << 20
MAX_ROWS = 2_000_000
MAX_DEPTH = 8

_SIZE_KEY = r"(?:size|bytes|msg_?(?:size|bytes)|message_?size|n_?bytes|mb|mib|data_?size|payload)"
_OBJECT = re.compile(
    rf'"(?:{_SIZE_KEY}[^"]{{0,30}}|[^"]{{0,20}}_(?:size|bytes)|\d{{1,15}}(?: ?[KMG]i?B?)?)"\s*:', re.IGNORECASE
)
_BANDWIDTH = re.compile(
    r'"(?:(?:oop|ip|op|out_of_place|in_place|avg|mean)[_ ])?(?:alg|algo|bus)[_ ]?(?:bw|bandwidth)[^"]{0,20}"\s*:',
    re.IGNORECASE,
)
_PLACES = re.compile(r"(?i)(?:out[_-]?of[_-]?place|oop|in[_-]?place|ip)")
_AROUND = frozenset(
    {"collective", "ranks", "gpus", "nodes", "per_node", "type", "library", "op", "variant", "in_place"}
)
MAX_UNREAD = 20_000
"""Objects with sizes that cannot be read, after which the others are not tried."""
_MEAN = ("avg", "mean", "average", "median", "p50")
"""Of an object of statistics, what counts as the figure."""


def looks_like(head: str) -> bool:
    """Whether a text begins as JSON objects with sizes and bandwidths."""
    if head.lstrip()[:1] not in ("{", "[") or '"kernel"' in head[:4000]:
        return False
    return _OBJECT.search(head) is not None and _BANDWIDTH.search(head) is not None


def parse(text: str, sink: Sink) -> None:
    """Objects with sizes, at any depth that people nest results."""
    runs: Runs | None = None
    unread, enough = 0, False
    for line, value in json_values(text):
        for raw in rows_in(value):
            if runs is not None and runs.nameless >= MAX_UNREAD and runs.is_empty:
                enough = True  # what to do about it is told at the end
                sink.problem(
                    line, f"{MAX_UNREAD} objects in a row name no collective: the rest of the file was not read"
                )
                break
            if EFFORT.is_spent and runs is not None and not runs.is_empty:
                enough = True
                sink.stops_before(line)
                break
            if runs is None:
                runs = Runs(sink, list(raw))
                runs.told(_collective_in(value))
            cells = cells_of_object(raw)
            unread += not runs.add(cells, line, str(sorted([(column.field, cell) for column, cell in cells])))
        if enough:
            break
        if unread > MAX_UNREAD:
            sink.problem(
                line, f"more than {MAX_UNREAD} objects above cannot be read: the rest of the file was not read"
            )
            break
    if runs is None:
        sink.problem(1, "JSON with bandwidths, but no object of it has a size beside them: nothing was imported")
        return
    runs.close()
    if unread:
        sink.problem(None, f"{unread} objects with sizes that cannot be read")


def cells_of_object(raw: Mapping[str, Any]) -> list[tuple[Column, str]]:
    """The values of an object whose names are known."""
    cells = [(column, str(each)[:80]) for name, each in raw.items() if (column := column_of(name)) is not None]
    if not _says_collective(tuple(raw)):
        # Under whatever name: nothing else of a result is called as a collective is.
        named = {each for each in raw.values() if isinstance(each, str) and len(each) < 40 and collective_named(each)}
        cells += [(Column("collective"), named.pop())] if len(named) == 1 else []
    return cells


@lru_cache(maxsize=256)
def _says_collective(names: tuple[str, ...]) -> bool:
    return any(column is not None and column.field in ("collective", "op") for column in map(column_of, names))


def rows_in(value: Any) -> Iterator[Mapping[str, Any]]:
    """Objects that are rows, each with the plain values of the objects around it."""
    yield from _objects(value, {}, 0)


def _objects(  # noqa: PLR0912 - the ways in which people nest rows
    value: Any, above: Mapping[str, Any], depth: int
) -> Iterator[Mapping[str, Any]]:
    if depth > MAX_DEPTH:
        return
    if isinstance(value, list):
        for each in value[:MAX_ROWS]:
            yield from _objects(each, above, depth + 1)
    if not isinstance(value, dict):
        return
    names = (*above, *value)
    if all(type(each) in _PLAIN for each in value.values()) and _are_rows(names, len(above)):
        yield {**above, **value}
        return
    plain = {key: each for key, each in value.items() if isinstance(each, (str, int, float)) and len(key) < 80}
    plain = {key: each for key, each in plain.items() if not isinstance(each, bool) or column_of(key)}
    placed = {**_of_placements(value), **_of_statistics(value)}
    if is_table([column_of(key) for key in (*above, *plain, *placed)]) and (
        placed or any((column := column_of(key)) and column.field in _MEASURED for key in plain)
    ):
        yield {**above, **plain, **placed}
        return
    merged = _of_siblings(value)
    if merged:
        yield {**above, **plain, **merged}
        return
    columns = _of_columns(value)
    if columns:
        for row in columns:
            yield {**above, **plain, **row}
        return
    around = {**above, **_said_beside(value)}
    for key, each in plain.items():
        column = column_of(key)
        if column is not None and column.field in _AROUND:
            around[key] = each
    for key, each in value.items():
        if isinstance(each, (dict, list)):
            yield from _objects(each, {**around, **_of_key(str(key), each)}, depth + 1)


_MEASURED = frozenset({"time", "algbw", "busbw"})
_PLAIN = frozenset({str, int, float})


@lru_cache(maxsize=256)
def _are_rows(names: tuple[str, ...], above: int) -> bool:
    """Whether objects with these names are rows, where no value is an object or list; the first come from around."""
    if any(len(each) >= 80 for each in names):
        return False
    columns = [column_of(each) for each in names]
    return is_table(columns) and any(each and each.field in _MEASURED for each in columns[above:])


def _said_beside(value: Mapping[str, Any]) -> dict[str, Any]:
    """What objects beside the rows say of all of them: `config`, `case` and the like, where they agree."""
    found: dict[str, Any] = {}
    for part in [each for each in value.values() if isinstance(each, dict)][:20]:
        for key, each in part.items():
            if not isinstance(each, (str, int)) or isinstance(each, bool) or len(key) > 40:
                continue
            column = column_of(key)
            named = isinstance(each, str) and collective_named(each[:40]) is not None
            name = "collective" if named and (column is None or column.field in ("op", "collective")) else key
            known = named if name == "collective" else column is not None and column.field in _AROUND
            if known and found.setdefault(name, each) != each:
                return {}
    return found


def _of_key(key: str, inner: Any) -> dict[str, Any]:
    """What the name of an object or list says of the rows in it: a size, a placement or a collective."""
    if len(key) > 40:
        return {}
    if isinstance(inner, dict) and (size := size_in_bytes(key)) is not None and key[:1].isdigit():
        return {"size": size}
    if isinstance(inner, list) and _PLACES.fullmatch(key):
        return {"placement": "in_place" if "in" in key.lower() or key.lower() == "ip" else "out_of_place"}
    return {"collective": key} if collective_named(re.sub(r"(?i)_?perf$", "", key)) else {}


def _of_siblings(value: Mapping[str, Any]) -> dict[str, Any]:
    """A row whose parts are objects beside each other, such as `params` and `metrics`; empty where they are none."""
    parts = [each for each in value.values() if isinstance(each, dict)][:20]
    if len(parts) < 2 or any(is_table([column_of(str(key)) for key in part]) for part in parts):
        return {}
    merged: dict[str, Any] = {}
    for part in parts:
        for key, each in part.items():
            if isinstance(each, (str, int, float)) and not isinstance(each, bool) and len(key) < 80:
                if key in merged:
                    return {}
                merged[key] = each
    return merged if is_table([column_of(key) for key in merged]) else {}


def _of_columns(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of an object whose members are columns: lists of plain values of one length."""
    lists = {
        key: each
        for key, each in value.items()
        if isinstance(each, list) and each and len(key) < 80 and column_of(key) is not None
        and all(isinstance(cell, (int, float, str)) for cell in each[:MAX_ROWS])
    }  # fmt: skip
    if len({len(each) for each in lists.values()}) != 1 or not is_table([column_of(key) for key in lists]):
        return []
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def _of_statistics(value: Mapping[str, Any]) -> dict[str, Any]:
    """Figures that are objects of statistics, such as a time with avg, min and max, by their mean or median."""
    found: dict[str, Any] = {}
    for key, inner in value.items():
        column = column_of(key) if isinstance(inner, dict) and len(key) < 40 else None
        if column is None or column.field not in _MEASURED:
            continue
        for name in _MEAN:
            each = inner.get(name)
            if isinstance(each, (int, float)) and not isinstance(each, bool):
                found[key] = each
                break
    return found


def _collective_in(value: Any) -> Collective | None:
    """The only collective that a document of one table names anywhere, in a field for it."""
    found: set[Collective] = set()
    waiting = [value] if isinstance(value, dict) else []
    for each in waiting:
        for key, inner in list(each.items())[:200]:
            column = column_of(key) if isinstance(inner, str) and len(key) < 80 else None
            named = collective_named(inner[:80]) if column is not None and column.field == "collective" else None
            found |= {named} if named else set()
            if isinstance(inner, dict) and len(waiting) < 100:
                waiting.append(inner)
    return found.pop() if len(found) == 1 else None


def _of_placements(value: Mapping[str, Any]) -> dict[str, Any]:
    """Figures that lie in objects named out_of_place and in_place, by one name each."""
    found: dict[str, Any] = {}
    for key, inner in value.items():
        if isinstance(inner, dict) and len(key) < 40 and _PLACES.fullmatch(key):
            found |= {
                f"{key} {name}": each
                for name, each in inner.items()
                if isinstance(each, (str, int, float)) and len(name) < 40
            }
    return found
