"""Snapshots to JSON values and back, by the types of their fields; what does not fit is refused by name."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar

from busbw.base.errors import UserError

Value = TypeVar("Value")
MAX_ITEMS = 1_000_000
MAX_INT = 1 << 63


def encode(value: Any) -> Any:
    """A JSON value; fields with their default values are left out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            each.name: encode(found)
            for each in dataclasses.fields(value)
            if (found := getattr(value, each.name)) != _default(each)
        }
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    return value


def decode(wanted: type[Value], raw: Any, where: str) -> Value:
    """The value of that type; UserError names the field that does not fit."""
    return typing.cast(Value, _decode(wanted, raw, where))


def _decode(wanted: Any, raw: Any, where: str) -> Any:
    if isinstance(wanted, types.UnionType) or typing.get_origin(wanted) is typing.Union:
        return _decode_optional(wanted, raw, where)
    if dataclasses.is_dataclass(wanted):
        return _decode_dataclass(typing.cast(Any, wanted), raw, where)
    if (origin := typing.get_origin(wanted)) is not None:
        return _decode_tuple(wanted, raw, where) if origin is tuple else _decode_mapping(wanted, raw, where)
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return _decode_enum(wanted, raw, where)
    return _decode_plain(wanted, raw, where)


def _decode_mapping(wanted: Any, raw: Any, where: str) -> dict[str, Any]:
    if not isinstance(raw, dict) or len(raw) > MAX_ITEMS:
        raise _misfit(where, "an object", raw)
    inner = typing.get_args(wanted)[1]
    return {key: _decode(inner, item, f"{where}.{key}") for key, item in raw.items()}


def _decode_plain(wanted: Any, raw: Any, where: str) -> Any:
    if type(raw) is int and abs(raw) > MAX_INT:
        raise _misfit(where, "a number of at most 64 bits", f"one of {raw.bit_length()} bits")
    if wanted is float and isinstance(raw, int) and not isinstance(raw, bool):
        return float(raw)
    if type(raw) is not wanted:
        raise _misfit(where, getattr(wanted, "__name__", str(wanted)), raw)
    return raw


def _decode_optional(wanted: Any, raw: Any, where: str) -> Any:
    kinds = typing.get_args(wanted)
    if raw is None and type(None) in kinds:
        return None
    return _decode(next(kind for kind in kinds if kind is not type(None)), raw, where)


def _decode_dataclass(wanted: Any, raw: Any, where: str) -> Any:
    if not isinstance(raw, dict):
        raise _misfit(where, "an object", raw)
    hints = _hints(wanted)
    unknown = sorted(set(raw) - set(hints))
    if unknown:
        raise UserError(f"{where}: '{unknown[0][:40]}' is no field of {wanted.__name__}; was it made by a newer busbw?")
    try:
        return wanted(**{name: _decode(hints[name], item, f"{where}.{name}") for name, item in raw.items()})
    except TypeError:
        missing = [each.name for each in dataclasses.fields(wanted) if each.name not in raw and _default(each) is _NONE]
        raise UserError(f"{where}: {', '.join(missing)} of {wanted.__name__} is missing") from None


def _decode_tuple(wanted: Any, raw: Any, where: str) -> tuple[Any, ...]:
    inner = typing.get_args(wanted)
    if not isinstance(raw, list) or len(raw) > MAX_ITEMS:
        raise _misfit(where, "a list", raw)
    if len(inner) == 2 and inner[1] is Ellipsis:
        return tuple(_decode(inner[0], item, f"{where}[{i}]") for i, item in enumerate(raw))
    if len(inner) != len(raw):
        raise _misfit(where, f"{len(inner)} items", raw)
    return tuple(_decode(kind, item, f"{where}[{i}]") for i, (kind, item) in enumerate(zip(inner, raw, strict=True)))


def _decode_enum(wanted: type[Enum], raw: Any, where: str) -> Enum:
    for member in wanted:
        if member.value == raw:
            return member
    raise _misfit(where, f"one of {', '.join(str(each.value) for each in wanted)}", raw)


_NONE = object()


def _default(each: dataclasses.Field[Any]) -> Any:
    if each.default is not dataclasses.MISSING:
        return each.default
    return each.default_factory() if each.default_factory is not dataclasses.MISSING else _NONE


@cache
def _hints(wanted: Any) -> dict[str, Any]:
    return typing.get_type_hints(wanted)


def _misfit(where: str, wanted: str, raw: Any) -> UserError:
    return UserError(f"{where}: {wanted} was expected, not {_shown(raw)!r}")


def _shown(raw: Any) -> str:
    """A value in few characters; a long list is not spelled out for that."""
    return f"{type(raw).__name__} of {len(raw)}" if isinstance(raw, (list, dict)) else str(raw)[:40]
