"""Tables whose columns are sizes: a row for each collective or library, one figure a cell."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.base.secrets import shortened
from busbw.importers.cells import RULE, cells_of, mark_of
from busbw.importers.columns import FIGURES, Column, column_of
from busbw.importers.draft import Sink
from busbw.importers.flat import Runs
from busbw.importers.values import collective_named, size_in_bytes
from busbw.records import Collective

_SIZE = re.compile(r"@? ?(\d{1,6}(?:\.\d{1,3})? ?(?:[KMGT]i?B?|B|bytes))(?![a-z/])(?P<rest>.{0,60})", re.IGNORECASE)
_CAPTION = re.compile(
    r"(?i)\b(?P<name>bus[ _]?(?:bw|bandwidth)|alg(?:o|orithm)?[ _]?(?:bw|bandwidth)|latency|times?)"
    r"\b[^|]{0,40}?[\s(\[,]"
    r"(?P<unit>[GM]i?B/s|[GM]i?Bps|[GM]b(?:it)?/s|[GM]bps|us|µs|ms|microseconds|milliseconds)(?![A-Za-z])"
)
_LIBRARY = re.compile(r"[\w.+-]{2,30}")


class Across:
    """Reads such tables; what the figures are must be said by a header, a row or the words above."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._sizes: list[tuple[int, str, Column | None] | None] = []
        self._mark = ""
        self._runs: Runs | None = None
        self._metric: Column | None = None
        self._complained = False
        self._turned: dict[int, tuple[int, dict[str, tuple[Column, str]]]] = {}
        """By size: the figures of rows that are figures, time above bandwidth."""

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line belongs to such a table."""
        if self._runs is None:
            return self._header(line, number_)
        if RULE.match(line):
            return True
        cells = cells_of(line, self._mark)
        if len(cells) != len(self._sizes) or not line.strip():
            self.close()
            return False
        self._row(cells, line, number_)
        return True

    def _header(self, line: str, number_: int) -> bool:
        mark = mark_of(line) if len(line) < 4000 else ""
        if not mark:
            return False
        cells = cells_of(line, mark)
        if not 2 <= len(cells) <= 100 or cells[0][:1].isdigit():
            return False
        sizes = [_size_of(cell) for cell in cells]
        if sizes[0] is not None or not all(sizes[1:]) or (len(cells) == 2 and "@" not in cells[1]):
            return False
        self._runs = Runs(self._sink)
        self._sizes, self._mark, self._complained = sizes, mark, False
        around = self._sink.sweep_starts()
        self._metric = next(
            (
                found
                for text in [cells[0], *reversed(self._sink.above()), around.heading or ""]
                if (found := metric_in(text))
            ),
            None,
        )
        return True

    def _row(self, cells: Sequence[str], line: str, number_: int) -> None:
        runs = self._runs
        assert runs is not None
        metric = metric_in(cells[0]) or self._metric
        collective, library = whose(cells[0])
        for place, cell in zip(self._sizes, cells, strict=True):
            if place is None or not any(each.isdigit() for each in cell):
                continue
            size, _, own = place
            column = own or metric
            if column is None:
                if not self._complained:
                    self._sink.problem(
                        number_,
                        "columns are sizes, but nothing names the unit of the figures, as `busbw (GB/s)` does",
                    )
                self._complained = True
                return
            if collective is None and library is None and own is None and metric_in(cells[0]):
                self._turned.setdefault(size, (number_, {}))[1].setdefault(column.field, (column, cell))
                continue
            known = [(Column("bytes"), str(size)), (Column(column.field, column.unit, None, library, collective), cell)]
            if not runs.add(known, number_, f"{shortened(line, 200)} {size}"):
                self._sink.problem(number_, f"{cell[:40]!r} is no figure")

    def close(self) -> None:
        """The table ends."""
        if self._runs is not None:
            for size, (number_, figures) in self._turned.items():
                self._runs.add([(Column("bytes"), str(size)), *figures.values()], number_, f"{size} {figures}"[:500])
            self._runs.close()
        self._runs = None
        self._turned = {}


def _size_of(cell: str) -> tuple[int, str, Column | None] | None:
    found = _SIZE.fullmatch(cell.strip("* `"))
    if found is None:
        return None
    size = size_in_bytes(found[1])
    rest = found["rest"].strip()
    column = column_of(rest) if rest else None
    if size is None or (rest and (column is None or column.field not in FIGURES)):
        return None
    return size, rest, column


def metric_in(text: str) -> Column | None:
    """The figure and its unit that a caption, heading or label names."""
    found = _CAPTION.search(text)
    column = column_of(f"{found['name']} ({found['unit']})") if found else None
    return column if column is not None and column.field in FIGURES else None


def whose(label: str) -> tuple[Collective | None, str | None]:
    """(collective, library) that the first cell of a row names."""
    words = [word for word in re.split(r"[\s,/]+", re.sub(r"\(.*?\)", "", label).strip("* `")) if word]
    kept = [word for word in words if not _CAPTION.match(f"{word} (us)")]
    for at, word in enumerate(kept):
        collective = collective_named(word)
        if collective:
            others = kept[:at] + kept[at + 1 :]
            return collective, others[0] if len(others) == 1 and _LIBRARY.fullmatch(others[0]) else None
    return None, kept[0] if len(kept) == 1 and _LIBRARY.fullmatch(kept[0]) and collective_named(
        kept[0]
    ) is None else None
