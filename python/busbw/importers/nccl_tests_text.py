"""Tables that nccl-tests and mscclpp-test print: every version since 2.0, read by their own header lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from busbw.importers.context import Surroundings
from busbw.importers.draft import Draft, Sink, ranks_fit
from busbw.importers.nccl_tests_plain import PlainRows, matcher, row_of
from busbw.importers.nccl_tests_rows import DEFAULT_LAYOUT, OPS, Layout, Row, Sweep, cases_of, cut, layout_of
from busbw.importers.values import ELEMENT_BYTES, collective_named, number, version_of_code
from busbw.records import Collective, Device, End, Library, Rank, Tool

FORMAT = "nccl-tests text"
MSCCLPP_FORMAT = "mscclpp-test"
MAX_ROWS = 20_000
"""Rows of one record: an endless sweep (-N 0) goes on in a further record."""
MAX_RANKS = 100_000
MAX_REMEMBERED = 400
ERROR_NOTE = "the error column is the largest deviation, not a count of wrong elements: kept as context.max_error"

_PARAMETERS = re.compile(
    r"#\s*(?:nThreads?:? (?P<nthreads>\d+) nGpus:? (?P<ngpus>\d+) )?minBytes:? (?P<minbytes>\d+) "
    r"maxBytes:? (?P<maxbytes>\d+) step: (?P<step>\d+)\((?P<kind>factor|bytes)\) warmup iters: (?P<warmup_iters>\d+) "
    r"iters: (?P<iters>\d+)(?: agg iters: (?P<agg_iters>\d+))?(?: validation: (?P<check>\d+))?"
    r"(?: graph: (?P<cudagraph>\d+))?(?: kernel num: (?P<kernel_num>\d+))?(?: unalign: (?P<unalign>\d+))?"
)
_RANK = re.compile(
    r"#\s+Rank\s+(?P<rank>\d{1,7})(?:\s+Group\s+(?P<group>\d{1,7}))?(?:\s+Pid\s+(?P<pid>\d{1,10}))?"
    r"\s+on\s+(?P<host>\S{1,255})\s+device\s+(?P<device>\d{1,5})\s+\[(?P<bus>[0-9a-fA-Fx:.]{1,20})\]\s*(?P<name>.{0,200})"
)
_VERSION = re.compile(r"#\s*nccl-tests version (\S{1,40})(?: nccl-headers=(\d{1,9}) nccl-library=(\d{1,9}))?")
_COMPILED = re.compile(r"#\s*NCCL Tests compiled with NCCL (\S{1,40})")
_STARTING = re.compile(r"#\s*Collective test starting: (\S{1,100})")
_OUT_OF_BOUNDS = re.compile(r"\s*#?\s*Out of bounds values\s*: (\d{1,15})")
_AVERAGE = re.compile(r"\s*#?\s*Avg bus bandwidth\s*: (\S{1,40})")
_FAILURE = re.compile(r"\S+: Test (?:NCCL|CUDA) failure .{1,500}|\S+: Test timeout .{1,200}")
_ROW_START = re.compile(r"#?\s*\d{1,20}\s+\d{1,20}(?:\s|$)")
_FRAGMENT = re.compile(r"\s*\d{1,20}\s+\d{1,20}\s[^\n]{1,200}?(?=[A-Za-z][\w.-]{0,100}:\d{1,10}:\d{1,10} \[)")

_BROKEN = re.compile(
    rf"\s*\d{{1,20}}\s+\d{{1,20}}\s+(?:{'|'.join(ELEMENT_BYTES)})\s+(?:(?:{'|'.join(sorted(OPS))}|none)\s+)?-?\d{{1,7}}"
    r"(?=[A-Za-z#\[<(])"
)
"""A row that other output broke before its first figure: alltoallv's own summary lands there, and warnings."""
_SILENT = ("# Using devices", "#        (B)", "# Reducing maxBytes", "# Setting up", "# Initializing MSCCL")


@dataclass
class _Preamble:
    """What was said before the table."""

    line: int = 0
    options: dict[str, Any] | None = None
    program: str | None = None
    version: str | None = None
    library_code: int | None = None
    ranks: list[Rank] | None = None
    is_mscclpp: bool = False

    @property
    def is_empty(self) -> bool:
        return self.options is None and not self.ranks


class Parser:
    """Reads the lines of one rank's output; tables of one rank follow each other."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.tables = 0
        self._plain: Callable[[str], object] | None = None
        self._all_plain = True
        self._preamble = _Preamble()
        self._above = ""
        self._layout: Layout | None = None
        self._around: Surroundings | None = None
        self._rows: list[Row] = []
        self._content: list[str] = []
        self._start = 0
        self._fragment: tuple[int, str] | None = None
        self._out_of_bounds: int | None = None
        self._average: float | None = None
        self._saw_footer = False
        self._failure: str | None = None
        self._notes: list[str] = []

    # -- lines ---------------------------------------------------------------------------------------------------

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line belongs to this format."""
        if self._layout is not None and self._in_table(self._layout, line, number_):
            return True
        stripped = line.lstrip()
        if stripped.startswith("#"):
            return self._comment(stripped, number_)
        if _FAILURE.match(stripped):
            self._failure = stripped[:500]
            return True
        return False

    def _in_table(self, layout: Layout, line: str, number_: int) -> bool:
        """Whether the line is a row or the footer of the table that is open."""
        if self._fragment and self._rest_of_row(layout, line, number_):
            return True
        if self._plain and self._plain(line):
            self._take(line, None)
            return True
        if _ROW_START.match(line):
            return self._row_line(line, number_)
        # The oldest versions print the footer without a #.
        stripped = line.lstrip()
        return stripped.startswith(("Out of bounds", "Avg bus")) and self._footer(stripped)

    def rows_follow(self, lines: list[str], at: int) -> int:
        """Take the usual rows that follow each other from `at` on, and return how many: faster than one by one."""
        plain = self._plain
        if self._layout is None or plain is None or self._fragment or not self._all_plain:
            return 0
        end = min(len(lines), at + MAX_ROWS - len(self._content))
        past = at
        while past < end and plain(lines[past]):
            past += 1
        self._content += lines[at:past]
        self._split_endless()
        return past - at

    def interrupted(self, line: str, number_: int) -> None:
        """A message of NCCL came; where it broke into a row, keep the row's beginning."""
        if self._layout is not None:
            fragment = _FRAGMENT.match(line)
            if fragment:
                self._complain_of_fragment()
                self._fragment = (number_, fragment[0])

    def _rest_of_row(self, layout: Layout, line: str, number_: int) -> bool:
        """Whether the line completes the row that another message broke; it may come several lines later."""
        assert self._fragment is not None
        joined = f"{self._fragment[1]} {line}"
        if self._cut(joined, layout):
            self._fragment = None
            return self._row_line(joined, number_)
        if _ROW_START.match(line):
            self._complain_of_fragment()
        return False

    def _complain_of_fragment(self) -> None:
        if self._fragment:
            number_, text = self._fragment
            self._sink.problem(number_, f"a row was broken by other output and its rest not found: {text.strip()!r}")
        self._fragment = None

    def _row_line(self, line: str, number_: int) -> bool:
        layout = self._layout
        assert layout is not None
        row = self._cut(line, layout)
        if row is None:
            broken = _BROKEN.match(line)
            if broken:
                self._fragment = (number_, broken[0])
                return True
            self._sink.problem(number_, f"looks like a row, but does not fit the header: {line.strip()[:80]!r}")
            return True
        self._take(line, row)
        return True

    def _take(self, line: str, row: Row | None) -> None:
        """Keep a row; a usual one comes without being cut and stays so while all others are usual too."""
        assert self._layout is not None
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
        # What is remembered stays small, however long the lines of a hostile file are.
        kind, match = _kind_of(stripped) if len(stripped) <= MAX_REMEMBERED else _kind_of.__wrapped__(stripped)
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
        bounds = _OUT_OF_BOUNDS.match(stripped)
        if bounds:
            self._out_of_bounds = int(bounds[1])
            self._saw_footer = True
            if self._preamble.is_mscclpp:
                self._emit()
            return True
        average = _AVERAGE.match(stripped)
        if average:
            self._average = number(average[1])
            self._saw_footer = True
            self._emit()
            return True
        return False

    # -- before the table ----------------------------------------------------------------------------------------

    def _new_preamble(self, number_: int) -> None:
        """A line that starts a program's output ends the table before it."""
        if self._layout is not None:
            self._emit()
        elif not self._preamble.is_empty and self._preamble.line:
            self._complain_of_no_rows()
        self._preamble = _Preamble(line=number_)

    def _complain_of_no_rows(self) -> None:
        self._sink.problem(self._preamble.line, self._failure or "a benchmark starts here, but no results follow")
        self._failure = None

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
        found = match.groupdict()
        step, kind = found.pop("step"), found.pop("kind")
        self._preamble.options = {name: int(value) for name, value in found.items() if value and len(value) <= 20}
        if len(step) <= 20:
            self._preamble.options["stepfactor" if kind == "factor" else "stepbytes"] = int(step)
        self._preamble.is_mscclpp = found["kernel_num"] is not None
        self._preamble.line = self._preamble.line or number_

    def _rank(self, match: re.Match[str], number_: int) -> None:
        if self._preamble.ranks is None:
            self._preamble.ranks = []
        if len(self._preamble.ranks) >= MAX_RANKS:
            return
        self._preamble.ranks.append(_rank_of(*match.groups()))

    # -- the table -----------------------------------------------------------------------------------------------

    def _start_table(self, layout: Layout, number_: int) -> None:
        if self._layout is not None and self._content:
            self._emit()
        elif self._layout is not None:
            self._notes.append(
                "the header comes twice before any row: copies that were started without MPI are mixed here"
            )
        self._layout = layout
        self._plain = None if self._preamble.is_mscclpp else matcher(layout)
        self._all_plain = True
        self._start = number_
        self._around = self._sink.sweep_starts()
        if "type" not in layout.lead:
            self._preamble.is_mscclpp = True

    def without_header(self, line: str, number_: int) -> bool:
        """Take a row of 13 columns whose header is not in the file, and say so."""
        if self._layout is not None or len(line.split()) != 13 or self._cut(line, DEFAULT_LAYOUT) is None:
            return False
        self._start_table(DEFAULT_LAYOUT, number_)
        self._notes.append("no header line: the columns were taken as those of nccl-tests since 2.13")
        return self._row_line(line, number_)

    def _cut(self, line: str, layout: Layout) -> Row | None:
        return cut(line, layout, one_placement=self._preamble.is_mscclpp)

    # -- the end -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """The file ends."""
        if self._layout is not None:
            self._emit()
        elif not self._preamble.is_empty and self._preamble.line:
            self._complain_of_no_rows()
            self._preamble = _Preamble()

    def _emit(self, *, goes_on: bool = False) -> None:
        layout, around = self._layout, self._around
        assert layout is not None and around is not None
        self._complain_of_fragment()
        if self._content:
            self.tables += 1
            self._sink.sweep_ends(self._draft(layout, around), around)
        else:
            self._sink.problem(self._start, self._failure or "a table starts here, but holds no rows")
        self._rows, self._content, self._notes = [], [], []
        self._all_plain = True
        if goes_on:
            return
        self._layout = self._around = None
        self._preamble = _Preamble()
        self._out_of_bounds = self._average = self._failure = None
        self._saw_footer = False
        self._above = ""

    def _draft(self, layout: Layout, around: Surroundings) -> Draft:
        before = self._preamble
        notes = self._notes
        collective = self._collective(layout, around, notes)
        ranks = tuple(before.ranks or ())
        size = _communicator_size(ranks, notes)
        options = before.options or {}
        draft = Draft(
            format=MSCCLPP_FORMAT if before.is_mscclpp else FORMAT,
            tool=Tool("mscclpp-test" if before.is_mscclpp else "nccl-tests", before.version),
            line=self._start,
            collective=collective,
            rows=len(self._content),
            content=self._content,
            ranks=ranks,
            size=size,
            library=_library(before),
            program=before.program,
            options=options,
            notes=notes,
            threads_per_process=options.get("nthreads"),
            devices_per_thread=options.get("ngpus"),
            processes=_processes(ranks, options),
            end=self._end(),
        )
        if collective:
            sweep = Sweep(layout, collective, options, before.is_mscclpp)
            if self._all_plain:
                draft.figures = PlainRows(self._content, sweep)
            else:
                draft.cases = cases_of(self._rows, sweep)
            if any("error" in group for group in layout.groups):
                notes.append(ERROR_NOTE)
            figures = (dict(zip(layout.groups[0], group, strict=False)) for group in self._last_row(layout).groups)
            if size and not all(
                ranks_fit(collective, number(each["algbw"]), number(each["busbw"]), size) for each in figures
            ):
                notes.append(f"bus bandwidth over algorithm bandwidth is not what {size} ranks of {collective} give")
        return draft

    def _collective(self, layout: Layout, around: Surroundings, notes: list[str]) -> Collective | None:
        program = self._preamble.program
        if program:
            return collective_named(re.sub(r"_perf(_mpi)?(\.exe)?$", "", program))
        if around.command and around.command.collective:
            return around.command.collective
        named = _named_in(around.heading)
        if named:
            return named
        if self._sink.collective:
            notes.append(f"nothing names the collective: {self._sink.collective}, as told")
            return self._sink.collective
        row = self._last_row(layout)
        lead = dict(zip(layout.lead, row.lead, strict=True))
        element = ELEMENT_BYTES.get(lead.get("type", ""), 0)
        whole_buffer = element and int(row.lead[0]) == int(row.lead[1]) * element
        if whole_buffer and lead.get("op") in OPS and lead.get("root", "-1") == "-1":
            notes.append(
                "nothing names the collective: taken as all_reduce, the one that has such size, count and root"
            )
            return "all_reduce"
        return None

    def _last_row(self, layout: Layout) -> Row:
        return row_of(self._content[-1], layout) if self._all_plain else self._rows[-1]

    def _end(self) -> End:
        if self._failure:
            outcome = "timed_out" if "Test timeout" in self._failure else "failed"
            return End("", outcome, 0, reason=self._failure, out_of_bounds=self._out_of_bounds)  # type: ignore[arg-type]
        if not self._saw_footer:
            return End("", "interrupted", 0, reason="the log holds no closing line of this table")
        reason = f"{self._out_of_bounds} checks failed" if self._out_of_bounds else None
        return End("", "failed" if reason else "completed", 0, reason=reason, out_of_bounds=self._out_of_bounds,
                   average_busbw_GBps=self._average)  # fmt: skip


def _named_in(text: str | None) -> Collective | None:
    for word in re.findall(r"[A-Za-z_]{6,20}", text or ""):
        found = collective_named(word)
        if found and found not in ("reduce", "gather", "scatter"):
            return found
    return None


_BEFORE_TABLE = (
    ("rank", _RANK), ("parameters", _PARAMETERS), ("version", _VERSION), ("starting", _STARTING),
    ("compiled", _COMPILED),
)  # fmt: skip
_TAKERS: dict[str, Callable[[Parser, re.Match[str], int], None]] = {
    "rank": Parser._rank, "parameters": Parser._parameters, "version": Parser._version, "starting": Parser._starting,
    "compiled": Parser._compiled,
}  # fmt: skip


@lru_cache(maxsize=4096)
def _kind_of(comment: str) -> tuple[str, re.Match[str] | None]:
    """What a comment line is, and what it says; the sweeps of one log repeat most of theirs."""
    if "busbw" in comment and "algbw" in comment:
        return "header", None
    if "out-of-place" in comment or "in-place" in comment:
        return "above", None
    if _OUT_OF_BOUNDS.match(comment) or _AVERAGE.match(comment):
        return "footer", None
    if comment.startswith(_SILENT) or comment.rstrip() == "#":
        return "silent", None
    for kind, pattern in _BEFORE_TABLE:
        match = pattern.match(comment)
        if match:
            return kind, match
    return "other", None


@lru_cache(maxsize=4096)
def _rank_of(rank: str, group: str | None, pid: str | None, host: str, device: str, bus: str, name: str) -> Rank:  # noqa: PLR0913, PLR0917 - the groups of _RANK
    """The rank that a line names; the sweeps of one job name the same ones."""
    name = name.strip()
    kind: Literal["cpu", "gpu"] = "cpu" if "CPU" in name.split() else "gpu"
    return Rank(
        rank=int(rank),
        host=host,
        group=int(group) if group else None,
        pid=int(pid) if pid else None,
        device=Device(kind, int(device), name, bus),
    )


def _communicator_size(ranks: tuple[Rank, ...], notes: list[str]) -> int | None:
    if not ranks:
        return None
    first = sum(1 for rank in ranks if rank.rank == 0)
    if first > 1:
        notes.append(f"{first} ranks call themselves 0: {first} copies that were started without MPI are mixed here")
        return max(rank.rank for rank in ranks) + 1
    groups: dict[int, int] = {}
    for rank in ranks:
        groups[rank.group or 0] = groups.get(rank.group or 0, 0) + 1
    if len(set(groups.values())) > 1:
        notes.append("communicators of different sizes: the number of ranks is left open")
        return None
    return next(iter(groups.values()))


def _processes(ranks: tuple[Rank, ...], options: dict[str, Any]) -> int | None:
    per_process = options.get("nthreads", 1) * options.get("ngpus", 1)
    if not ranks or "ngpus" not in options or not per_process or len(ranks) % per_process:
        return None
    return len(ranks) // int(per_process)


def _library(before: _Preamble) -> Library | None:
    if before.library_code:
        return Library("NCCL", version=version_of_code(before.library_code), version_code=before.library_code)
    return Library("MSCCL++") if before.is_mscclpp else None
