"""One file of any kind to records: recognises what it holds, follows its context, and names what it cannot read."""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, TypeVar

from busbw.base.bounds import bounded
from busbw.base.errors import UserError
from busbw.importers.agreement import agreeing
from busbw.importers.collective import ALL, Columns, asking
from busbw.importers.context import Document, NcclMessages, Surroundings
from busbw.importers.draft import Collector, Draft, ImportedSweep, NcclSaid, Origin, complete
from busbw.importers.dull import DullLines
from busbw.importers.flat import FORMAT as FLAT
from busbw.importers.flat import RCCL_FORMAT as RCCL_FLAT
from busbw.importers.formats import DOCUMENT_FORMATS
from busbw.importers.frame import Frame
from busbw.importers.lines import PACKED, Progress, Source, open_source
from busbw.importers.nccl_tests_json import FORMAT as NCCL_TESTS_JSON
from busbw.importers.nccl_tests_rows import OPS
from busbw.importers.nccl_tests_text import FORMAT as NCCL_TESTS
from busbw.importers.nccl_tests_text import RCCL_FORMAT as RCCL_TESTS
from busbw.importers.prefixes import WITHOUT_PREFIX, Peeler, before_anchor, split_prefix
from busbw.importers.recordings import Jobs as Recordings
from busbw.importers.recordings import is_recording
from busbw.importers.report import FileReport
from busbw.importers.seems import what_it_seems
from busbw.importers.stream import RankSink, Stream
from busbw.importers.values import ELEMENT_BYTES, number
from busbw.records import Collective, parse_records

MAX_FILES = 20_000
"""Files of one folder that are read."""
MAX_TRIES = 20_000
"""Lines that are looked at for a prefix of their own."""
MAX_STREAMS = 4096
"""Ranks whose lines are told apart by their launcher's prefix; the lines of further ones are read together."""

_EXACT = frozenset({NCCL_TESTS, NCCL_TESTS_JSON, RCCL_TESTS, FLAT, RCCL_FLAT})
"""Formats whose time and bandwidths are of the same calls, so that one follows from the other."""
_LOOKS_LIKE_ROW = re.compile(r"\s*\d{1,20}\s+\d{1,20}\s+[a-z]\w{2,10}\s+\S+(?:\s+\S+){4,}\s*$")
_TYPES = frozenset(ELEMENT_BYTES)
_RECORD = re.compile(r'\s*\{"schema"\s*:\s*\d')
_NUMBER = re.compile(r"(\d+)", re.ASCII)
_FENCE = re.compile(r"^[\s>]*```", re.MULTILINE)

Collected = TypeVar("Collected", bound=Collector)
Take = Callable[[ImportedSweep], None]


def import_path(
    path: Path,
    take: Take,
    *,
    collective: Collective | None = None,
    url: str | None = None,
    progress: Progress | None = None,
) -> FileReport:
    """Hand every sweep of a file to `take`, as it becomes complete, and report on the file."""
    if is_recording(path):
        report = FileReport(str(path))
        reading = _of_recording(path, report, take, collective, url)
        reading.close()
        return report
    with open_source(path) as stream, _bounded(str(path), stream):
        return import_stream(stream, str(path), take, collective=collective, url=url, progress=progress)


def _bounded(name: str, stream: IO[bytes]) -> AbstractContextManager[None]:
    """The bounds of a file by its size on disk; none of time for a pipe."""
    state = os.fstat(stream.fileno())
    if not stat.S_ISREG(state.st_mode):
        return bounded(name, None)
    return bounded(name, state.st_size, packed=os.pread(stream.fileno(), 8, 0).startswith(tuple(PACKED)))


def import_folder(
    path: Path,
    take: Take,
    *,
    collective: Collective | None = None,
    url: str | None = None,
    progress: Progress | None = None,
) -> FileReport:
    """As `import_path`, for the files of a folder: what ranks wrote into files of their own becomes one run."""
    report = FileReport(str(path))
    shared: dict[type[Collector], Collector] = {}
    files = _files_of(path)
    for at, file in enumerate(files):
        try:
            if is_recording(file):
                _of_recording(file, report, take, collective, url, shared)
                continue
            with open_source(file) as stream, _bounded(str(file), stream):
                source = Source(stream, str(file), progress)
                reading = _Reading(source, report, take, collective, url, shared)
                reading.who = file.name.split(".")[0]
                reading.ordinal = at * 1_000_000
                if not reading.as_document(source.beginning):
                    reading.as_lines()
        except UserError as problem:
            report.problem(None, str(problem))
    for collector in shared.values():
        collector.close()
    if not report.sweeps:
        report.seems = f"a folder of {len(files)} files without results"
    return report


def _of_recording(  # noqa: PLR0913, PLR0917 - as for any file
    path: Path,
    report: FileReport,
    take: Take,
    collective: Collective | None,
    url: str | None,
    shared: dict[type[Collector], Collector] | None = None,
) -> _Reading:
    """The calls of one process, which is no text: its collector gets them, and ends with the file or folder."""
    nothing = Source(io.BytesIO(b"a recording of busbw\n"), str(path))
    reading = _Reading(nothing, report, take, collective, url, shared)
    reading.shared(Recordings).take(path)
    return reading


def _files_of(path: Path) -> list[Path]:
    """The files of a folder in the order of their numbers, three folders deep; hidden ones are left out."""
    found = []
    for depth in ("*", "*/*", "*/*/*"):
        for each in path.glob(depth):
            if each.is_file() and not any(part.startswith(".") for part in each.relative_to(path).parts):
                found.append(each)
                if len(found) > MAX_FILES:
                    raise UserError(f"{path} holds more than {MAX_FILES} files: name the ones to import")
    return sorted(
        found, key=lambda each: [int(part) if part.isdecimal() else part for part in _NUMBER.split(str(each))]
    )


def import_stream(  # noqa: PLR0913 - options that are named
    stream: IO[bytes],
    name: str,
    take: Take,
    *,
    collective: Collective | None = None,
    url: str | None = None,
    progress: Progress | None = None,
) -> FileReport:
    """As `import_path`, for an open binary stream; `progress` is told the bytes that were read, now and then."""
    source = Source(stream, name, progress)
    report = FileReport(name)
    head = source.beginning
    reading = _Reading(source, report, take, collective, url)
    if _RECORD.match(head):
        _take_records(source, report, take)
    else:
        if not reading.as_document(head):
            reading.as_lines()
        reading.close()
    if not report.sweeps:
        report.seems = what_it_seems(head)
    for long_line in source.too_long:
        report.problem(long_line, "a line of more than 64 Ki characters was left out")
    return report


def _take_records(source: Source, report: FileReport, take: Take) -> None:
    for record in parse_records(source.binary(), source.name):
        report.notes.extend(record.notes)
        collectives = list(dict.fromkeys(case.collective for case in record.cases))
        ranks = next((case.ranks for case in record.cases if case.ranks), None)
        report.count(describe(collectives, ranks, record.run.machine), len(record.cases), "busbw record")
        take(ImportedSweep(record.run, record.end, ranks, None, list(record.cases)))


def describe(collectives: Sequence[str], ranks: int | None, machine: str | None) -> str:
    """What a sweep is, in few words."""
    name = ", ".join(collectives) if len(collectives) <= 3 else f"{len(collectives)} collectives"
    words = [name or "no cases"]
    if ranks:
        words.append(f"on {ranks} ranks" if ranks > 1 else "on 1 rank")
    if machine:
        words.append(f"of {machine}")
    return " ".join(words)


class _Reading:
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
        self._source = source
        self._name = Path(source.name).name
        self._report = report
        self._take = take
        self.collective = collective
        self._url = url
        self._messages = NcclMessages()
        self._document = Document(is_markdown=False)
        self._streams: dict[str, Stream] = {}
        self._shared: dict[type[Collector], Collector] = {} if shared is None else shared
        self.who = ""
        self.ordinal = 0
        self._peeler = Peeler()
        self._tries = 0
        self._dull = DullLines()

    # -- the sink of the parsers ---------------------------------------------------------------------------------

    def problem(self, line: int | None, why: str) -> None:
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
        sizes, host, environment, version = self._messages.sweep_ends()
        if draft.collective is None:
            self.problem(draft.line, draft.asking or asking(Columns(ALL)))
            return
        if not draft.cases and not draft.figures:
            self.problem(draft.line, "a sweep without cases")
            return
        if draft.format in _EXACT and not self._agrees(draft):
            return
        said = NcclSaid(frozenset(sizes), host, environment, version)
        sweep = complete(draft, surroundings, said, Origin(self._name, self._url, self.ordinal))
        self.ordinal += 1
        kind = describe(sweep.collectives, sweep.ranks, sweep.run.machine)
        self._report.count(kind, draft.rows, draft.format)
        for note in sweep.run.notes:
            self._report.note(draft.line, note)
        for case in draft.cases:
            if case.conversion:
                self._report.conversions[f"{draft.format}: {case.conversion}"] += 1
        self._take(sweep)

    def _agrees(self, draft: Draft) -> bool:
        """Leaves out and tells the rows that contradict themselves; whether the run can be."""
        if draft.figures is not None:
            if draft.figures.agree():
                return True
            draft.cases, draft.figures = draft.figures.cases(), None
        found = agreeing(draft.cases)
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
                format_.parse(self._source.everything(format_.max_bytes), self)
                return True
        return False

    def close(self) -> None:
        """Everything is read: what was gathered over several ranks becomes runs."""
        for collector in self._shared.values():
            collector.close()

    def as_lines(self) -> None:
        """Read the file line by line."""
        name = self._source.name.lower()
        markdown = name.endswith((".md", ".markdown")) or len(_FENCE.findall(self._source.beginning)) >= 2
        self._document = Document(markdown, self._name)
        frame = Frame()
        for first, lines in self._source.blocks():
            if first == 1:
                self._peeler.learn(lines)
            lines = frame.taken_off(lines)  # noqa: PLW2901 - as the page shows them
            self._block(first, lines, markdown)
        for stream in list(self._streams.values()):
            stream.close()
        copies = sum(1 for stream in self._streams.values() if stream.has_tables)
        if copies > 1:
            self._report.note(None, f"{copies} ranks print tables of their own: copies that were started without MPI")

    def _block(self, first: int, lines: list[str], markdown: bool) -> None:
        messages, peeler = self._messages, self._peeler
        plain = self._stream("")
        shapes = [] if markdown else self._dull.shapes_of(lines)
        at = 0
        while at < len(lines):
            passed = self._dull.passed(lines, shapes, at) if shapes and not peeler.has_learned else None
            if passed:
                self._document.pass_by_all(passed)
                at += len(passed)
                continue
            line = lines[at]
            number = first + at
            at += 1
            if " NCCL " in line and "] NCCL " in line:
                messages.feed(line)
                if messages.in_sweep:
                    who, text = peeler.split(line)
                    self._stream(who).interrupted(text, number)
                continue
            if peeler.has_learned:
                who, text = peeler.split(line)
            elif line.startswith(WITHOUT_PREFIX) and "]<std" not in line:
                who, text = "", line
            else:
                who, text = split_prefix(line)
            stream = self._stream(who) if who else plain
            if (
                not stream.made
                and not markdown
                and self._dull.holds(line, text, stream, shapes[at - 1] if shapes else None)
            ):
                stream.before = text
                self._document.pass_by(text)
                continue
            if stream.feed(text, number):
                if not who and not peeler.has_learned:
                    at += stream.lines_follow(lines, at, first)
            elif not self._learned_from(line, lines, at, number):
                self._unclaimed(stream, text, number, markdown)

    def _learned_from(self, line: str, lines: list[str], at: int, number: int) -> bool:
        """Whether the line belongs to a table behind a prefix that nobody knew so far."""
        if self._tries >= MAX_TRIES or not ("#" in line or (" " in line and _has_row_behind_words(line))):
            return False
        self._tries += 1
        if before_anchor(line) is None or not self._peeler.learn([line, *lines[at : at + 300]]):
            return False
        who, text = self._peeler.split(line)
        return self._stream(who).feed(text, number)

    def _unclaimed(self, stream: Stream, text: str, number: int, markdown: bool) -> None:
        if text and not text.isspace():
            self._document.feed(text)
            if _LOOKS_LIKE_ROW.match(text):
                if not stream.without_header(text, number):
                    shown = text.strip()[:80]
                    self.problem(number, f"looks like a row of results, but no header came before: {shown!r}")
            elif _has_row_behind_words(text):
                shown = text.strip()[:80]
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


def _has_row_behind_words(text: str) -> bool:
    """Whether a row of nccl-tests stands behind words that are no prefix known here."""
    words = text.split()
    if _TYPES.isdisjoint(words):
        return False
    at = next(index for index, word in enumerate(words) if word in _TYPES)
    return (
        at > 2
        and len(words) > at + 5
        and words[at - 2].isdecimal()
        and words[at - 1].isdecimal()
        and words[at + 1] in OPS | {"none"}
        and all(number(word) is not None for word in words[at + 2 : at + 6])
    )


__all__ = ["FileReport", "UserError", "describe", "import_path", "import_stream"]
