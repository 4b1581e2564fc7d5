"""Tables of results in text, however they are drawn: CSV, pipes, boxes, columns of blanks, wikis."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from busbw.base.effort import EFFORT
from busbw.base.secrets import shortened
from busbw.importers.across import Across
from busbw.importers.by_values import below_a_title, sizes_and_names, with_values
from busbw.importers.cells import BOX, MAX_CELLS, MAX_HEADER, RULE, cells_of, header_cells, mark_of
from busbw.importers.columns import FIGURES, Column, column_of, is_table, with_placements
from busbw.importers.draft import Sink
from busbw.importers.flat import FORMAT, MAX_ROWS, Runs, decimal_commas
from busbw.importers.prefixes import before_anchor
from busbw.importers.work_limit import PER_CASE, PER_CELLS

__all__ = ["FORMAT", "STARTS", "Parser"]

STARTS = (
    *("algbw", "busbw", "algBw", "busBw", "BusBW", "AlgBW", "bus_bw", "alg_bw", "algBW", "busBW", "algoBW", "busbW"),
    *("Bus BW", "Alg BW", "bus bw", "alg bw", "andwidth", "atency", "lat_", "time_", "time (", "Time (", "_ms", "_us"),
    *("(us)", "(GB/s)", "(ms)", "out-of-place", "Size | ", "size | ", "Collective | ", "collective,", "{|", "| | "),
    *("ALGBW", "BUSBW", "ALG_BW", "BUS_BW", "LATENCY", "TIME_", "BANDWIDTH"),
)
"""What the header of such a table, or the row above it, holds."""

_BEHIND = re.compile(r"[A-Za-z]\w{0,20}=\S{0,40}|(?i:ok|pass|passed|fail|failed)")
_NUMBER = re.compile(r"[-+]?\d")
_UNITS = re.compile(r"\s*(?:\([^()]{1,12}\)\s*){2,}")
_ONE_BLANK = re.compile(r"# ?\w+(?: \w+){2,12}")
"""The header of a file of data for gnuplot."""
_WIKI_START = re.compile(r"\s*\{\|")
_AT_SIZE = re.compile(r"(?:@|\bat) ?(\d{1,6}(?:\.\d{1,3})? ?[KMG]i?B)(?![\w/])")
_PLACES = re.compile(r"(?i)out[- _]?of[- _]?place")


class Parser:
    """A header of known columns, then rows of as many cells; they become runs when the table ends."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._runs: Runs | None = None
        self._columns: list[Column | None] = []
        self._mark = ","
        self._above: list[str] = []
        self._head = ""
        self._rows: list[tuple[int, list[str], str]] = []
        self._wiki: list[str] | None = None
        self._across = Across(sink)
        self._apart: tuple[bool, ...] = ()
        """Which cells of the last table's rows are numbers."""
        self._strays = 0
        self._size = ""
        """The size of all rows, where no column has one."""

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line belongs to this format."""
        if self._wiki is not None or _WIKI_START.match(line):
            return self._in_wiki(line, number_)
        if not line.isascii():
            line = line.translate(BOX)
        return self._line(line, number_)

    def _line(self, line: str, number_: int) -> bool:
        if self._runs is not None:
            if RULE.match(line):
                return True
            cells = self._cells(line)
            if not self._mark and not self._rows and _UNITS.fullmatch(line):
                self._take_units(line)
                return True
            if self._is_row(cells):
                self._row(cells, line, number_)
                return True
            if line.strip() or self._rows:
                self.close()
        elif self._apart and line.strip():
            self._strays += self._form(self._cells(line)) == self._apart
        if self._across.feed(line, number_):
            return True
        return self._header(line, number_)

    def _cells(self, line: str) -> list[str]:
        cells = cells_of(line, self._mark)
        # The index that pandas prints, and a mark of the row in front.
        if (
            not self._mark
            and len(cells) == len(self._columns) + 1
            and cells[0]
            in (
                str(len(self._rows)),
                str(len(self._rows) + 1),
            )
        ):
            return cells[1:]
        # What a script prints behind the last figure, such as rc=0.
        if not self._mark and len(cells) == len(self._columns) + 1 and _BEHIND.fullmatch(cells[-1]):
            return cells[:-1]
        return cells

    def _is_row(self, cells: Sequence[str]) -> bool:
        if len(cells) != len(self._columns):
            return False
        return bool(self._mark) or any(_NUMBER.match(cell) for cell in cells)

    def _row(self, cells: list[str], line: str, number_: int) -> None:
        if not self._rows and self._is_units(cells):
            return
        EFFORT.left -= PER_CELLS + PER_CASE + EFFORT.per_case
        self._rows.append((number_, cells, line))
        if len(self._rows) >= MAX_ROWS:
            self._flush()

    def _is_units(self, cells: Sequence[str]) -> bool:
        """Whether a row below the header holds the units, as nccl-tests' does, or the types, as polars' does."""
        if any(_NUMBER.match(cell) for cell in cells):
            return False
        for at, cell in enumerate(cells):
            if cell.strip("()[] "):
                self._set_unit(at, cell.strip("()[] "))
        return True

    def _take_units(self, line: str) -> None:
        """Units below the names they belong to, where some columns have none: by their place in the line."""
        names = list(re.finditer(r"\S+", self._head))
        if len(names) != len(self._columns):
            return
        for unit in re.finditer(r"\(([^()]{1,12})\)", line):
            at = max(
                range(len(names)),
                key=lambda at: min(names[at].end(), unit.end()) - max(names[at].start(), unit.start()),
            )
            self._set_unit(at, unit[1])

    def _set_unit(self, at: int, unit: str) -> None:
        column = self._columns[at]
        if column is not None and not column.unit and column.field in FIGURES:
            named = column_of(f"{column.field} ({unit})")
            if named is not None and named.unit:
                self._columns[at] = replace(column, unit=named.unit)

    def _flush(self) -> None:
        assert self._runs is not None
        runs = self._runs
        # What becomes of each pays for it once more.
        EFFORT.left += (PER_CELLS + PER_CASE + EFFORT.per_case) * len(self._rows)
        runs.mark = self._mark
        runs.commas = self._mark != "," and decimal_commas([cells for _, cells, _ in self._rows])
        if None in self._columns:
            self._columns = with_values(self._columns, [cells for _, cells, _ in self._rows])
        for number_, cells, line in self._rows:
            known = [(column, cell) for column, cell in zip(self._columns, cells, strict=True) if column and cell]
            known += [(Column("bytes"), self._size)] if self._size else []
            size = next((cell for column, cell in known if column.field == "bytes"), "")
            if not runs.add(known, number_, line) and not size.replace(" ", "").isalpha():
                self._sink.problem(number_, f"a row of the table that cannot be read: {shortened(line.strip(), 80)!r}")
        self._rows = []

    def _header(self, line: str, number_: int) -> bool:
        text = line.lstrip()
        if len(line) > MAX_HEADER or text[:1] in "{[<":
            return False
        commented = text.startswith("#") and ("," in text or _ONE_BLANK.fullmatch(text))
        text = text.lstrip("# ") if commented else line
        mark = mark_of(text)
        ways = []
        for cells in header_cells(text, mark):
            columns = [column_of(cell) for cell in cells] if mark else _among_blanks(cells)
            if columns is not None:
                ways.append((cells, columns))
        for cells, columns in sorted(ways, key=lambda way: way[1].count(None)):
            if len(cells) > MAX_CELLS or len(cells) < (2 if mark else 3):
                continue
            if len(cells) == 2 and mark != "|" and None in columns:
                continue
            above = self._above if len(self._above) == len(cells) else []
            # To look at the words above takes time: not for each line of a log that has a comma.
            titled = below_a_title(cells, columns, self._words()) if mark and sizes_and_names(columns) else None
            known = titled or columns
            if is_table(known) and _is_header(cells, known, mark):
                if before_anchor(line) is not None:
                    return False  # nccl-tests' own header behind a prefix that is still to be learned
                self._columns = titled or with_placements(columns, above)
                self._mark = mark
                self._head, self._size = line, ""
                self._rows = []
                self._runs = Runs(self._sink, cells)
                return True
            if mark and self._of_one_size(cells, columns):
                self._mark, self._head, self._rows = mark, line, []
                self._runs = Runs(self._sink, cells)
                return True
            if self._says_no_size(cells, columns, mark, number_):
                return True
        if _PLACES.search(text):
            self._above = cells_of(text, mark) if mark else []
        return False

    def _words(self) -> list[str]:
        """The heading and the words above, the nearest last."""
        return [self._sink.sweep_starts().heading or "", *self._sink.above()]

    def _of_one_size(self, cells: Sequence[str], columns: Sequence[Column | None]) -> bool:
        """Whether rows are numbers of ranks, and the words above name the one size of them all: `@ 256 MB`."""
        fields = {column.field for column in columns if column}
        named = [column for column in columns if column and column.field in FIGURES]
        if "ranks" not in fields or "bytes" in fields or not named or any(_NUMBER.match(cell) for cell in cells):
            return False
        told = {size for text in self._words() for size in _AT_SIZE.findall(text)}
        if len(told) != 1 or not all(column.unit for column in named):
            return False
        self._columns, self._size = list(columns), told.pop()
        return True

    def _says_no_size(self, cells: Sequence[str], columns: Sequence[Column | None], mark: str, number_: int) -> bool:
        """A table of bandwidths whose rows are no sizes: said, since it looks like results."""
        fields = {column.field for column in columns if column}
        if mark != "|" and not (
            {"algbw", "busbw"} <= fields and "bytes" not in fields and _is_header(cells, columns, mark)
        ):
            return False
        if (
            not fields & {"algbw", "busbw"}
            or any(_NUMBER.match(cell) for cell in cells)
            or any("@" in cell for cell in cells)
        ):
            return False
        self._sink.problem(
            number_, f"a table of bandwidths without a column of sizes: {shortened(' | '.join(cells), 100)!r}"
        )
        return True

    # -- MediaWiki ---------------------------------------------------------------------------------------------------

    def _in_wiki(self, line: str, number_: int) -> bool:
        """Lines of {| ... |}: a cell each or many, and a row ends where the next begins."""
        text = line.strip()
        if self._wiki is None:
            self._wiki = []
            return True
        ends = text.startswith("|}")
        if ends or text.startswith(("|-", "|+")):
            row, self._wiki = self._wiki, None if ends else []
            if row:
                self._line("|" + "|".join(cell.replace("|", " ") for cell in row) + "|", number_)
            if ends:
                self.close()
            return True
        if text[:1] in "!|" and len(self._wiki) < MAX_CELLS:
            self._wiki += [cell.strip() for cell in re.split(r"!!|\|\|", text[1:])]
        return True

    def _form(self, cells: Sequence[str]) -> tuple[bool, ...]:
        return tuple(_NUMBER.match(cell) is not None for cell in cells)

    def close(self) -> None:
        """The table ends."""
        if self._strays:
            self._sink.problem(
                None,
                f"{self._strays} lines look like rows of a table that ended before them: other lines stand between",
            )
        self._strays = 0
        if self._runs is not None:
            self._apart = self._form(self._rows[-1][1]) if self._rows else ()
            self._flush()
            self._runs.close()
        self._runs = None
        self._above = []
        self._across.close()


def _among_blanks(cells: Sequence[str]) -> list[Column | None] | None:
    """The columns of cells that blanks part; None as soon as too few of them are known for a header."""
    columns, unknown = list[Column | None](), 0
    for cell in cells:
        column = column_of(cell)
        columns.append(column)
        if column is None:
            unknown += 1
            if unknown * 10 > 4 * len(cells):
                return None
    return columns


def _is_header(cells: Sequence[str], columns: Sequence[Column | None], mark: str) -> bool:
    """Names and no figures; where blanks part the cells, most names must be known, since prose has blanks too."""
    if any(
        _NUMBER.match(cell) and (column is None or not column.ranks)
        for cell, column in zip(cells, columns, strict=True)
    ):
        return False
    return bool(mark) or sum(column is not None for column in columns) * 10 >= 6 * len(cells)
