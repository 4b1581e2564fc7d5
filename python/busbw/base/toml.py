"""TOML, with a sentence where a file is none or this Python cannot read it."""

from __future__ import annotations

import math
import sys
from importlib import import_module
from typing import Any

from busbw.base.bounds import bounded
from busbw.base.errors import PackageError, UserError

DEEPEST = 64
"""Parts of a dotted key: the reader's time grows with the square of their number."""


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """The document; `name` is what complaints call it."""
    try:
        reader = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    except ModuleNotFoundError:
        raise PackageError("TOML in Python 3.10", "tomli") from None
    for number, line in enumerate(text.splitlines(), start=1):
        if line.partition("=")[0].count(".") > DEEPEST and not line.lstrip().startswith("#"):
            raise UserError(f"{name}:{number}: a key of more than {DEEPEST} parts is no key of ours")
    try:
        with bounded(name, len(text)):
            document: dict[str, Any] = reader.loads(text, parse_float=_finite)
    except _NotFiniteError as problem:
        raise UserError(f"{name}: {problem}; give a number that is") from None
    except (ValueError, RecursionError) as problem:
        raise UserError(f"{name} is no TOML: {problem}") from None
    return document


class _NotFiniteError(ValueError):
    """A figure that TOML allows and no file of ours does."""


def _finite(text: str) -> float:
    """Infinity, not-a-number and what is too large for a float are no figure of any file of ours."""
    value = float(text)
    if not math.isfinite(value):
        raise _NotFiniteError(f"{text} is no finite number")
    return value
