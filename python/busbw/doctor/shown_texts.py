"""Logs that are kept as they stand, each as one text: words of lines that follow each other are looked for there."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence

_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Text:
    """The lines of one log as one text, so that words of lines that follow each other can be looked for."""

    source: str
    text: str

    def evidence(self, at: int) -> Evidence:
        """The line in which that character stands."""
        begin = self.text.rfind("\n", 0, at) + 1
        line = self.text[begin : begin + 4 * _SHOWN].partition("\n")[0]
        return Evidence(clean(shortened(line.strip(), _SHOWN)), self.source, self.text.count("\n", 0, at) + 1)


def texts_of(facts: Facts) -> tuple[Text, ...]:
    """The texts of all logs that are kept as they stand."""
    return tuple(Text(each.source, "\n".join(each.lines)) for each in facts.shown)


def named(text: str, limit: int = 60) -> str:
    """Words of a log as a title may hold them."""
    return clean(shortened(text.strip(), limit))
