"""What pages, pastes and tools put around every line of a file: quotes, cells, line numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

_QUOTE = re.compile(r"^ {0,3}(?:> ?)+")
_PANE = re.compile(r"^[\u2502\u2503]|\s*[\u2502\u2503]$")
"""The borders of a pane of a terminal that was copied with them."""
_MARKED = re.compile(r"^#[#>](?: (?=[#\s])|$)")
"""How documents that run code (knitr, reprex) mark what it printed; headings go on with a word."""
_CELL = re.compile(r"(?<=[^|\s])\s*\|(?: ?\|)\s*$|^\s*\|(?: ?\|)\s*$")
"""What ends each line of a gist or another page of numbered lines that was saved as a table of one column."""
_TABLE = re.compile(r"# nThread |# Using devices|#\s+Rank |\balgbw\b|# OSU |# Benchmarking ")
_LINE_NUMBER = re.compile(r"\s{0,8}(\d{1,9})[:-](?=\s|\D)")


class Frame:
    """Decides by the first lines of a file what stands around all of them, and takes it off."""

    def __init__(self) -> None:
        self._patterns: list[re.Pattern[str]] | None = None

    def taken_off(self, lines: list[str]) -> list[str]:
        """The next lines without it."""
        if self._patterns is None:
            self._patterns = _around(lines)
        for pattern in self._patterns:
            lines = [pattern.sub("", line) for line in lines]
        return lines


def _around(lines: Sequence[str]) -> list[re.Pattern[str]]:
    found = []
    if _are_numbered(lines):
        found.append(_LINE_NUMBER)
    if sum(line.endswith(("| |", "||")) for line in map(str.rstrip, lines)) * 2 > len(lines):
        found.append(_CELL)
    if any(line[:1] == ">" for line in lines):
        found.append(_QUOTE)
    if sum(line[:1] == line[-1:] == "\u2502" and line.count("\u2502") == 2 for line in lines) * 2 > len(lines):
        found.append(_PANE)
    if any(_MARKED.match(line) and _TABLE.search(line) for line in lines):
        found.append(_MARKED)
    return found


def _are_numbered(lines: Sequence[str]) -> bool:
    """Whether each line stands behind its own number, as `grep -n` prints them; a rank's number comes again."""
    last = seen = 0
    for line in lines[:200]:
        if not line.strip():
            continue
        found = _LINE_NUMBER.match(line)
        if found is None or int(found[1]) <= last:
            return False
        last, seen = int(found[1]), seen + 1
    return seen >= 2
