"""TOML, with a sentence where a file is none or this Python cannot read it."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from busbw.base.errors import UserError


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """The document; `name` is what complaints call it."""
    try:
        reader = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    except ModuleNotFoundError:
        raise UserError("Python 3.10 reads TOML with the package tomli: pip install tomli") from None
    try:
        document: dict[str, Any] = reader.loads(text)
    except (ValueError, RecursionError) as problem:
        raise UserError(f"{name} is no TOML: {problem}") from None
    return document
