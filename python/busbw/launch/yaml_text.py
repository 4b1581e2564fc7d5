"""Writes plain values as YAML that people can read: blocks for structure, JSON's quoting for every text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# What any YAML reads as the same text without quotes: no number, no yes or null, no sign of YAML's.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_NOT_TEXT = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


def to_yaml(documents: Sequence[Mapping[str, Any]]) -> str:
    """The documents of one file."""
    return "---\n".join("\n".join(_block(document, 0)) + "\n" for document in documents)


def _block(value: Any, depth: int) -> Iterator[str]:
    indent = "  " * depth
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _entry(f"{indent}{_scalar(key)}:", item, depth + 1)
    else:
        for item in value:
            yield from _item(item, depth)


def _entry(start: str, item: Any, depth: int) -> Iterator[str]:
    if isinstance(item, (Mapping, list, tuple)) and item:
        yield start
        yield from _block(item, depth)
    else:
        yield f"{start} {_scalar(item)}"


def _item(item: Any, depth: int) -> Iterator[str]:
    indent = "  " * depth
    if isinstance(item, Mapping) and item:
        lines = list(_block(item, depth + 1))
        yield f"{indent}- {lines[0].lstrip()}"
        yield from lines[1:]
    else:
        yield f"{indent}- {_scalar(item)}"


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        if _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT:
            return value
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\x7f").replace("\u2028", "\\u2028")
    if isinstance(value, (Mapping, list, tuple)):
        return "{}" if isinstance(value, Mapping) else "[]"
    return json.dumps(value)
