"""Tables that nccl-tests and mscclpp-test print: every version since 2.0, read by their own header lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from busbw.base.secrets import shortened
from busbw.importers.collective import asking, decide_collective
from busbw.importers.context import Surroundings
from busbw.importers.draft import Draft, Sink
from busbw.importers.nccl_tests_plain import PlainRows, row_of
from busbw.importers.nccl_tests_preamble import (
    AVERAGE,
    FAILURE,
    MAX_REMEMBERED,
    OUT_OF_BOUNDS,
    RCCL_VERSION,
    WITHOUT_HASH,
    Preamble,
    end_of,
    kind_of,
)  # fmt: skip
from busbw.importers.nccl_tests_rows import (
    BROKEN,
    DEFAULT_LAYOUT,
    FRAGMENT,
    HALF_LAYOUT,
    ROW_START,
    Layout,
    Row,
    Sweep,
    begins,
    cases_of,
    cells_of,
    cut,
    layout_of,
)
from busbw.importers.nccl_tests_runs import PER_RANK, breaks_of, columns_of_row, largest_row, row_fits
from busbw.importers.nccl_tests_usual import UsualRows, usual_rows
from busbw.importers.shape import size_of_list
from busbw.importers.values import number, with_points
from busbw.importers.work_limit import pay_for_rows, rows_affordable

FORMAT = "nccl-tests text"
MSCCLPP_FORMAT = "mscclpp-test"
RCCL_FORMAT = "rccl-tests text"
MAX_ROWS = 20_000
"""Rows of one record: an endless sweep (-N 0) goes on in a further record."""
REST_MISSING = "a row was broken by other output and its rest not found"
NO_FIT = "looks like a row, but does not fit the header"
HEADER_TWICE = "the header comes twice before any row: copies that were started without MPI are mixed here"
ERROR_NOTE = "the error column is the largest deviation, not a count of wrong elements: kept as context.max_error"


class Parser:
    """Reads the lines of one rank's output; tables of one rank follow each other."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.tables = 0
        self._usual: UsualRows | None = None
        self._all_plain = True
        self._preamble = Preamble()
        self._above = ""
        self._layout: Layout | None = None
        self._around: Surroundings | None = None
        self._rows: list[Row] = []
        self._content: list[str] = []
        self._start = 0
        self._fragment: tuple[int, str, str] | None = None
        self._out_of_bounds: int | None = None
        self._average: float | None = None
        self._saw_footer = False
        self._failure: str | None = None
        self._failed_at = 0
        self._notes: list[str] = []
        self._headless = False

    # -- lines ---------------------------------------------------------------------------------------------------

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line belongs to this format."""
        if self._layout is not None and "," in line:
            line = with_points(line)
        if self._layout is not None and self._in_table(self._layout, line, number_):
            return True
        stripped = line.lstrip()
        if stripped.startswith("#"):
            return self._comment(stripped, number_)
        if stripped.startswith(WITHOUT_HASH):
            return self._comment(f"# {stripped}", number_)
        if stripped.startswith("|"):
            return self._pipes(stripped, number_)
        if FAILURE.match(stripped):
            self._failure, self._failed_at = shortened(stripped, 500), number_
            return True
        if rccl := RCCL_VERSION.match(stripped):
            self._preamble.version, self._preamble.is_rccl = rccl[1], True
        return rccl is not None

    def _pipes(self, line: str, number_: int) -> bool:
        """A row or header between pipes, as pages show tables."""
        cells = cells_of(line)
        if self._layout is not None and "".join(cells).strip("-: ") == "":
            return True
        text = " ".join(cell or "none" for cell in cells)
        if self._layout is None or not cells[0].isdecimal():
            return "busbw" in line.lower() and self._comment(f"# {text}", number_)
        return self._in_table(self._layout, text, number_)

    def _in_table(self, layout: Layout, line: str, number_: int) -> bool:
        """Whether the line is a row or the footer of the table that is open."""
        if self._fragment and self._rest_of_row(layout, line, number_):
            return True
        if self._usual and self._usual.match(line):
            self._take(line, None)
            return True
        if ROW_START.match(line):
            return self._row_line(line, number_)
        # The oldest versions print the footer without a #.
        stripped = line.lstrip()
        return stripped.startswith(("Out of bounds", "Avg bus")) and self._footer(stripped)

    def lines_follow(self, lines: list[str], at: int, first: int) -> int:
        """Take lines from `at` on that can be nobody else's, and return how many; `first` is the first one's number."""
        start, end = at, len(lines)
        while at < end:
            line = lines[at]
            if line[:1] == "#":
                if self._layout is None and (past := self._preamble.ranks_follow(lines, at)) > at:
                    at = past
                    continue
                # What a launcher or NCCL put into a comment is not ours to take off.
                if "] NCCL " in line or "]<std" in line:
                    break
                known = self._layout is None and self._preamble.takes_usual(line)
                if not known and not self.feed(line, first + at):
                    break
                at += 1
            else:
                past = self._rows_follow(lines, at)
                if past == at:
                    break
                at = past
        return at - start

    def _rows_follow(self, lines: list[str], at: int) -> int:
        """Take the usual rows that follow each other, and return where they end."""
        if self._layout is None or self._usual is None or self._fragment or not self._all_plain:
            return at
        most = rows_affordable(MAX_ROWS - len(self._content))
        past = self._usual.past(lines, at, min(len(lines), at + most))
        pay_for_rows(past - at)
        self._content += lines[at:past]
        self._split_endless()
        return past

    def interrupted(self, line: str, number_: int) -> None:
        """A message of NCCL came; where it broke into a row, keep the row's beginning."""
        if self._layout is not None and (fragment := FRAGMENT.match(line)):
            self._complain_of_fragment()
            self._fragment = (number_, fragment[0], REST_MISSING)

    def _rest_of_row(self, layout: Layout, line: str, number_: int) -> bool:
        """Whether the line completes the row that another message broke; it may come several lines later."""
        assert self._fragment is not None
        first, begun, why = self._fragment
        # A terminal's width breaks rows within numbers too, a message between them.
        for joined in (f"{begun}{line}", f"{begun} {line}")[:: 1 if why == NO_FIT else -1]:
            if self._cut(joined, layout):
                self._fragment = None
                return self._row_line(joined, number_)
        if ROW_START.match(line):
            self._complain_of_fragment()
        elif why == NO_FIT and begins(f"{begun} {line}", layout):
            self._fragment = (first, f"{begun} {line}", why)
            return True
        return False

    def _complain_of_fragment(self) -> None:
        if self._fragment:
            number_, text, why = self._fragment
            self._sink.problem(number_, f"{why}: {shortened(text.strip(), 160)!r}")
        self._fragment = None

    def _row_line(self, line: str, number_: int) -> bool:
        layout = self._layout
        assert layout is not None
        if row := self._cut(line, layout):
            self._take(line, row)
        elif (broken := BROKEN.match(line)) or begins(line, layout):
            self._complain_of_fragment()
            self._fragment = (number_, broken[0], REST_MISSING) if broken else (number_, line, NO_FIT)
        else:
            self._sink.problem(number_, f"{NO_FIT}: {shortened(line.strip(), 80)!r}")
        return True

    def _take(self, line: str, row: Row | None) -> None:
        """Keep a row; a usual one comes without being cut and stays so while all others are usual too."""
        assert self._layout is not None
        pay_for_rows(1)
        if row is not None and self._all_plain:
            self._all_plain = False
            self._rows = [row_of(each, self._layout) for each in self._content]
        if not self._all_plain:
            self._rows.append(row or row_of(line, self._layout))
        self._content.append(line)
        self._split_endless()

    def _split_endless(self) -> None:
        if len(self._content) >= MAX_ROWS:
            self._notes.append(f"the sweep is longer than {MAX_ROWS} rows and goes on in the next record")
            self._emit(goes_on=True)

    def _comment(self, stripped: str, number_: int) -> bool:
        if self._preamble.takes_rank(stripped):
            return True
        # What is remembered stays small, however long the lines of a hostile file are.
        kind, match = kind_of(stripped) if len(stripped) <= MAX_REMEMBERED else kind_of.__wrapped__(stripped)
        if match is not None:
            _TAKERS[kind](self, match, number_)
            return True
        if kind == "header":
            layout = layout_of(stripped, self._above)
            if layout is not None:
                self._start_table(layout, number_)
            return layout is not None
        if kind == "above":
            self._above = stripped
        return kind in ("above", "silent") or (kind == "footer" and self._layout is not None and self._footer(stripped))

    def _footer(self, stripped: str) -> bool:
        if bounds := OUT_OF_BOUNDS.match(stripped):
            self._out_of_bounds = int(bounds[1])
            self._saw_footer = True
            if self._preamble.is_mscclpp:
                self._emit()
            return True
        if average := AVERAGE.match(stripped):
            self._average = number(average[1])
            self._saw_footer = True
            self._emit()
            return True
        return False

    # -- before the table ----------------------------------------------------------------------------------------

    def _new_preamble(self, number_: int) -> None:
        """A line that starts a program's output ends the one before it."""
        self._end()
        self._preamble = Preamble(line=number_)

    def _version(self, match: re.Match[str], number_: int) -> None:
        self._new_preamble(number_)
        self._preamble.version = match[1]
        self._preamble.library_code = int(match[3]) if match[3] else None

    def _compiled(self, match: re.Match[str], number_: int) -> None:
        self._preamble.line = self._preamble.line or number_

    def _starting(self, match: re.Match[str], number_: int) -> None:
        if self._preamble.is_empty is False or self._layout is not None:
            self._new_preamble(number_)
        self._preamble.program = match[1]

    def _parameters(self, match: re.Match[str], number_: int) -> None:
        if self._layout is not None or not self._preamble.is_empty:
            self._new_preamble(number_)
        self._preamble.parameters(match)
        self._preamble.line = self._preamble.line or number_

    # -- the table -----------------------------------------------------------------------------------------------

    def _start_table(self, layout: Layout, number_: int) -> None:
        if self._layout is not None and self._content:
            self._emit()
        elif self._layout is not None:
            self._notes.append(HEADER_TWICE)
        self._layout = layout
        self._headless = False
        self._usual = None if self._preamble.is_mscclpp else usual_rows(layout)
        self._all_plain = True
        self._start = number_
        self._around = self._sink.sweep_starts()
        if "type" not in layout.lead:
            self._preamble.is_mscclpp = True

    def without_header(self, line: str, number_: int) -> bool:
        """Take a row of 13 columns whose header is not in the file, and say so."""
        layout = {13: DEFAULT_LAYOUT, 9: HALF_LAYOUT}.get(len(line.split()))
        if self._layout is not None or layout is None or self._cut(line, layout) is None:
            return False
        self._start_table(layout, number_)
        self._headless = True
        self._notes.append("no header line: the columns were taken as those of nccl-tests since 2.13")
        return self._row_line(line, number_)

    def _cut(self, line: str, layout: Layout) -> Row | None:
        return cut(line, layout, one_placement=self._preamble.is_mscclpp)

    # -- the end -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """The file ends."""
        if not self._end() and self._failure:
            self._sink.problem(self._failed_at, self._failure)

    def _end(self) -> bool:
        """End the output of the program that is open, and say whether there was one."""
        is_open = self._layout is not None or bool(self._preamble.line and not self._preamble.is_empty)
        if self._layout is not None:
            self._emit()
        elif is_open:
            self._sink.problem(self._preamble.line, self._failure or "a benchmark starts here, but no results follow")
            self._preamble, self._failure = Preamble(), None
        return is_open

    @property
    def waits_for(self) -> Preamble | Layout | None:
        """What is open: a table, whose rows follow, or what was said before one; None where nothing is."""
        return self._layout or (None if self._preamble.is_empty else self._preamble)

    @property
    def is_resting(self) -> bool:
        """Whether nothing is open: what follows is read as after any other table."""
        kept = (self._layout, self._fragment, self._failure, self._above, self._notes, self._content)
        return not any(kept) and self._preamble == Preamble()

    def _emit(self, *, goes_on: bool = False) -> None:
        layout, around = self._layout, self._around
        assert layout is not None and around is not None
        self._complain_of_fragment()
        self.tables += bool(self._content)
        if self._content:
            for draft in self._drafts(layout, around):
                self._sink.sweep_ends(draft, around)
        else:
            self._sink.problem(self._start, self._failure or "a table starts here, but holds no rows")
        self._rows, self._content, self._notes = [], [], []
        self._all_plain = True
        if goes_on:
            return
        self._layout = self._around = None
        self._preamble = Preamble()
        self._out_of_bounds = self._average = self._failure = None
        self._saw_footer = False
        self._above = ""

    def _drafts(self, layout: Layout, around: Surroundings) -> Iterator[Draft]:
        """The runs of the table: more than one where rows of several collectives or jobs stand below one header."""
        breaks = []
        if not self._preamble.program:
            rows = None if self._all_plain else self._rows
            breaks = breaks_of(layout, self._content, rows, alone=self._headless and self._preamble.is_empty)
        for start, end in pairwise([0, *breaks, len(self._content)]):
            yield self._draft(layout, around, start, end)

    def _draft(self, layout: Layout, around: Surroundings, start: int, end: int) -> Draft:
        before = self._preamble
        notes = list(self._notes)
        ranks = tuple(before.ranks or ())
        options = before.options or {}
        size = size_of_list(ranks, options, notes)
        content = self._content[start:end]
        rows = [] if self._all_plain else self._rows[start:end]
        largest = largest_row(layout, content, rows)
        columns = columns_of_row(layout, largest, size, known=before.program is not None)
        collective = decide_collective(before.program, around, columns, self._sink.collective, notes)
        draft = Draft(
            format=MSCCLPP_FORMAT if before.is_mscclpp else RCCL_FORMAT if before.is_rccl else FORMAT,
            tool=before.tool,
            line=self._start + start if start else self._start,
            collective=collective, rows=len(content), rows_paid=True, content=content, ranks=ranks, size=size,
            counted=columns.ranks if collective in PER_RANK else None,
            library=before.library, program=before.program, options=dict(options), notes=notes,
            threads_per_process=options.get("nthreads"),
            devices_per_thread=options.get("ngpus"),
            processes=before.processes,
            end=end_of(self._failure, self._out_of_bounds, self._average, saw_footer=self._saw_footer),
            asking=None if collective else asking(columns),
        )  # fmt: skip
        if collective:
            sweep = Sweep(layout, collective, self._preamble.options or {}, self._preamble.is_mscclpp)
            draft.figures = PlainRows(content, sweep) if self._all_plain else None
            draft.cases = [] if self._all_plain else cases_of(rows, sweep)
            if any("error" in group for group in layout.groups):
                notes.append(ERROR_NOTE)
            if size and not row_fits(layout, largest, collective, size):
                notes.append(f"bus bandwidth over algorithm bandwidth is not what {size} ranks of {collective} give")
        return draft


_TAKERS: dict[str, Callable[[Parser, re.Match[str], int], None]] = {
    "parameters": Parser._parameters, "version": Parser._version, "starting": Parser._starting,
    "compiled": Parser._compiled,
}  # fmt: skip
