"""The values of a JSON text, one document or many behind each other, bounded and never raising."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_SPACE = re.compile(r"[\s,]*")
MAX_VALUES = 2_000_000


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= 20 else float("nan")


DECODER = json.JSONDecoder(parse_int=_integer)


def json_values(text: str) -> Iterator[tuple[int, Any]]:
    """(line, value) of every document of the text; the first thing that is no JSON ends it."""
    at, line, counted = 0, 1, 0
    for _ in range(MAX_VALUES):
        space = _SPACE.match(text, at)
        at = space.end() if space else at
        if at >= len(text):
            return
        line += text.count("\n", counted, at)
        counted = at
        try:
            value, at = DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        yield line, value


def whole_number(value: Any) -> int | None:
    """A whole number that is not negative, also as text or as 8.0."""
    if value is None:
        return None
    if isinstance(value, str) and value.strip().isdecimal() and len(value.strip()) <= 20:
        return int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else None
