"""Lines that hold one result each: names and values, figures with units, an object; or a name and value a line."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from busbw.base.secrets import shortened
from busbw.importers.cells import split_unit
from busbw.importers.collective import named_in
from busbw.importers.columns import FIGURES, MAX_NAME, TIMES, Column, column_of, is_table
from busbw.importers.draft import Sink
from busbw.importers.flat import FORMAT, MAX_ROWS, Runs
from busbw.importers.flat_json import cells_of_object, rows_in
from busbw.importers.names import named
from busbw.importers.titles import ranks_in

__all__ = ["FORMAT", "STARTS", "Parser"]

STARTS = (
    *("busbw", "busBw", "BusBW", "bus_bw", "busBW", "BusBw", "Busbw", "Bus BW", "bus bw"),
    *("Bus bandwidth", "bus bandwidth", "Bus Bandwidth"),
    *("algbw", "algBw", "AlgBW", "alg_bw", "algBW", "AlgBw", "Algbw", "Algo BW"),
    *("time_us=", "latency_us=", "avg="),
)
"""One of these names is in every such line."""
MAX_LINE = 1000
MAX_OBJECT = 4000
MOST_FIGURES = 12
"""Figures with units that a line of one result has."""
_UNIT = r"(?:[kKMGT]?i?B(?:/s|ps)?|[KMG]b(?:it)?/s|[KMG]bps|[µμu]s|ms|ns|s)(?![\w=/]|:\S)"
_VALUE = rf"(?P<value>[-+]?\d[\d.]{{0,30}}(?:e[-+]?\d{{1,3}})? ?{_UNIT}|[-+\w.]{{1,60}}(?![-+\w.]|: ))"
_EQUALS = re.compile(rf"(?<![\w.])(?P<name>[A-Za-z]\w{{0,40}}(?:\([\w/]{{1,8}}\))?) ?= {{0,12}}\"?{_VALUE}")
_COLONS = re.compile(rf"(?<![\w.])(?P<name>[A-Za-z]\w{{0,40}}(?: ?\([\w/]{{1,8}}\))?): {{0,12}}{_VALUE}")
_WORDS_BEFORE = re.compile(r"(?:^|[;,|({]) *((?:[A-Za-z]\w{0,20} ){1,3})$")
_OBJECT = re.compile(r"[{].*[}]")
_FREE = re.compile(rf"(?<![\w.])(?P<value>\d[\d.]{{0,20}}) ?(?P<unit>{_UNIT})")
_RATE_BEFORE = re.compile(r"(?i)\b(alg(?:o|orithm)?[ _]?(?:bw|bandwidth)|bus[ _]?(?:bw|bandwidth))[\W_]{0,6}$")
_RATE_BEHIND = re.compile(r"(?i)^\W{0,3}(alg(?:o|orithm)?[ _]?(?:bw|bandwidth)|bus[ _]?(?:bw|bandwidth))\b")
_OTHER_BEFORE = re.compile(r"(?i)\b(?:min|max|std|p99|p95|p90|best|worst|total|elapsed)\W{0,4}$")
_LIST = re.compile(r"(?i)\b(?:gpus?|devices|ranks)\W{1,3}\[(\d{1,5}(?:, ?\d{1,5}){1,4096})\]")
_ALONE = re.compile(
    r"[\s|*-]{0,8}(?P<name>[A-Za-z][\w -]{0,40}?(?: ?\([\w/ ]{1,20}\))?)(?:\s*[:=]\s{0,8}|\s{1,40}\|\s{1,8})"
    rf"(?P<value>[-+]?\d[\d.,]{{0,30}}(?:e[-+]?\d{{1,3}})?(?: ?{_UNIT})?)\s*$"
)
"""A name, a value and nothing else."""

_TITLE = re.compile(r"\s*(?:#{1,6} |[-=*#>\[]{2,40} ?)(?P<words>[A-Za-z][^\n]{2,100}?)[:\s]*[-=*#<\]]{0,40}\s*$")
"""A line that stands above a part and names what follows."""
_SIZE_IN_TITLE = re.compile(
    r"(?i)(?<![\w.,])(\d[\d,]{0,15} ?bytes)\b"
    r"|(?:[(@]|\b(?:sizes?|message|msg|tensor|buffer|payload)\W{1,3}(?:of )?"
    r"|\b(?:all_?-?reduce|all_?-?gather|reduce_?-?scatter|all_?-?to_?-?all|broadcast)\W{1,3}) ?"
    r"(\d{1,6}(?:\.\d{1,3})? ?[KMG]i?B)(?![\w/])"
)
"""A size that is one of messages: memory of GPUs is named in titles too."""

Cells = Sequence[tuple[Column, str]]


class Parser:
    """Lines of the same names that follow each other are one table."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._runs: Runs | None = None
        self._names: list[str] = []
        self._rows = 0
        self._block: dict[str, tuple[Column, str]] = {}
        self._block_at = 0
        self._shared: dict[str, tuple[Column, str]] = {}

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line holds a result."""
        if self._in_block(line, number_):
            return True
        if "{" in line and len(line) <= MAX_OBJECT and self._object(line, number_):
            return True
        if len(line) > MAX_LINE:
            return False
        for sign, pattern in (("=", _EQUALS), (":", _COLONS)):
            cells = self._cells(pattern, line) if sign in line else []
            if len(cells) >= 2 and is_table([column for column, _ in cells]):
                self._take([*cells, *_of_line(line, cells)], line, number_)
                return True
        cells = _free(line)
        if cells:
            self._take([*cells, *_of_line(line, cells)], line, number_)
            return True
        return False

    def _cells(self, pattern: re.Pattern[str], line: str) -> list[tuple[Column, str]]:
        found = []
        for match in pattern.finditer(line):
            name = match["name"][:MAX_NAME]
            # "Bus bandwidth: ..." between other names: all words since the last sign, where they name something.
            words = _WORDS_BEFORE.search(line, max(0, match.start() - 60), match.start())
            column = (column_of(f"{words[1]}{name}") if words else None) or column_of(name)
            if column is None and (unit := split_unit(match["value"])[1]) in TIMES:
                column = column_of(f"{name} ({unit})")  # "Avg: 2.70 ms"
            if column is not None and column.field != "aside":
                found.append((column, match["value"]))
        return found

    def _object(self, line: str, number_: int) -> bool:
        """A line with an object of JSON, or a dictionary as Python prints it, behind some words."""
        found = _OBJECT.search(line)
        value = _value_of(found[0]) if found and line[: found.start()].strip(" =:") else None
        if not isinstance(value, dict):
            return False
        taken = False
        for row in rows_in(value):
            self._take(cells_of_object(row), line, number_)
            taken = True
        return taken

    def _take(self, cells: Cells, line: str, number_: int) -> None:
        names = [f"{column.field} {column.unit} {column.placement} {column.library}" for column, _ in cells]
        if names != self._names or self._rows >= MAX_ROWS:
            self._end_runs()
        if self._runs is None:
            self._runs, self._names, self._rows = Runs(self._sink), names, 0
        self._rows += 1
        if not self._runs.add(cells, number_, line):
            self._sink.problem(
                number_, f"a line of names and values that cannot be read: {shortened(line.strip(), 80)!r}"
            )

    # -- a name a line -----------------------------------------------------------------------------------------------

    def _in_block(self, line: str, number_: int) -> bool:
        """Whether the line is one of several that hold a name and a value each, with a bandwidth among them."""
        alone = _alone(line)
        if alone is None or alone[0] in self._block:
            self._end_block()
        if alone is None:
            return False
        name, column, value = alone
        if not self._block:
            if column.field not in ("algbw", "busbw"):
                return False
            self._block_at = number_
            self._block = self._from_above()
        self._block[name] = (column, value)
        return True

    def _from_above(self) -> dict[str, tuple[Column, str]]:
        """Names and values right above a bandwidth; the ranks above the title of a part hold for all its blocks."""
        found: dict[str, tuple[Column, str]] = {}
        beyond = False
        for above in reversed(self._sink.above()):
            before = _alone(above)
            if before is None and above.endswith(":") and len(above) < 80 and not beyond:
                beyond, self._shared = True, {}
                continue
            if before is None and (titled := _titled(above)) is not None:
                found.update(titled)
                break
            if before is None or before[0] in found:
                break
            found[before[0]] = before[1:]
            if beyond and before[1].field == "ranks":
                self._shared[before[0]] = before[1:]
        return {**self._shared, **found}

    def _end_block(self) -> None:
        cells, self._block = _of_one(list(self._block.values())), {}
        if not cells:
            return
        if not is_table([column for column, _ in cells]):
            self._sink.problem(self._block_at, "a bandwidth without a size beside it: nothing was imported of it")
            return
        self._take(cells, " ".join(f"{column.field}={value}" for column, value in cells), self._block_at)

    def _end_runs(self) -> None:
        if self._runs is not None:
            self._runs.close()
        self._runs = None

    def close(self) -> None:
        """The lines end."""
        self._end_block()
        self._end_runs()


def _titled(line: str) -> dict[str, tuple[Column, str]] | None:
    """The size, and the ranks, that the title of a part names; None where it is none or names no size."""
    title = _TITLE.match(line)
    sizes = ["".join(each) for each in _SIZE_IN_TITLE.findall(title["words"])] if title else []
    if title is None or len(sizes) != 1:
        return None
    ranks = ranks_in(title["words"])
    told = {"size": (Column("bytes"), sizes[0].replace(",", "").replace("bytes", "").strip())}
    return {**told, "ranks": (Column("ranks"), str(ranks))} if ranks else told


def _of_one(cells: Cells) -> list[tuple[Column, str]]:
    """The cells of one result, of which some name its collective: `time per all_reduce`, `bus bandwidth`."""
    named = {column.collective for column, _ in cells if column.collective is not None}
    if len(named) != 1 or any(column.field == "collective" for column, _ in cells):
        return list(cells)
    return [(Column("collective"), named.pop()), *((replace(column, collective=None), cell) for column, cell in cells)]


def _value_of(text: str) -> Any:
    """The value of a text in JSON, or in Python's form without any names; None where it is neither."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    if "'" not in text:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that Python does not know
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None


def _alone(line: str) -> tuple[str, Column, str] | None:
    found = _ALONE.match(line) if len(line) < 200 else None
    if found is None:
        return None
    name = " ".join(found["name"].split("(")[0].split()).lower()
    column = column_of(found["name"][:MAX_NAME]) or _world(name)
    return (name, column, found["value"].replace(",", "")) if column is not None else None


def _world(name: str) -> Column | None:
    return Column("ranks") if name in ("world", "gpus", "number of ranks", "num gpus", "pes", "world size") else None


def _free(line: str) -> list[tuple[Column, str]]:
    """A size, a time and named bandwidths that a line holds with units, in any words; else nothing."""
    found: dict[str, list[tuple[Column, str]]] = {}
    matches = list(islice(_FREE.finditer(line), MOST_FIGURES + 1))
    for match in matches if 2 <= len(matches) <= MOST_FIGURES else ():
        before, behind = line[max(0, match.start() - 40) : match.start()], line[match.end() : match.end() + 40]
        kind = column_of(f"time ({match['unit']})") or column_of(f"busbw ({match['unit']})")
        if kind is None:
            kind = column_of(f"size ({match['unit']})")
        if kind is None or (kind.field == "time" and _OTHER_BEFORE.search(before)):
            continue
        if kind.field == "busbw":
            name = _RATE_BEFORE.search(before) or _RATE_BEHIND.match(behind)
            said = named(name[1], "") if name else None
            if said is None:
                continue
            kind = Column(said.field, kind.unit)
        found.setdefault(kind.field, []).append((kind, match["value"]))
    one = {field: each[0] for field, each in found.items() if len(each) == 1}
    sound = "bytes" in one and len(one) == len(found) and set(one) & {"algbw", "busbw"}
    return list(one.values()) if sound else []


def _of_line(line: str, cells: Cells) -> list[tuple[Column, str]]:
    """The collective and the ranks that the words of a line name, where no cell of it does."""
    fields = {column.field for column, _ in cells}
    told: Mapping[str, str | None] = {
        "collective": None if "collective" in fields or "op" in fields else named_in(line, all_words=False),
        "ranks": None if fields & {"ranks", "gpus", "nodes"} else _ranks(line),
    }
    return [(Column(field), value) for field, value in told.items() if value and field not in FIGURES]


def _ranks(line: str) -> str | None:
    listed = _LIST.search(line)
    told = len(listed[1].split(",")) if listed else ranks_in(line)
    return str(told) if told else None
