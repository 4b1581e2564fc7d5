"""What launchers put before a line: the rank or host it came from and the time, taken off so that the line can be read.

The forms of the usual launchers are known. Any other form is learned: where a line that every table has (`# nThread`,
a header, a row) stands behind words, these words are made a pattern, which is taken off all lines from there on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from busbw.importers.values import ELEMENT_BYTES

MAX_LEARNED = 16
"""Patterns learned from one file; what comes after is hardly a launcher's."""
MAX_PREFIX = 200
"""Characters of a prefix."""

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_ISO = r"\d{4}[-/]\d\d[-/]\d\d[T\x20]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|\ ?[+-]\d\d:?\d\d)?"
_ATOM = rf"""
    \[?{_ISO}\]?(?::\s?|\ )(?:std(?:out|err)\ [FP]\ )?
  | (?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\ {_MONTH}\ [\d ]\d\ \d\d:\d\d:\d\d\ \d{{4}}(?=[\[<])
  | (?:{_MONTH}\ [\d ]\d\ \d\d:\d\d:\d\d|{_ISO})\ (?P<journal>[\w.-]{{1,80}}\ [\w./-]{{1,80}}\[\d{{1,9}}\]):\s
  | \ {{0,40}}\[(?:[\w.@-]{{1,80}}@)?(?P<mpi>\d{{1,9}},(?:mpirank:)?\d{{1,9}}(?:,[\w-]{{1,60}})?)\]
    (?:\[[^\]]{{0,80}}\])?<std(?:out|err|diag)>:
  | \ {{0,40}}<std(?:out|err|diag)>:
  | @[0-9a-f]{{24}}\ |<\d{{1,3}}>(?={_MONTH}\ )
  | \[(?P<torch>(?:default|rank|trainer|worker)[_-]?\d{{1,9}})\]:
  | \[(?P<hydra>\d{{1,7}})\]\ (?!NCCL\ )
  | \((?P<ray>[A-Za-z_][\w.]{{0,60}}\ pid=\d{{1,9}}(?:,\ ip=[\d.:a-f]{{1,45}})?)\)\ ?
  | \[(?P<kubectl>pod/[\w.-]{{1,253}}/[\w.-]{{1,80}})\]\ 
  | (?P<compose>(?=[\w.-]{{0,79}}[A-Za-z])[\w.-]{{1,80}}?)\ {{1,20}}\|\ (?=[#\ ]|\d)
  | \ {{0,6}}(?P<srun>\d{{1,7}}):\ (?=.)
  | (?P<pdsh>[A-Za-z](?=[\w.-]{{0,62}}\d)[\w.-]{{0,62}}):\ (?!Test\ )
"""  # noqa: W291 - the space after a pod's name is a part of the pattern
_PREFIX = re.compile(rf"(?:{_ATOM}){{1,3}}", re.VERBOSE)

_TYPES = "|".join(ELEMENT_BYTES)
_ANCHOR = re.compile(
    r"\#\ (?:nThread\ \d|nccl-tests\ version|NCCL\ Tests|Using\ devices|\ {0,2}Rank\ +\d+\ |Collective\ test\ "
    r"|OSU\ \w+\S*\ |Benchmarking\ [A-Z]\w+|\#processes\ =\ \d|Out\ of\ bounds\ values|Avg\ bus\ bandwidth"
    r"|\ +(?:size|bytes)\ +(?:count|N)\ +type|\ +\(B\)\ +\(elements)"
    rf"|(?<!\d)\d{{1,15}}\ +\d{{1,15}}\ +(?:{_TYPES})\ +"
    r"(?:(?:sum|prod|max|min|avg|mulsum|none)\ +)?-?\d[\d. ]*\ +\d",
    re.VERBOSE,
)
_MAY_BE_ANCHOR = re.compile(rf"#| (?:{_TYPES}) ")
_ROW_LEAD = re.compile(rf"\s*(?:#|\d{{1,15}}\s+\d{{1,15}}\s+(?:{_TYPES})\b)")

_TIMES = re.compile(
    rf"{_ISO}|{_MONTH}\ [\d ]\d\ \d\d:\d\d:\d\d|\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?|\ *\d{{1,12}}\.\d{{3,9}}".replace(
        r"\ ", "[ ]"
    )
)
BULLETS = frozenset({"-", "*", "+", "\u2022"})
"""What pages of pastes and lists put before each line."""
_TOKEN = re.compile(r"(?P<space>\s+)|(?P<number>\d+)|(?P<word>[^\W\d]+|[.-]+)|(?P<sign>.)", re.DOTALL)


_UNITS_OF_TIME = frozenset({"s", "ms", "us", "sec", "secs", "m", "h"})
"""What stands behind a number that says how long something took and names nobody."""
_CLOSING = {mark: re.compile(rf"{mark}?[\])}}, ]{{0,8}}$") for mark in "\"'"}
"""What ends a line within quotes."""


def split_prefix(line: str) -> tuple[str, str]:
    """(who, the line without its prefix) for the forms of the usual launchers; who is "" where none is named."""
    match = _PREFIX.match(line)
    if match is None:
        return "", line
    return match[match.lastgroup] if match.lastgroup else "", line[match.end() :]


WITHOUT_PREFIX = ("       ", "#", "|")
"""Rows of tables are indented further than any launcher's prefix is, and no prefix starts as comments and tables do."""
_ENDS = (": ", ">:", "]:", "] ", ") ")
_GOES_ON = re.compile(
    rf"[^A-Za-z]|[\w.-]{{1,80}}: |[\w.-]{{1,80}} {{1,20}}\||(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|{_MONTH[3:-1]}) |NCCL|Test"
)
"""What may be one more form of prefix, or be none because of what follows it, once digits are put into it."""
_NO_DIGITS = dict.fromkeys(map(ord, "0123456789"))


def ends_head(line: str, text: str) -> tuple[str, str]:
    """(the sign that ends the prefix of a line, the prefix up to it without digits); ("", "") where more decides.

    What has the same signs and letters as this line, and the same prefix as some line like it, is split there too: the
    text does not go on as a further form of prefix, whatever digits are put into it.
    """
    prefix, shape = _digitless(line[: len(line) - len(text)]), _digitless(text[:500])
    end = prefix[-2:]
    goes_on = not shape or _GOES_ON.match(shape) is not None
    if goes_on or end not in _ENDS or prefix.find(end) < len(prefix) - 2 or "] NCCL " in _digitless(line):
        return "", ""
    return end, prefix[:-2]


def is_time(text: str) -> bool:
    """Whether a text is a date or time and nothing else."""
    return _TIMES.fullmatch(text) is not None


def _digitless(text: str) -> str:
    return text.translate(_NO_DIGITS)


class Peeler:
    """Takes prefixes off the lines of one file: the known forms, and those that it learns on the way."""

    def __init__(self) -> None:
        self._learned: list[re.Pattern[str]] = []
        self._counters: list[frozenset[int]] = []

    @property
    def has_learned(self) -> bool:
        """Whether the file has a form of its own."""
        return bool(self._learned)

    def split(self, line: str) -> tuple[str, str]:
        """(who, the line without its prefix)."""
        for pattern, counters in zip(self._learned, self._counters, strict=True):
            match = pattern.match(line)
            if match is not None:
                tokens = match.groups("")
                who = "".join([token for at, token in enumerate(tokens) if at not in counters] if counters else tokens)
                rest = line[match.end() :]
                # A line within quotes, as lists of lines in JSON or YAML are.
                quote = match[0].rstrip()[-1:]
                if quote in ('"', "'"):
                    rest = _CLOSING[quote].sub("", rest).removesuffix("\\n")
                return who, rest
        return split_prefix(line)

    def learn(self, lines: Sequence[str]) -> bool:
        """Learn the form of what stands before lines that every table has; whether something new was learned."""
        found: dict[str, list[tuple[int, tuple[str, ...]]]] = {}
        for at, line in enumerate(lines):
            before = before_anchor(line)
            if before is None or len(self._learned) + len(found) >= MAX_LEARNED:
                continue
            pattern = pattern_of(before)
            match = re.match(pattern, line) if pattern else None
            if match:
                found.setdefault(str(pattern), []).append((at, match.groups()))
        known = {pattern.pattern for pattern in self._learned}
        new = {pattern: matches for pattern, matches in found.items() if pattern not in known}
        for pattern, matches in new.items():
            self._learned.append(re.compile(pattern))
            self._counters.append(_counters(matches))
        return bool(new)


def before_anchor(line: str) -> str | None:
    """What stands before the part of a line that belongs to a table, where no known form explains it."""
    if _MAY_BE_ANCHOR.search(line, 0, MAX_PREFIX + 400) is None:
        return None
    anchor = _ANCHOR.search(line, 0, MAX_PREFIX + 400)
    if anchor is None or anchor.start() > MAX_PREFIX:
        return None
    before = line[: anchor.start()]
    known = len(line) - len(split_prefix(line)[1])
    if not before[known:].strip() or _ROW_LEAD.match(before):
        return None
    # The spaces before a row are the row's own.
    return before.rstrip(" ") + (" " if before.endswith(" ") else "")


def pattern_of(prefix: str) -> str | None:
    """The form of a prefix: times and numbers may differ, and so may words between signs; None for numbers alone."""
    parts: list[str] = []
    signs = any(not each.isalnum() and each not in " _.-" for each in prefix)
    at = 0
    for time in [*_TIMES.finditer(prefix), None]:
        end = time.start() if time else len(prefix)
        tokens = list(_TOKEN.finditer(prefix, at, end))
        parts += [
            r"\d{1,20}" if token["number"] and behind in _UNITS_OF_TIME else _part(token, signs=signs)
            for token, behind in zip(tokens, [*(each[0] for each in tokens[1:]), ""], strict=False)
        ]
        if time:
            parts.append(f"(?:{_TIMES.pattern})")
            at = time.end()
    if prefix.strip() in BULLETS:
        # Named, since the lines of a difference are those of two files.
        return rf"\s{{0,40}}({re.escape(prefix.strip())})\s?(?!Test )"
    if not signs and at == 0 and not any(each.isalpha() for each in prefix):
        return None
    if parts and parts[-1] == r"\s{1,40}":
        parts[-1] = r"\s?" if signs else r"\s"
    return "".join(parts) + r"(?!Test )"


def _part(token: re.Match[str], *, signs: bool) -> str:
    text = token[0]
    if token["space"]:
        return r"\t" if text == "\t" else r"\s{1,40}" if token.start() else r"\s{0,40}"
    if token["number"]:
        return r"(\d{1,20})"
    if token["word"] and signs and text[0] not in ".-":
        return r"([^\W\d]{1,120})"
    return re.escape(text)


def _counters(places: Sequence[tuple[int, tuple[str, ...]]]) -> frozenset[int]:
    """Which tokens count lines: numbers that grow from line to line and name nobody."""
    found = set()
    lines = [line for line, _ in places]
    for at, column in enumerate(zip(*(tokens for _, tokens in places), strict=True)):
        if len(column) < 2 or not all(each.isdecimal() and len(each) < 15 for each in column):
            continue
        numbers = [int(each) for each in column]
        in_step = all(number - numbers[0] == line - lines[0] for number, line in zip(numbers, lines, strict=True))
        if in_step or (len(numbers) > 2 and all(a < b for a, b in pairwise(numbers))):
            found.add(at)
    return frozenset(found)
