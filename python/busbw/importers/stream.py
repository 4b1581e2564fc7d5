"""The lines of one rank: offered to the formats, the one that took the last line first."""

from __future__ import annotations

from busbw.importers.context import Document, Surroundings
from busbw.importers.draft import Collected, Draft, Sink
from busbw.importers.formats import LINE_FORMATS, LineParser
from busbw.importers.nccl_tests_preamble import Preamble
from busbw.importers.nccl_tests_rows import Layout
from busbw.importers.nccl_tests_text import Parser as NcclTestsParser
from busbw.importers.prefixes import BULLETS
from busbw.records import Collective

STARTS = tuple(dict.fromkeys(start for each in LINE_FORMATS if not each.markdown_only for start in each.starts))
"""What the first line of any table of a plain log holds."""


COLD_AFTER = 2000
"""Lines without any result after which only what may start a table is offered to the formats again."""
COLD_AFTER_WHEN_TIRED = 50
"""The same once the file has cost much in vain."""


class RankSink:
    """Hands on what the lines of one rank give, with the rank or host that printed it."""

    def __init__(self, sink: Sink, who: str) -> None:
        self._sink = sink
        self._who = who

    @property
    def who(self) -> str:
        """The rank or host, as its launcher names it."""
        return self._who

    @property
    def collective(self) -> Collective | None:
        """What the user says was measured."""
        return self._sink.collective

    def problem(self, line: int | None, why: str) -> None:
        """A line that should have been read and was not."""
        self._sink.problem(line, why)

    def sweep_starts(self) -> Surroundings:
        """A sweep starts at this line."""
        return self._sink.sweep_starts()

    def above(self) -> list[str]:
        """The last lines that are no results."""
        return self._sink.above()

    def shared(self, kind: type[Collected]) -> Collected:
        """The file's one collector of that kind."""
        return self._sink.shared(kind)

    def stops_before(self, line: int | None) -> None:
        """Reading ends before that line."""
        self._sink.stops_before(line)

    def sweep_ends(self, draft: Draft, surroundings: Surroundings) -> None:
        """The sweep is complete."""
        if self._who not in BULLETS:
            draft.options = {**draft.options, "printed_by": self._who}
        self._sink.sweep_ends(draft, surroundings)


class Stream:
    """The lines of one rank, offered to the format that took the last one, then to those that may start with this."""

    def __init__(self, sink: Sink, document: Document) -> None:
        self._sink = sink
        self._formats = [each for each in LINE_FORMATS if document.is_markdown or not each.markdown_only]
        self._parsers: list[LineParser | None] = [None] * len(self._formats)
        self._starts = self._all_starts = self._starts_of_unmade()
        self._untaken = 0
        """Lines since the last one that some format took."""
        self.made = False
        """Whether some format reads the lines, so that any may be a row."""
        self.is_cold = True
        """Whether no format reads the lines, or none has taken one for long."""
        self.before = ""
        """The line before, where no format took it."""
        self._active: LineParser | None = None
        self._nccl_tests: NcclTestsParser | None = None

    def feed(self, text: str, number: int) -> bool:
        """Whether some format took the line."""
        active = self._active
        if active is not None and not self.is_cold and active.feed(text, number):
            self._untaken = 0
            return True
        # Most lines of a log belong to no format: one look at them decides, before any parser is asked.
        starting = False
        for start in self._all_starts if self.is_cold else self._starts:
            if start in text:
                starting = True
                break
        if not starting and self.is_cold:
            self.before = text
            return False
        for index, parser in enumerate(self._parsers):
            if parser is None:
                if not starting or not any(start in text for start in self._formats[index].starts):
                    continue
                parser = self._parser(index)  # noqa: PLW2901 - the first line of this format
            elif parser is active and not self.is_cold:
                continue
            if parser.feed(text, number):
                self._active, self._untaken, self.is_cold = parser, 0, False
                return True
        self._untaken += 1
        self.is_cold = not self.made or self._untaken > COLD_AFTER
        self.before = text
        return False

    def tires(self) -> None:
        """Reading the file has cost much in vain."""
        if self._untaken > COLD_AFTER_WHEN_TIRED:
            self.is_cold = True

    def lines_follow(self, lines: list[str], at: int, first: int) -> int:
        """Take the lines of nccl-tests that follow from `at` on, where it took the last; returns how many."""
        tests = self._nccl_tests
        return tests.lines_follow(lines, at, first) if tests is not None and self._active is tests else 0

    def _starts_of_unmade(self) -> list[str]:
        waiting = (each for each, parser in zip(self._formats, self._parsers, strict=True) if parser is None)
        return list(dict.fromkeys(start for each in waiting for start in each.starts))

    def _parser(self, index: int) -> LineParser:
        parser = self._parsers[index] = self._formats[index].make(self._sink)
        self._starts = self._starts_of_unmade()
        self.made = True
        self.is_cold, self._untaken = False, 0
        if self._formats[index].line_before and self.before:
            parser.feed(self.before, 0)
        if isinstance(parser, NcclTestsParser):
            self._nccl_tests = parser
        return parser

    def interrupted(self, line: str, number: int) -> None:
        """A message of NCCL stands where a row may have been."""
        if self._nccl_tests is not None:
            self._nccl_tests.interrupted(line, number)

    @property
    def is_resting(self) -> bool:
        """Whether only nccl-tests' tables were read so far, and none is open."""
        tests = self._nccl_tests
        others = any(parser is not None and parser is not tests for parser in self._parsers)
        return tests is not None and self._active is tests and tests.is_resting and not others

    @property
    def has_tables(self) -> bool:
        """Whether nccl-tests printed tables here."""
        return self._nccl_tests is not None and self._nccl_tests.tables > 0

    @property
    def who(self) -> str:
        """Whose lines these are; "" for those without a prefix that names anybody."""
        return self._sink.who

    @property
    def waits_for(self) -> Preamble | Layout | None:
        """What of nccl-tests is open here: a table, or what was said before one; None where nothing is."""
        return None if self._nccl_tests is None else self._nccl_tests.waits_for

    def without_header(self, text: str, number: int) -> bool:
        """Offer a row whose header is not in the file."""
        if self._nccl_tests is None:
            self._parser(0)
        assert self._nccl_tests is not None
        if self._nccl_tests.without_header(text, number):
            self._active, self._untaken, self.is_cold = self._nccl_tests, 0, False
            return True
        return False

    def close(self) -> None:
        """The file ends."""
        for parser in self._parsers:
            if parser is not None:
                parser.close()
