"""What came out of one file: sweeps, rows, kinds, and every line that could not be read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from busbw.base.secrets import shortened

MAX_PROBLEMS = 200
"""Problems kept word for word; the rest is counted."""
MAX_ALIKE = 5
"""Of problems or notes with the same words; the rest is counted with these words."""


@dataclass
class FileReport:
    """Gathered while one file is read; `summary` is the one line that the import ends with."""

    name: str
    formats: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    sweeps: int = 0
    rows: int = 0
    problems: list[str] = field(default_factory=list)
    problems_left_out: int = 0
    notes: list[str] = field(default_factory=list)
    notes_left_out: int = 0
    conversions: Counter[str] = field(default_factory=Counter)
    repeated: Counter[str] = field(default_factory=Counter)
    """How often each problem or note was said beyond MAX_ALIKE times."""
    _told: Counter[str] = field(default_factory=Counter)
    skimmed_over: str = ""
    """Which lines were not looked at in full, and why."""
    is_part: bool = False
    """Whether the file was not read to its end."""
    seems: str = ""
    """Where nothing was found: what the file seems to be."""

    def problem(self, line: int | None, why: str) -> None:
        """A line that should have been read and was not."""
        if not self._take(self.problems, line, why):
            self.problems_left_out += 1

    def skimmed(self, why: str) -> None:
        """Lines were not looked at in full."""
        self.skimmed_over = why
        self.problem(None, why)

    def ends_early(self, why: str) -> None:
        """The file was not read to its end."""
        self.is_part = True
        self.skimmed(why)

    def note(self, line: int | None, what: str) -> None:
        """Something derived or contradictory that the reader should know."""
        if not self._take(self.notes, line, what):
            self.notes_left_out += 1

    def _take(self, said: list[str], line: int | None, text: str) -> bool:
        """Whether it is told word for word: the sweeps of a large log have the same to say, which is counted."""
        key = text[:1000]
        if len(said) >= MAX_PROBLEMS or self._told[key] >= MAX_ALIKE:
            if key in self._told:
                self.repeated[key] += 1
            return False
        placed = self._placed(line, text)
        if placed not in said:
            said.append(placed)
            self._told[key] += 1
        return True

    def more(self) -> list[str]:
        """A sentence for each problem or note that was said more often than it is told, and one for all others."""
        others = self.problems_left_out + self.notes_left_out - self.repeated.total()
        said = [
            self._placed(None, f"{count} time{'s' * (count > 1)} more: {text}")
            for text, count in self.repeated.most_common()
        ]
        return [*said, f"{self.name}: {others} further lines and notes"] if others else said

    def _placed(self, line: int | None, text: str) -> str:
        """With its place in front, and without what a terminal would obey."""
        shown = shortened(text, 1000)
        if not shown.isprintable():
            shown = "".join(each if each.isprintable() else "?" for each in shown)
        return f"{self.name}:{line}: {shown}" if line else f"{self.name}: {shown}"

    def count(self, kind: str, rows: int, format_: str) -> None:
        """A sweep that was read."""
        self.sweeps += 1
        self.rows += rows
        self.formats[format_] += 1
        self.kinds[kind] += 1

    def summary(self) -> str:
        """One line: how many sweeps and rows, and what they are."""
        if not self.sweeps:
            where = " in the part that was read" if self.is_part else ""
            return f"{self.name}: nothing that busbw can read{where}" + (
                f"; it seems to be {self.seems}" if self.seems else ""
            )
        formats = ", ".join(f"{name}" for name, _ in self.formats.most_common())
        kinds = ", ".join(f"{count} x {kind}" if count > 1 else kind for kind, count in self.kinds.most_common(4))
        more = len(self.kinds) - 4
        unread = len(self.problems) + self.problems_left_out
        return (
            f"{self.name}: {_plural(self.sweeps, 'sweep')}, {_plural(self.rows, 'row')}; {formats}: {kinds}"
            + (f" and {more} more kinds" if more > 0 else "")
            + (f"; {_plural(unread, 'line')} not read" if unread else "")
            + ("; a part of the file alone" if self.is_part else "")
        )


MAX_TOLD = 200_000
"""Problems and notes of a part that is read apart; with more of them it does not count."""


class Told(FileReport):
    """Of a part of a file that another process reads: all that was said, to be told again where the part counts."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._said: list[tuple[bool, int | None, str]] = []
        self.is_whole = True

    def problem(self, line: int | None, why: str) -> None:
        """As of a file."""
        self._keep(True, line, why)

    def note(self, line: int | None, what: str) -> None:
        """As of a file."""
        self._keep(False, line, what)

    def _keep(self, is_problem: bool, line: int | None, text: str) -> None:
        if len(self._said) < MAX_TOLD:
            self._said.append((is_problem, line, text))
        else:
            self.is_whole = False

    def tell(self, report: FileReport) -> None:
        """To the report of the whole file."""
        for is_problem, line, text in self._said:
            (report.problem if is_problem else report.note)(line, text)
        for mine, theirs in ((self.formats, report.formats), (self.kinds, report.kinds)):
            theirs.update(mine)
        report.conversions.update(self.conversions)
        report.is_part |= self.is_part
        report.skimmed_over = report.skimmed_over or self.skimmed_over
        report.sweeps += self.sweeps
        report.rows += self.rows


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
