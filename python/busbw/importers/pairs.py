"""Lines that each hold one result as names and values: `size=1048576 time_us=30.5 busbw=60.2`, or with colons."""

from __future__ import annotations

import re

from busbw.importers.columns import MAX_NAME, Column, column_of, is_table
from busbw.importers.draft import Sink
from busbw.importers.flat import FORMAT, MAX_ROWS, Runs

__all__ = ["FORMAT", "STARTS", "Parser"]

STARTS = (
    "busbw",
    "busBw",
    "BusBW",
    "bus_bw",
    "busBW",
    "algbw",
    "algBw",
    "AlgBW",
    "alg_bw",
    "algBW",
    "time_us=",
    "latency_us=",
)
"""One of these names is in every such line."""
MAX_LINE = 1000
_UNIT = r"(?:[kKMGT]?i?B(?:/s|ps)?|[KMG]b(?:it)?/s|[µμu]s|ms|ns|s)(?![\w=:/])"
_VALUE = rf"(?P<value>[-+]?\d[\d.]{{0,30}}(?:e[-+]?\d{{1,3}})? ?{_UNIT}|[-+\w.]{{1,60}})"
_EQUALS = re.compile(rf"(?<![\w.])(?P<name>[A-Za-z]\w{{0,40}}(?:\([\w/]{{1,8}}\))?)={_VALUE}")
_COLONS = re.compile(rf"(?<![\w.])(?P<name>[A-Za-z]\w{{0,40}}(?: ?\([\w/]{{1,8}}\))?): {{0,4}}{_VALUE}")


class Parser:
    """Lines of the same names that follow each other are one table."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._runs: Runs | None = None
        self._names: list[str] = []
        self._rows = 0

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line holds a result."""
        if len(line) > MAX_LINE:
            return False
        for pattern in (_EQUALS, _COLONS):
            cells = self._cells(pattern, line)
            if len(cells) >= 2 and is_table([column for _, column, _ in cells]):
                self._take(cells, line, number_)
                return True
        return False

    def _cells(self, pattern: re.Pattern[str], line: str) -> list[tuple[str, Column, str]]:
        found = []
        for match in pattern.finditer(line):
            column = column_of(match["name"][:MAX_NAME])
            if column is not None:
                found.append((match["name"], column, match["value"]))
        return found

    def _take(self, cells: list[tuple[str, Column, str]], line: str, number_: int) -> None:
        names = [name for name, _, _ in cells]
        if names != self._names or self._rows >= MAX_ROWS:
            self.close()
        if self._runs is None:
            self._runs, self._names, self._rows = Runs(self._sink, names), names, 0
        self._rows += 1
        if not self._runs.add([(column, value) for _, column, value in cells], number_, line):
            self._sink.problem(number_, f"a line of names and values that cannot be read: {line.strip()[:80]!r}")

    def close(self) -> None:
        """The lines end."""
        if self._runs is not None:
            self._runs.close()
        self._runs = None
