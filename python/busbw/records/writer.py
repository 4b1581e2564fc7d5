"""Records to JSON Lines: strict JSON, one object a line, fields at their default left out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from operator import attrgetter
from os import PathLike
from pathlib import Path
from typing import Any, TextIO

from busbw.base.files import whole
from busbw.records.model import SCHEMA, Case, Device, End, Rank, Record, Run, Tool

_KIND: dict[type, str] = {Run: "run", Case: "case", End: "end"}
_ALWAYS: dict[type, frozenset[str]] = {
    Run: frozenset({"run", "started", "tool", "library", "ranks", "environment"}),
    Case: frozenset(
        {"run", "case", "collective", "bytes", "placement", "outcome", "time_us", "algbw_GBps", "busbw_GBps"}
    ),
    End: frozenset({"run", "outcome", "cases"}),
}
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def encode(line: Run | Case | End, without: str = "") -> dict[str, Any]:
    """The JSON object of one line; the field `without` keeps its place, empty, for whoever fills it in."""
    always = _ALWAYS[type(line)]
    encoded: dict[str, Any] = {"schema": SCHEMA, "kind": _KIND[type(line)]}
    names, values = _fields(type(line))
    for name, value in zip(names, values(line), strict=True):
        if value is None and name not in always:
            continue
        if name == without:
            encoded[name] = None
        elif type(value) in _SCALARS:
            encoded[name] = value
        elif name in always or type(value) not in _CONTAINERS or value:
            encoded[name] = _plain(value)
    encoded.update(encoded.pop("extra", {}))
    return encoded


def to_json(line: Run | Case | End) -> str:
    """One line of JSON, without the newline."""
    return _ENCODER.encode(encode(line))


def run_to_json(run: Run) -> str:
    """The `run` line as `to_json` gives it, faster: ranks, which runs of one log have in common, are put in as text."""
    encoded = encode(run, without="ranks")
    encoded["ranks"] = []
    # Nothing but the field itself can read `"ranks":[]`: in a string the quotes would be escaped, and what may hold
    # objects of its own (options, extra) follows later.
    return _ENCODER.encode(encoded).replace('"ranks":[]', f'"ranks":[{ranks_to_json(run.ranks)}]', 1)


def ranks_to_json(ranks: Iterable[Rank]) -> str:
    """What stands between the brackets of `ranks`."""
    return ",".join(map(_rank_to_json, ranks))


def _rank_to_json(rank: Rank) -> str:
    if rank.process is not None or rank.thread is not None or rank.cpus is not None:
        return _ENCODER.encode(_plain(rank))
    group = "" if rank.group is None else f',"group":{rank.group}'
    pid = "" if rank.pid is None else f',"pid":{rank.pid}'
    device = "" if rank.device is None else f',"device":{_device_to_json(rank.device)}'
    return f'{{"rank":{rank.rank},"host":{_text_to_json(rank.host)}{group}{pid}{device}}}'


@lru_cache(maxsize=1024)
def _device_to_json(device: Device) -> str:
    return _ENCODER.encode(_plain(device))


@lru_cache(maxsize=1024)
def _text_to_json(text: str) -> str:
    return _ENCODER.encode(text)


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
    with whole(Path(path)) as part, part.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
        stream.writelines(lines)


_Fields = tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]
_FIELDS: dict[type, _Fields] = {}


def _fields(kind: type) -> _Fields:
    """The names of a dataclass's fields, and what gives all their values at once."""
    found = _FIELDS.get(kind)
    if found is None:
        names = tuple(each.name for each in fields(kind))
        found = _FIELDS[kind] = (names, attrgetter(*names))
    return found


_SCALARS = frozenset({str, int, float, bool, type(None)})
_CONTAINERS = frozenset({tuple, list, dict})
_REQUIRED = {Tool: frozenset({"version"}), Device: frozenset({"bus_id"})}


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is tuple or kind is list:
        return [item if type(item) in _SCALARS else _plain(item) for item in value]
    if kind is dict:
        return {key: item if type(item) in _SCALARS else _plain(item) for key, item in value.items()}
    if kind in _FIELDS or is_dataclass(kind):
        required = _REQUIRED.get(kind, frozenset())
        names, values = _fields(kind)
        return {
            name: item if type(item) in _SCALARS else _plain(item)
            for name, item in zip(names, values(value), strict=True)
            if (item is not None and (type(item) not in _CONTAINERS or item)) or name in required
        }
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    raise TypeError(f"{kind.__name__} has no place in a record")
