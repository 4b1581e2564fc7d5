"""What a signature is: words of a log that name a cause, how to confirm it, its cure, and where the words come from."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from busbw.doctor.finding import Severity
from busbw.doctor.lines.triggers import Needs, needs_of, triggers_of

_DIGITS_IN = re.compile(r"(?:\\d|\d+)(?:\{[\d,]*\}|[+*?])?\??|\\u\w{4}|\\.|\{[\d,]+\}|\[\^?(?:\\.|[^\]])*\]")
"""Pieces of a pattern that hold digits, or might seem to."""

_NO_DIGITS = str.maketrans("", "", "0123456789")


class Stage(IntEnum):
    """How near to the root a fault is: what stands lower in this list is a likely cause of what stands higher."""

    HARDWARE = 10
    DRIVER = 20
    SYSTEM = 30
    SETTING = 40
    LAUNCH = 45
    NETWORK = 50
    PROGRAM = 60
    CRASH = 70
    FAILURE = 80
    EFFECT = 90


@dataclass(frozen=True)
class Signature:
    """One fault by the words that programs write of it.

    `patterns` are regular expressions, looked for in each line without regard to case. Each needs plain pieces of text
    (`busbw.doctor.lines.triggers`), by which most lines are passed over. `title` is one sentence with the cause;
    {names} in it stand for groups of the pattern. `unless` are words that take a line out. From CRASH on a
    signature is only a sequel where a cause was found as well, and so is one that a found signature `explains`.
    """

    name: str
    stage: Stage
    title: str
    patterns: tuple[str, ...]
    confirm: str
    cure: str
    source: str
    cost: str = "the job fails or hangs"
    severity: Severity = Severity.ERROR
    versions: str = "any NCCL 2.x"
    unless: tuple[str, ...] = ()
    explains: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    """What it explains where that stands behind it: of two that may each cause the other the first did."""
    between_nodes: bool = False
    """Whether it matters between nodes alone: a note for a job that ran on one."""
    last: bool = False
    """Looked for only in lines of which no other signature speaks: it names who reports, and what."""
    echo: bool = False
    """Not said at all where it is a sequel: it tells only that something failed."""
    soft: bool = False
    """Said of a job that is only slow too, and at the end of healthy ones: a note where the job went on, or ended."""
    repeats: bool = False
    """A fault only where the same is said more than once, as when two processes name themselves rank 0."""
    differs: bool = False
    """Said only where lines of one log tell different values of its groups, such as rates of ports."""
    holds: Callable[[Sequence[Mapping[str, str]]], bool] | None = None
    """Whether the groups of all lines together bear it out, where no single line can."""
    light: Callable[[Sequence[Mapping[str, str]], int], bool] | None = None
    """Whether it is only to be known, by the groups of all lines and their number: what was corrected is no fault."""
    tell: Callable[[Sequence[Mapping[str, str]]], str] | None = None
    """Makes the title of the groups of all lines, where one line's are not enough."""

    def __hash__(self) -> int:
        # All of them are looked up for each log: their names tell them apart.
        return hash(self.name)

    @cached_property
    def triggers(self) -> tuple[tuple[str, ...], ...]:
        """The triggers of each pattern."""
        return tuple(triggers_of(each) for each in self.patterns)

    def minds_digits(self, line: str, lowered: str) -> bool:
        """Whether it may speak of a line that is equal, but for its digits, to this one, of which it does not speak."""
        bare = lowered.translate(_NO_DIGITS)
        if any(word.translate(_NO_DIGITS) in bare for word in self.unless):
            return True
        for words, pattern in zip(self.triggers, self.patterns, strict=True):
            if any(word in lowered for word in words):
                if "(?!" in pattern or "(?<" in pattern or "(?=" in pattern:
                    return True
                if re.search(_DIGITS_IN.sub(_any_digits, pattern), line, re.IGNORECASE):
                    return True
        return False

    @cached_property
    def _compiled(self) -> dict[str, re.Pattern[str]]:
        """Patterns of which a trigger was seen: most of them a run never needs."""
        return {}

    def _search(self, pattern: str, line: str) -> re.Match[str] | None:
        if pattern not in self._compiled:
            self._compiled[pattern] = re.compile(pattern, re.IGNORECASE)
        return self._compiled[pattern].search(line)

    @cached_property
    def needs(self) -> tuple[Needs, ...]:
        """Of each pattern all sets of texts of which every match holds one: most lines lack the second."""
        return tuple(needs_of(each) for each in self.patterns)

    def match(self, line: str, lowered: str, among: Sequence[int] | None = None) -> Mapping[str, str] | None:
        """The named groups of the first pattern that names any, else of the first that fits; None where none fits.

        `among` are the numbers of the patterns of which a trigger stands in the line; None: of all.
        """
        bare = False
        # Loops and no generators: most of the time of a short log is spent here.
        for number in range(len(self.patterns)) if among is None else among:
            pattern = self.patterns[number]
            if bare and "(?P<" not in pattern:
                continue  # another one that names nothing says no more
            if among is None and not holds(self.needs[number], lowered):
                continue
            if found := self._search(pattern, line):
                for word in self.unless:
                    if word in lowered:
                        return None
                bare = True
                if groups := {name: text for name, text in found.groupdict().items() if text}:
                    return groups
        return {} if bare else None


def holds(needs: Needs, lowered: str) -> bool:
    """Whether the texts that one alternative needs stand in the line; a pattern without any is looked for nowhere."""
    for sets in needs:
        for words in sets:
            for word in words:
                if word in lowered:
                    break
            else:
                break
        else:
            return True
    return False


def _any_digits(piece: re.Match[str]) -> str:
    """A piece of a pattern as it stands for any digits, and any number of them."""
    text = piece[0]
    if text.startswith("["):
        inside = text.replace("0-9", "")
        return f"{text[:-1]}0-9]" if not text.startswith("[^") and any(each.isdecimal() for each in inside) else text
    return r"\d*" if text.startswith("\\d") or text[0].isdecimal() else text
