"""Families of errors: words, what they mean, and what mends it; read from rows of a table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Family:
    """Words of an error, what it means, and what mends it."""

    words: re.Pattern[str]
    meaning: str
    cure: str
    broad: bool = False
    """Whether the words stand in errors of other kinds too: they tell nothing where the kind is known."""
    weak: bool = False
    """Whether they tell no more than a kind of exception: what the form of its sentence says stands before."""


def read(rows: str) -> Iterator[Family]:
    r"""Rows of `words ; meaning ; cure`, those of broad words after ~, of weak ones after ~~; a row goes on "
    r"behind a backslash at its end."""
    for row in rows.replace("\\\n", "").strip().splitlines():
        words, meaning, cure = re.split(r"\s+;\s+", row.strip().lstrip("~"), maxsplit=2)
        yield Family(re.compile(words), meaning, cure, broad=row.startswith("~"), weak=row.startswith("~~"))
