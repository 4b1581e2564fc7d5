"""One JSON object to one Run, Case or End, with every field checked: the input may come from anywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, TypeVar, get_args

from busbw.base.quantities import measurable
from busbw.base.secrets import hide, hide_variable
from busbw.records.model import (
    SCHEMA,
    Average,
    Case,
    CaseOutcome,
    Collective,
    ConfSetting,
    Device,
    DeviceKind,
    End,
    EndOutcome,
    Interval,
    Lack,
    Library,
    Placement,
    Rank,
    Run,
    Source,
    Tool,
)  # fmt: skip

Check = Callable[[Any], Any]
Line = Run | Case | End
Made = TypeVar("Made")

UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""By version: the step from it to the next one. Version 1 is the first, so there is none yet."""


class InvalidLineError(ValueError):
    """A line that is not a record's; the message completes "FILE:LINE: "."""


def decode(raw: Any) -> Line:
    """The line as its class; raises InvalidLineError with what is wrong."""
    if not isinstance(raw, dict):
        raise InvalidLineError("not a JSON object")
    line = _upgraded(raw)
    kind = line.get("kind")
    if kind == "case":
        return _make(Case, _CASE, line)
    if kind == "run":
        return _make(Run, _RUN, line)
    if kind == "end":
        return _make(End, _END, line)
    raise InvalidLineError(f"kind is {_shown(kind)}, not run, case or end")


def _upgraded(raw: dict[str, Any]) -> dict[str, Any]:
    version = raw.get("schema")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise InvalidLineError(f"no schema version (schema is {_shown(version)}): this is no busbw record")
    if version > SCHEMA:
        raise InvalidLineError(f"schema version {version} is newer than this busbw reads ({SCHEMA}): use a newer busbw")
    while raw["schema"] < SCHEMA:
        raw = UPGRADES[raw["schema"]](raw)
    return raw


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidLineError(f"{_shown(value)} is no integer")
    return value


def _count(value: Any) -> int:
    if _integer(value) < 0:
        raise InvalidLineError(f"{_shown(value)} is negative")
    return int(value)


def _ranks(value: Any) -> int:
    if _integer(value) < 1:
        raise InvalidLineError(f"{_shown(value)} is no number of ranks: a collective needs at least one")
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidLineError(f"{_shown(value)} is no number")
    try:
        number = float(value)
    except OverflowError:
        raise InvalidLineError("a number is too large") from None
    figure = measurable(number)
    if figure is None:
        raise InvalidLineError("a number is too large" if isfinite(number) else "a number is not finite")
    return figure


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidLineError(f"{_shown(value)} is no text")
    return value


def _identifier(value: Any) -> str:
    if not _text(value):
        raise InvalidLineError("an empty identifier")
    return str(value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidLineError(f"{_shown(value)} is neither true nor false")
    return value


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidLineError(f"{_shown(value)} is no object")
    return value


def _free(value: Any) -> Mapping[str, Any]:
    """An object of any shape whose numbers can be written again: 1e400 is read as infinite, which JSON has not."""
    rest: list[Any] = [_mapping(value)]
    while rest:
        each = rest.pop()
        if isinstance(each, float) and not isfinite(each):
            raise InvalidLineError("a number is not finite")
        rest += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
    return dict(value)


def _environment(value: Any) -> Mapping[str, str]:
    # A record of somebody else may hold what ours leave out.
    return {key: hide_variable(key, _text(item)) for key, item in _mapping(value).items()}


def _conf_setting(**given: Any) -> ConfSetting:
    return ConfSetting(**{**given, "value": hide_variable(given["name"], given["value"])})


def _public(value: Any) -> str | None:
    return None if value is None else hide(_text(value))


def _items(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidLineError(f"{_shown(value)} is no list")
    return value


def _optional(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def _one_of(choices: Any) -> Check:
    allowed = frozenset(get_args(choices))

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise InvalidLineError(f"{_shown(value)} is none of {', '.join(sorted(allowed))}")
        return value

    return check


def _list_of(check: Check) -> Check:
    return lambda value: tuple(check(item) for item in _items(value))


def _pair(value: Any) -> tuple[float, float]:
    if len(_items(value)) != 2:
        raise InvalidLineError(f"{_shown(value)} is no pair [low, high]")
    return _number(value[0]), _number(value[1])


def _ranges(value: Any) -> Mapping[str, tuple[float, float]]:
    return {key: _pair(item) for key, item in _mapping(value).items()}


def _numbers_by_name(value: Any) -> Mapping[str, float]:
    return {key: _number(item) for key, item in _mapping(value).items()}


class Fields:
    """The keys of one class of line, each with its check and whether it must be there."""

    def __init__(self, required: dict[str, Check], optional: dict[str, Check], *, keep_unknown: bool = False) -> None:
        self.required = frozenset(required)
        self.checks = {**required, **optional}
        self.keep_unknown = keep_unknown


def _make(made: Callable[..., Made], fields: Fields, raw: Mapping[str, Any]) -> Made:
    arguments: dict[str, Any] = {}
    unknown: dict[str, Any] = {}
    for key, value in raw.items():
        check = fields.checks.get(key)
        if check is None:
            unknown[key] = value
            continue
        try:
            arguments[key] = check(value)
        except InvalidLineError as problem:
            raise InvalidLineError(f"{key}: {problem}") from None
    missing = fields.required - arguments.keys()
    if missing:
        raise InvalidLineError(f"{', '.join(sorted(missing))} missing")
    if fields.keep_unknown:
        unknown.pop("schema", None)
        unknown.pop("kind", None)
        if unknown:
            arguments["extra"] = unknown
    return made(**arguments)


def _object(made: Callable[..., Any], fields: Fields) -> Check:
    return lambda value: _make(made, fields, _mapping(value))


_maybe_text = _optional(_text)
_maybe_integer = _optional(_integer)
_maybe_number = _optional(_number)
_samples = _list_of(_list_of(_number))
_source = _object(
    Source,
    Fields({"file": _text, "format": _text},
           {"line": _optional(_count), "heading": _public, "command": _public, "url": _public}),
)  # fmt: skip
_tool = _object(Tool, Fields({"name": _text}, {"version": _maybe_text}))
_lack = _object(Lack, Fields({"feature": _text, "reason": _text}, {}))
_library = _object(
    Library,
    Fields({"name": _text}, {
        "path": _maybe_text, "version": _maybe_text, "version_code": _maybe_integer, "sha256": _maybe_text,
        "cuda_version": _maybe_text, "lacks": _list_of(_lack),
    }),
)  # fmt: skip
_device = _object(
    Device, Fields({"kind": _one_of(DeviceKind), "index": _count, "name": _text}, {"bus_id": _maybe_text})
)
_rank = _object(
    Rank,
    Fields({"rank": _count, "host": _text},
           {"group": _optional(_count), "process": _optional(_count), "thread": _optional(_count),
            "pid": _optional(_count), "device": _optional(_device), "cpus": _maybe_text}),
)  # fmt: skip

_conf = _object(
    _conf_setting,
    Fields({"name": _text, "value": _text, "file": _public}, {"line": _optional(_count), "in_force": _boolean}),
)


def _median(value: Any) -> str:
    if value != "median":
        raise InvalidLineError(f"{_shown(value)} is not median")
    return "median"


_interval = _object(
    Interval,
    Fields({"of": _median, "level": _number, "median_us": _number, "low_us": _number, "high_us": _number,
            "batches": _count, "reached": _boolean}, {}),
)  # fmt: skip

_RUN = Fields(
    {"run": _identifier, "started": _maybe_text, "tool": _tool, "library": _optional(_library),
     "ranks": _list_of(_rank), "environment": _environment},
    {"program": _maybe_text, "arguments": _list_of(_text), "options": _free, "launcher": _maybe_text,
     "processes": _optional(_count), "threads_per_process": _optional(_count),
     "devices_per_thread": _optional(_count),
     "machine": _maybe_text, "system": _environment,
     "conf": _list_of(_conf),
     "tags": _list_of(_text), "notes": _list_of(_text), "source": _source},
    keep_unknown=True,
)  # fmt: skip
_CASE = Fields(
    {"run": _identifier, "case": _count, "collective": _one_of(Collective), "bytes": _count,
     "placement": _optional(_one_of(Placement)), "outcome": _one_of(CaseOutcome), "time_us": _maybe_number,
     "algbw_GBps": _maybe_number, "busbw_GBps": _maybe_number},
    {"cycle": _count, "type": _maybe_text, "op": _maybe_text, "root": _maybe_integer, "ranks": _optional(_ranks),
     "requested_bytes": _maybe_integer, "count": _maybe_integer, "reason": _maybe_text, "cpu_time_us": _maybe_number,
     "range": _ranges, "average": _optional(_one_of(Average)), "wrong": _maybe_number, "checks": _maybe_integer,
     "iterations": _maybe_integer, "aggregated": _maybe_integer, "graph_launches": _maybe_integer,
     "batches_us": _samples, "iterations_us": _samples, "interval": _optional(_interval), "algorithm": _maybe_text,
     "variant": _maybe_text, "timestamp": _maybe_text, "context": _free, "beside": _free,
     "conversion": _maybe_text, "best": _optional(_boolean), "source": _source},
    keep_unknown=True,
)  # fmt: skip
_END = Fields(
    {"run": _identifier, "outcome": _one_of(EndOutcome), "cases": _count},
    {"finished": _maybe_text, "reason": _maybe_text, "exit_code": _maybe_integer, "out_of_bounds": _count,
     "average_busbw_GBps": _maybe_number, "library_sha256": _maybe_text, "phases_s": _numbers_by_name,
     "strangers": _numbers_by_name},
    keep_unknown=True,
)  # fmt: skip
