"""What makes one finding the cause of others: names, and words of both."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Link:
    """A cause by its name and words of its title or evidence; its sequels; words that all evidence of those has."""

    cause: str
    words: re.Pattern[str]
    sequels: frozenset[str]
    only: re.Pattern[str] = re.compile("")
    first: bool = False
    """Whether the cause must stand before its sequel, where one log has both."""
    never: re.Pattern[str] = re.compile(r"(?!)")
    """Words of the sequel's title by which it has a cause of its own."""
