"""Records to JSON Lines: strict JSON, one object a line, fields at their default left out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TextIO

from busbw.records.model import SCHEMA, Case, Device, End, Record, Run, Tool

_KIND: dict[type, str] = {Run: "run", Case: "case", End: "end"}
_ALWAYS: dict[type, frozenset[str]] = {
    Run: frozenset({"run", "started", "tool", "library", "ranks", "environment"}),
    Case: frozenset(
        {"run", "case", "collective", "bytes", "placement", "outcome", "time_us", "algbw_GBps", "busbw_GBps"}
    ),
    End: frozenset({"run", "outcome", "cases"}),
}
_NAMES: dict[type, tuple[str, ...]] = {}


def encode(line: Run | Case | End) -> dict[str, Any]:
    """The JSON object of one line."""
    always = _ALWAYS[type(line)]
    encoded: dict[str, Any] = {"schema": SCHEMA, "kind": _KIND[type(line)]}
    for name in _names(type(line)):
        value = getattr(line, name)
        if name in always or _is_set(value):
            encoded[name] = _plain(value)
    encoded.update(encoded.pop("extra", {}))
    return encoded


def to_json(line: Run | Case | End) -> str:
    """One line of JSON, without the newline."""
    return json.dumps(encode(line), separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def record_lines(record: Record) -> Iterator[str]:
    """The record's lines of JSON, each with its newline."""
    yield to_json(record.run) + "\n"
    for case in record.cases:
        yield to_json(case) + "\n"
    if record.end is not None:
        yield to_json(record.end) + "\n"


def write_record(record: Record, stream: TextIO) -> None:
    """Append the record to an open text stream."""
    stream.writelines(record_lines(record))


def save_records(records: list[Record], path: str | PathLike[str]) -> None:
    """Write records into a file that appears whole or not at all."""
    save_lines((line for record in records for line in record_lines(record)), path)


def save_lines(lines: Iterable[str], path: str | PathLike[str]) -> None:
    """Write lines into a file that appears whole or not at all, whoever else writes the same one now."""
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("w", encoding="utf-8", newline="\n") as stream:
            stream.writelines(lines)
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _names(kind: type) -> tuple[str, ...]:
    names = _NAMES.get(kind)
    if names is None:
        names = _NAMES[kind] = tuple(each.name for each in fields(kind))
    return names


def _is_set(value: Any) -> bool:
    return value is not None and (type(value) not in _CONTAINERS or bool(value))


_SCALARS = frozenset({str, int, float, bool, type(None)})
_CONTAINERS = frozenset({tuple, list, dict})
_REQUIRED = {Tool: frozenset({"version"}), Device: frozenset({"bus_id"})}


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is tuple or kind is list:
        return [_plain(item) for item in value]
    if is_dataclass(kind):
        required = _REQUIRED.get(kind, frozenset())
        found = {}
        for name in _names(kind):
            item = getattr(value, name)
            if _is_set(item) or name in required:
                found[name] = item if type(item) in _SCALARS else _plain(item)
        return found
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    raise TypeError(f"{kind.__name__} has no place in a record")
