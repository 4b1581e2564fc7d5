"""What the words of a column's name say, in any order: figure, statistic, placement, collective, ranks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.importers.values import collective_named
from busbw.records import Collective, Placement

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")
_APART = re.compile(r"[^a-z0-9%#\u0080-\uffff]+")
_COLLECTIVE = re.compile(
    r"(?<![a-z])(?:all ?reduce|all ?gather|reduce ?scatter|all ?to ?all(?: ?v)?|broadcast|bcast|send ?recv)(?![a-z])"
)
_RANKS = re.compile(
    r"(?<![a-z0-9])(?:(\d{1,5}) ?(?:x )?(?:gpus?|ranks?|procs?|processes|devices|pes)"
    r"|(?:np|nranks|ranks|gpus|ngpus|world ?size) (\d{1,5}))(?![a-z0-9])"
)
_OUT = re.compile(r"(?<![a-z])(?:out of place|out place|outplace|oop|outofplace)(?![a-z])|(?<=[a-z]) out$")
_IN = re.compile(r"(?<![a-z])(?:in place|inplace|ip)(?![a-z])|(?<=[a-z]) in$")
_LIBRARY = re.compile(r"(?<![a-z])[a-z]{0,8}ccl[a-z]{0,4}(?![a-z])|(?<![a-z])(?:gloo|ucc|mpi)(?![a-z])")
_OTHER_STATISTIC = re.compile(
    r"(?<![a-z0-9])(?:min|max|minimum|maximum|std|stdev|stddev|sd|cv|var|best|worst|slowest|fastest|lowest|highest"
    r"|p ?(?!50)\d\d|first|last|ideal|expected|theoretical|reference|ref|threshold|predicted|target|total)(?![a-z0-9])"
)
_MIDDLE = re.compile(r"(?<![a-z0-9])(?:avg|average|mean|median|med|p ?50)(?![a-z0-9])")
_TIME_UNIT = re.compile(r"(?<![a-z0-9])(us|usec|ms|msec|ns)(?![a-z0-9])")
_FIGURES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (field, re.compile(rf"(?<![a-z])(?:{words})(?![a-z])"))
    for field, words in (
        ("algbw", r"alg(?:o|orithm|orithmic)? ?(?:bws?|bandwidths?)"),
        ("busbw", r"bus ?(?:bws?|bandwidths?)"),
        ("bw", r"bw|bandwidths?|throughput|tput"),
        ("time", r"times?|latency|latencies|lat|duration|elapsed|t"),
        ("bytes", r"sizes?|bytes?|nbytes|payload"),
        ("count", r"elements?|elems?|count|numel"),
        ("wrong", r"#?wrong|errors?|mismatch(?:es)?"),
    )
)
_FILLERS = frozenset((
    "a", "achieved", "actual", "algo", "algorithm",
    "and", "buf", "buffer", "call", "collective", "comm", "communication", "cuda", "data",
    "estimated", "full", "gpu",
    "in", "input", "iter", "iteration", "kernel", "measured", "message", "msg", "num", "observed", "number", "of", "op",
    "out", "output", "per", "tensor", "the", "transfer", "wall",
))  # fmt: skip
_ASIDE = frozenset((
    "%", "backend", "change", "date", "delta", "diff", "efficiency", "gain", "host", "hostname", "improvement",
    "iter", "iterations", "iters", "niters", "node", "ok", "percent", "ratio", "rc", "repetitions", "reps",
    "result", "runs", "speedup", "status", "timestamp", "trials", "warmup", "warmups",
))  # fmt: skip
"""Columns beside results that are known, and not kept."""


@dataclass(frozen=True)
class Named:
    """What a name says; `field` is `aside` for what is known and not kept."""

    field: str
    unit: str = ""
    placement: Placement | None = None
    library: str | None = None
    collective: Collective | None = None
    ranks: int | None = None


_ANY_FIGURE = re.compile("|".join(pattern.pattern for _, pattern in _FIGURES))


def stands_alone(word: str) -> bool:
    """Whether a single word in lower case may be a column's whole name."""
    return word in _ASIDE or _ANY_FIGURE.fullmatch(word) is not None


def plain_words(name: str) -> str:
    """The words of a name in lower case with single blanks between them."""
    return " ".join(_APART.sub(" ", _CAMEL.sub(" ", name).lower()).split())


def named(name: str, unit: str) -> Named | None:
    """What a name without its unit says; None where a word is unknown or no figure is named."""
    text = plain_words(name)
    if text in _ASIDE:
        return Named("aside")
    return _said(text, unit) if 0 < len(text) <= 100 else None


def _said(text: str, unit: str) -> Named | None:
    collective, library, ranks = None, None, None
    if found := _COLLECTIVE.search(text):
        collective, text = collective_named(found[0]), _without(text, found)
    if found := _RANKS.search(text):
        ranks, text = int(found[1] or found[2]), _without(text, found)
    placement: Placement | None = None
    for pattern, which in ((_OUT, "out_of_place"), (_IN, "in_place")):
        if placement is None and (found := pattern.search(text)):
            placement, text = which, _without(text, found)  # type: ignore[assignment]
    if found := _LIBRARY.search(text):
        library, text = found[0], _without(text, found)
    if (found := _TIME_UNIT.search(text)) and not unit:
        unit, text = found[1].removesuffix("ec"), _without(text, found) if len(text) > len(found[0]) else "time"
    field, is_other = _field(text, unit)
    if field is None or (is_other and field != "bytes"):
        return Named("aside") if field else None
    return Named(field, unit, placement, library, collective, ranks)


def _field(text: str, unit: str) -> tuple[str | None, bool]:
    """(the figure of words without whose it is, whether it is another statistic of it than the middle)."""
    other, middle = _OTHER_STATISTIC.search(text), None
    if other:
        text = _without(text, other)
    if middle := _MIDDLE.search(text):
        text = _without(text, middle)
    field, rest = _figure(text)
    if field is None and not rest and (other or middle) and unit in ("us", "ms", "ns", "s"):
        field = "time"
    return (field if set(rest.split()) <= _FILLERS else None), other is not None


def _figure(text: str) -> tuple[str | None, str]:
    for field, pattern in _FIGURES:
        if found := pattern.search(text):
            return field, _without(text, found)
    return None, text


def _without(text: str, found: re.Match[str]) -> str:
    return " ".join(f"{text[: found.start()]} {text[found.end() :]}".split())
