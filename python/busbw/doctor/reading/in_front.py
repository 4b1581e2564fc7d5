"""What was put in front of all lines of a log, by a page, a launcher or a service: the lines without it.

A quote's mark, the indent of a block of code, a container's name and a service's time say nothing of a single line, and
hide where a program's own line begins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from busbw.base.typography import as_typed, is_spaced
from busbw.doctor.lines.sieve import is_json_log, numbered
from busbw.importers.prefixes import split_prefix

_FEWEST, _ENOUGH, _FEW, _LAYERS, _FIRST = 2, 4, 4, 5, 16
_SHARE = 0.97
"""Of the lines that are not empty, so many have it: a line may be torn, or stand before the log."""
_MARK = re.compile(r"(?:> ?|- (?!- )|\t| {1,16})(?! {17})")
_NAME = re.compile(
    r"\| [\w.-]{1,60} \| |\[?pod/[\w.-]{1,253}/[\w.-]{1,80}\]? |(?=[\w.-]{0,79}[A-Za-z])[\w./-]{1,80} {1,20}\| ?"
    r"|(?=[a-z0-9.-]{0,60}-[a-z]{0,10}\d)[a-z0-9][a-z0-9.-]{1,80} "
    r"(?!INFO|WARN|ERROR|DEBUG|NCCL)[a-z0-9][a-z0-9.-]{1,60} "
)
"""A container's name, as kubectl, docker compose and stern write it before each line."""
_INDENTS = (2, 4, 8)
"""Of blocks of code in lists and pages; rows of a table may all begin with some number of spaces."""
_PART = 12
_OF_LOG = re.compile(
    r"\S{1,120}:\d{1,9}:\d{1,9} \[|Traceback|[\w.]{1,80}Error\b|\[?\d{4}-\d\d-\d\d|[WEIF]\d{4} |\[ {0,5}\d{1,9}\.\d"
    r"|[$#] ?\w|\[rank\d|[\w.-]{1,80}@|NCCL "
)
"""How lines of programs begin, and what is typed in a shell."""
_STAMP = re.compile(
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z| ?[+-]\d\d:?\d\d)?\]?"
    r"(?: std(?:out|err) [FP])? "
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,80} [\w./@-]{1,80}\[\d{1,9}\]: "
)
_COUNT = re.compile(r"\s{0,8}(?P<number>\d{1,6})(?:[:|\t] ?| {1,4})")
_STAMPED = 48
_AT = re.compile(r", at: (?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S{0,20})$")
"""The time of an object, as it is put behind what the object says."""
_DAY = len("Mar 04 05:06:07")
_OWN = re.compile(r"\[rank\d|[A-Z][a-z]{2} [ \d]\d \d\d:|[A-Za-z][\w.-]{0,80}: ")
"""PyTorch names the rank in front of tracebacks alone, a journal its service and pdsh the host: lines need them."""
_OF_RUNTIME = re.compile(
    r"\S std(?:out|err) [FP] "
    r"|^\w{3} [ \d]\d [\d:]{8} \S{1,80} (?:python[\d.]{0,5}|torchrun|bash|sh|docker|mpirun|srun)\["
)
"""What no program writes by itself: a container's runtime, and the journal before what a job says."""
_BEGINS = re.compile(r"\s|\[?\d{4}-\d\d-\d\d|\| [\w.-]{1,60} \||$")


Cut = Callable[[str], int]
"""How many letters of a line are not its own."""


def parted(lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """(what stands before each line, the lines without it), where nearly all lines have it."""
    cuts = learned(lines)
    at = [begin(line, cuts) for line in lines] if cuts else [0] * len(lines)
    return [line[:end] for line, end in zip(lines, at, strict=True)], [
        line[end:] for line, end in zip(lines, at, strict=True)
    ]


def learned(lines: Sequence[str]) -> tuple[Cut, ...]:
    """What stands before nearly all of the lines, from the outermost on; nothing where they are as written."""
    cuts = list[Cut]()
    for _ in range(_LAYERS):
        cut = _marks(lines) or _numbers(lines) or _launcher(lines) or _times(lines)
        if cut is None:
            break
        cuts.append(cut)
        lines = [line[cut(line) :] for line in lines]
    return tuple(cuts)


def begin(line: str, cuts: Sequence[Cut]) -> int:
    """Where a line's own words begin."""
    at = 0
    for cut in cuts:
        at += cut(line[at:])
    return at


def without_time(line: str) -> tuple[str, str]:
    """(the time that was put behind what an object says, the line without it)."""
    found = _AT.search(line[-_STAMPED:])
    return (f"{found['time']} ", line.removesuffix(found[0])) if found else ("", line)


def bare(text: str) -> str:
    """The text of a file without what stands before all of its lines."""
    return "\n".join(each.text for each in unwrapped(text))


@dataclass(frozen=True, slots=True)
class Line:
    """A line without what was put in front of it, or around it."""

    number: int
    front: str
    text: str


@lru_cache(maxsize=1)
def unwrapped(text: str) -> Sequence[Line]:
    """The lines of a small log; of one whose lines are objects what each object says."""
    if not is_json_log(text[:4096].encode("utf-8", "replace").lstrip()):
        typed = [line.rstrip("\r") for line in as_typed(text).split("\n")]
        step = 2 if is_spaced(typed) else 1
        fronts, rests = parted(typed[::step])
        both = zip(fronts, rests, strict=True)
        return [Line(1 + step * at, front, rest) for at, (front, rest) in enumerate(both)]
    objects = list(numbered(text.encode("utf-8", "replace").splitlines()))
    fronts, rests = parted([as_typed(line.decode("utf-8", "replace")) for _, line in objects])
    lines = []
    for (number, _), front, rest in zip(objects, fronts, rests, strict=True):
        time, said = without_time(rest)
        lines.append(Line(number, time + front, said))
    return lines


def _said(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if line.strip()]


def _mostly(words: re.Pattern[str], said: Sequence[str]) -> bool:
    """Whether most of the first lines begin so: of a long log the others are looked at then alone."""
    first = said[:_FIRST]
    return 2 * sum(words.match(f"{line} ") is not None for line in first) > len(first)


def _shared(begin: str, lines: Sequence[str], fewest: int = _FEWEST) -> Cut | None:
    """What takes that begin off each line, where nearly all have it."""
    said, short = _said(lines), begin.rstrip()
    have = sum(line.startswith(begin) or line == short for line in said)
    if not begin or len(said) < fewest or have < _SHARE * len(said):
        return None
    return lambda line: len(begin) if line.startswith(begin) else len(short) if short and line == short else 0


def _marks(lines: Sequence[str]) -> Cut | None:
    """A quote's mark, an indent or a container's name."""
    first = next((line for line in lines if line.strip()), "")
    if first[:1] in " \t":
        # The block's indent is the least of its lines.
        indent = min((len(line) - len(line.lstrip(" ")) for line in _said(lines) if line[:1] == " "), default=0)
        if first[:1] == " " and (indent not in _INDENTS or not _is_block(lines, indent)):
            return None
        return _shared(" " * indent if first[:1] == " " else "\t", lines)
    found = _NAME.match(first) or _MARK.match(first)
    return _shared(found[0], lines) if found else None


def _is_block(lines: Sequence[str], indent: int) -> bool:
    """Whether it is a log in a page: a part of a listing is indented as well."""
    said = _said(lines)
    return len(said) > _PART or any(_OF_LOG.match(line, indent) for line in said)


def _launcher(lines: Sequence[str]) -> Cut | None:
    """A launcher's name of the rank, where it is one and the same: of several ranks the lines need it."""
    for line in _said(lines)[:_FEW]:
        # A line may have a time or name of its own behind it.
        who, rest = split_prefix(line)
        front = line[: len(line) - len(rest)]
        if who and not _OWN.match(front) and (cut := _shared(front, lines, _ENOUGH)) is not None:
            return cut
    return None


def _times(lines: Sequence[str]) -> Cut | None:
    """Times that a service put before each line: before rests of texts as well, which no program writes so."""
    said = _said(lines)
    if not _mostly(_STAMP, said):
        return None
    stamped = [(line, found.end()) for line in said if (found := _STAMP.match(f"{line} "))]
    if len(said) < _ENOUGH or len(stamped) < _SHARE * len(said):
        return None
    services = {line[_DAY:end].rstrip() for line, end in stamped}
    if said[0][:1].isalpha() and len(services) > 1:
        return None
    if not _OF_RUNTIME.search(said[0]) and not any(_BEGINS.match(line[end:]) for line, end in stamped):
        return None
    return _stamp_ends


def _stamp_ends(line: str) -> int:
    found = _STAMP.match(f"{line} ")
    return min(found.end(), len(line)) if found else 0


def _numbers(lines: Sequence[str]) -> Cut | None:
    """The numbers of lines, as `cat -n`, `grep -n ''` and pagers write them."""
    said = _said(lines)
    if not _mostly(_COUNT, said):
        return None
    found = [_COUNT.match(line) for line in said]
    counts = [int(each["number"]) for each in found if each]
    if len(counts) < max(_FEWEST, _SHARE * len(found)) or any(b - a != 1 for a, b in pairwise(counts)):
        return None
    return lambda line: match.end() if (match := _COUNT.match(line)) else 0
