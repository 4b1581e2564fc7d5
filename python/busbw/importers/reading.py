"""One file of any kind while it is read: recognises what it holds, follows its context, names what it cannot read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from busbw.base.effort import EFFORT, HINT
from busbw.base.secrets import shortened
from busbw.importers.agreement import EXACT_ROOM, TIME_ROOM, agreeing
from busbw.importers.collective import ALL, Columns, asking
from busbw.importers.context import Document, Surroundings
from busbw.importers.deepspeed import FORMAT as DEEPSPEED
from busbw.importers.draft import Collector, Draft, ImportedSweep, Origin, complete
from busbw.importers.dull import DullLines, shape_of
from busbw.importers.flat import FORMAT as FLAT
from busbw.importers.flat import RCCL_FORMAT as RCCL_FLAT
from busbw.importers.formats import DOCUMENT_FORMATS
from busbw.importers.frame import Frame
from busbw.importers.joined import belongs_to
from busbw.importers.lines import Source
from busbw.importers.nccl_messages import NcclMessages
from busbw.importers.nccl_tests_json import FORMAT as NCCL_TESTS_JSON
from busbw.importers.nccl_tests_rows import has_row_behind_words
from busbw.importers.nccl_tests_text import FORMAT as NCCL_TESTS
from busbw.importers.nccl_tests_text import RCCL_FORMAT as RCCL_TESTS
from busbw.importers.prefixes import WITHOUT_PREFIX, Peeler, before_anchor, split_prefix
from busbw.importers.report import FileReport, Told
from busbw.importers.stream import RankSink, Stream
from busbw.importers.work_limit import PER_CASE, PER_LINE, PER_SWEEP, WorkLimit, may_head_table
from busbw.records import Collective

MAX_TRIES = 20_000
"""Lines that are looked at for a prefix of their own."""
LOOKED_AT = 300
"""Lines that follow such a one, for the same prefix."""
MAX_STREAMS = 4096
"""Ranks whose lines are told apart by their launcher's prefix; the lines of further ones are read together."""

_EXACT = frozenset({NCCL_TESTS, NCCL_TESTS_JSON, RCCL_TESTS, FLAT, RCCL_FLAT, DEEPSPEED})
"""Formats whose time and bandwidths are of the same calls, so that one follows from the other."""
_OF_THE_TIME_PRINTED = frozenset({NCCL_TESTS, RCCL_TESTS})
_LOOKS_LIKE_ROW = re.compile(r"\s*\d{1,20}\s+\d{1,20}\s+[a-z]\w{2,10}\s+\S+(?:\s+\S+){4,}\s*$")
_FENCE = re.compile(r"^[ \t>]*```", re.MULTILINE)

Collected = TypeVar("Collected", bound=Collector)
Take = Callable[[ImportedSweep], None]


class EnoughError(Exception):
    """As many rows are read as were asked for."""


class Cuts(Protocol):
    """Where reading stops for a moment, and maybe for good."""

    def cut(self, first: int, lines: list[str], start: int) -> int | None:
        """Where in a block, not before `start`; `first` is the number of its first line."""

    def at_cut(self, line: int) -> bool:
        """Asked there: whether the rest is read already."""

    def close(self) -> None:
        """Reading ends."""


def describe(collectives: Sequence[str], ranks: int | None, machine: str | None) -> str:
    """What a sweep is, in few words."""
    name = ", ".join(collectives) if len(collectives) <= 3 else f"{len(collectives)} collectives"
    words = [name or "no cases"]
    if ranks:
        words.append(f"on {ranks} ranks" if ranks > 1 else "on 1 rank")
    if machine:
        words.append(f"of {machine}")
    return " ".join(words)


class Reading:
    """The state of one file while it is read; the sink of its parsers."""

    def __init__(  # noqa: PLR0913, PLR0917 - what a file is read with
        self,
        source: Source,
        report: FileReport,
        take: Take,
        collective: Collective | None,
        url: str | None,
        shared: dict[type[Collector], Collector] | None = None,
    ) -> None:
        self.source = source
        self._name = Path(source.name).name
        self._report = report
        self._take = take
        self.collective = collective
        self._url = url
        self._messages = NcclMessages()
        self._document = Document(is_markdown=False)
        self._streams: dict[str, Stream] = {}
        self._taker: Stream | None = None
        self._shared: dict[type[Collector], Collector] = {} if shared is None else shared
        self.who = ""
        self.ordinal = 0
        self._peeler = Peeler()
        self.tries = 0
        self._dull = DullLines()
        self._frame = Frame()
        self._limit = WorkLimit()
        self._counted = take
        self.most_rows: int | None = None
        self._rows = 0
        self._part = ""
        """What is said of runs that end where reading did, before the file's end; "" while it goes on."""

    # -- the sink of the parsers ---------------------------------------------------------------------------------

    def problem(self, line: int | None, why: str) -> None:
        self._limit.complain()
        self._report.problem(line, why)

    def sweep_starts(self) -> Surroundings:
        self._messages.sweep_starts()
        return self._document.here()

    def above(self) -> list[str]:
        return self._document.above()

    def shared(self, kind: type[Collected]) -> Collected:
        found = self._shared.get(kind)
        if found is None:
            found = self._shared[kind] = kind(self)
        assert isinstance(found, kind)
        return found

    def sweep_ends(self, draft: Draft, surroundings: Surroundings) -> None:
        said = self._messages.sweep_ends()
        if draft.collective is None:
            self.problem(draft.line, draft.asking or asking(Columns(ALL)))
            return
        if not draft.cases and not draft.figures:
            self.problem(draft.line, "a sweep without cases")
            return
        paid = draft.paid
        if draft.format in _EXACT and not self._agrees(draft):
            return
        if self._part:
            draft.notes.append(self._part)
        sweep = complete(draft, surroundings, said, Origin(self._name, self._url, self.ordinal))
        self.ordinal += 1
        kind = describe(sweep.collectives, sweep.ranks, sweep.run.machine)
        self._report.count(kind, draft.rows, draft.format)
        EFFORT.spend(PER_SWEEP + PER_CASE * max(0, len(draft.cases) - paid))
        if not draft.rows_paid:
            EFFORT.spend(EFFORT.per_case * max(0, len(sweep) - paid))
        for note in sweep.run.notes:
            self._report.note(draft.line, note)
        for case in draft.cases:
            if case.conversion:
                self._report.conversions[f"{draft.format}: {case.conversion}"] += 1
        self._take(sweep)
        if self.most_rows is not None:
            self._rows += len(sweep)
            EFFORT.spend(PER_CASE * len(sweep))  # who asks for so many makes an object of each
            if self._rows >= self.most_rows:
                raise EnoughError(f"{self._rows:,} rows of results")

    def _agrees(self, draft: Draft) -> bool:
        """Leaves out and tells the rows that contradict themselves; whether the run can be."""
        if draft.figures is not None:
            if draft.figures.agree():
                return True
            draft.cases, draft.figures = draft.figures.cases(), None
        found = agreeing(draft.cases, room=EXACT_ROOM if draft.format in _OF_THE_TIME_PRINTED else TIME_ROOM)
        draft.cases = found.kept
        for sentence in [found.refused] if found.refused else found.told:
            self.problem(draft.line, sentence)
        return bool(draft.cases)

    # -- reading -------------------------------------------------------------------------------------------------

    def as_document(self, head: str) -> bool:
        """Read the file as one document, where it begins as one."""
        for format_ in DOCUMENT_FORMATS:
            if format_.looks_like(head):
                self._document = Document(is_markdown=False, file=self._name)
                format_.parse(self.source.everything(format_.max_bytes), self)
                return True
        return False

    def close(self) -> None:
        """Everything is read: what was gathered over several ranks becomes runs."""
        for collector in self._shared.values():
            collector.close()

    def as_lines(self, cuts: Cuts | None = None) -> None:
        """Read the file line by line, up to where somebody else has read on."""
        name = self.source.name.lower()
        markdown = name.endswith((".md", ".markdown")) or len(_FENCE.findall(self.source.beginning)) >= 2
        self._document = Document(markdown, self._name)
        try:
            if cuts is None or not (markdown or self.source.is_framed):
                self._blocks(cuts)
            else:
                self._blocks(None)
        finally:
            if cuts is not None:
                cuts.close()

    def _blocks(self, cuts: Cuts | None) -> None:
        """Read what is left of the source, block by block."""
        for first, lines in self.source.blocks():
            if first == 1:
                self._peeler.learn(lines)
            lines = self._frame.taken_off(lines)  # noqa: PLW2901 - as the page shows them
            EFFORT.spend(PER_LINE * len(lines))
            start = 0
            while cuts is not None and (at := cuts.cut(first, lines, start)) is not None:
                self._block(first + start, lines[start:at], lines[at:])
                if self._part:
                    break
                if cuts.at_cut(first + at):
                    return
                start = at
            if not self._part:
                self._block(first + start, lines[start:] if start else lines, [])
            if self._part:
                break
        if self.source.is_cut and not self._part:
            self.stops_before(None)
        if self._limit.said:
            self._report.skimmed(self._limit.said)
        for stream in list(self._streams.values()):
            stream.close()
        copies = sum(1 for stream in self._streams.values() if stream.has_tables)
        if copies > 1:
            self._report.note(None, f"{copies} ranks print tables of their own: copies that were started without MPI")

    def stops_before(self, line: int | None) -> None:
        """The call has cost what it may: what was read counts, and says that it is a part."""
        if self._part:
            return
        where = f"to line {line - 1}" if line and line > 1 else "in part"
        self._part = f"the file was read {where} and no further"
        self._report.ends_early(f"{self._part}, as reading costs too much: {HINT}")

    # -- a part that is read apart -------------------------------------------------------------------------------

    def standing(self) -> object | None:
        """What later lines depend on, where that is no more than a plain log of tables leaves behind; else None."""
        plain = self._streams.get("")
        if plain is None or len(self._streams) > 1 or not plain.is_resting or self._shared or self._peeler.has_learned:
            return None
        return plain.before, self._messages.standing(), self._document.standing()

    @property
    def lines_above(self) -> int:
        """How many lines are remembered that are no results; no more than twice as many as are looked at."""
        return self._document.lines_kept

    @property
    def tries_left(self) -> int:
        """How often lines may still be looked at for a prefix of their own."""
        return MAX_TRIES - self.tries

    def reads_apart(self, source: Source, cuts: Cuts) -> None:
        """Read from another place of the file; nothing counts until `counts_from_here`."""
        self.source, self._report = source, FileReport(source.name)
        self._counted, self._take = self._take, lambda _: None
        self._blocks(cuts)
        self.close()

    def counts_from_here(self, report: FileReport) -> None:
        """The part begins."""
        self._report, self._take = report, self._counted

    def goes_on_from(self, told: Told, ordinal: int, too_long: list[int]) -> None:
        """Another process has read the rest."""
        told.tell(self._report)
        self.ordinal = ordinal
        self.source.too_long += too_long

    def _block(self, first: int, lines: list[str], beyond: list[str]) -> None:
        """Read lines; those beyond are only looked at."""
        peeler, markdown, limit = self._peeler, self._document.is_markdown, self._limit
        plain = self._stream("")
        shapes = [] if markdown else self._dull.shapes_of(lines)
        at = 0
        while at < len(lines):
            if limit.is_spent or (limit.is_reached and (self._taker is None or self._taker.is_cold)):
                at = self._next_head(lines, at, first)
                if at >= len(lines):
                    return
            passed = self._dull.passed(lines, shapes, at) if shapes and not peeler.has_learned else None
            if passed:
                self._document.pass_by_all(passed)
                at += len(passed)
                continue
            line = lines[at]
            number = first + at
            if EFFORT.left <= 0:
                self.stops_before(number)
                return
            at += 1
            limit.spend(line, cheap=True)
            if " NCCL " in line and "] NCCL " in line:
                self._message(line, number)
                continue
            who, text = self._parted(line)
            stream = belongs_to(self._taker, self._stream(who) if who else plain, text)
            cold = stream.is_cold and not markdown
            shape = shapes[at - 1] if shapes else shape_of(line) if cold else b""
            if cold and (self._dull.holds(line, text, stream, shape) or self._dull.was_in_vain(shape)):
                stream.before = text
                self._document.pass_by(text)
                continue
            if stream.feed(text, number):
                self._taker = stream
                limit.restore()
                if not who and not peeler.has_learned:
                    at += stream.lines_follow(lines, at, first)
                continue
            if cold:
                self._dull.in_vain(shape)
            limit.spend(line)
            if not self._learned_from(line, lines, at, number, beyond):
                self._unclaimed(stream, text, number, markdown)

    def _message(self, line: str, number: int) -> None:
        """A message of NCCL, which may stand where a row was to stand."""
        self._messages.feed(line)
        if self._messages.in_sweep:
            who, text = self._peeler.split(line)
            self._stream(who).interrupted(text, number)

    def _parted(self, line: str) -> tuple[str, str]:
        """(who, the line without its prefix)."""
        if self._peeler.has_learned:
            self._limit.spend_on(1)
            return self._peeler.split(line)
        if line.startswith(WITHOUT_PREFIX) and "]<std" not in line:
            return "", line
        return split_prefix(line)

    def _next_head(self, lines: list[str], at: int, first: int) -> int:
        """Pass by lines up to one that a table's head may stand in."""
        end = len(lines)
        if not self._limit.is_spent:
            end = next((place for place in range(at, end) if may_head_table(lines[place])), end)
        self._limit.passed(first + at, first + end)
        if not self._document.is_markdown:
            self._document.pass_by_all(lines[at:end])
        return end

    def _learned_from(self, line: str, lines: list[str], at: int, number: int, beyond: list[str]) -> bool:
        """Whether the line belongs to a table behind a prefix that nobody knew so far."""
        if self.tries >= MAX_TRIES or not ("#" in line or (" " in line and has_row_behind_words(line))):
            return False
        self.tries += 1
        if before_anchor(line) is None:
            return False
        self._limit.spend_on(LOOKED_AT)
        follow = lines[at : at + LOOKED_AT]
        follow += beyond[: LOOKED_AT - len(follow)]
        if not self._peeler.learn([line, *follow]):
            return False
        who, text = self._peeler.split(line)
        return self._stream(who).feed(text, number)

    def _unclaimed(self, stream: Stream, text: str, number: int, markdown: bool) -> None:
        if self._limit.is_reached:
            stream.tires()
        if text and not text.isspace():
            self._document.feed(text)
            if _LOOKS_LIKE_ROW.match(text):
                if not stream.without_header(text, number):
                    shown = shortened(text.strip(), 80)
                    self.problem(number, f"looks like a row of results, but no header came before: {shown!r}")
            elif has_row_behind_words(text):
                shown = shortened(text.strip(), 80)
                self.problem(number, f"looks like a row of results behind a prefix that is not known: {shown!r}")
        elif markdown:
            self._document.feed(text)

    def _stream(self, who: str) -> Stream:
        stream = self._streams.get(who)
        if stream is None:
            if len(self._streams) >= MAX_STREAMS:
                return self._streams[""]
            sink = RankSink(self, who) if who else self
            stream = self._streams[who] = Stream(sink, self._document)
        return stream
