"""Plain pieces of text of which every match of a regular expression holds one: a quick look before the expression."""

from __future__ import annotations

from collections.abc import Iterator

_QUANTIFIERS = "*?{"


def triggers_of(pattern: str) -> tuple[str, ...]:
    """Texts in lower case, without digits; () where the pattern has no such text.

    Digits are left out since the scan looks at lines of one shape, which differ in numbers, only once.
    """
    found: list[str] = []
    for alternative in _alternatives(pattern):
        best = max(_required(alternative), key=lambda each: min(map(len, each)), default=())
        if not best:
            return ()
        found += best
    return tuple(dict.fromkeys(found))


def _alternatives(pattern: str) -> list[str]:
    """The pattern, split at every | outside of groups and sets."""
    parts, start, at, depth = [], 0, 0, 0
    while at < len(pattern):
        char = pattern[at]
        if char == "|" and depth == 0:
            parts.append(pattern[start:at])
            start = at + 1
        depth += (char == "(") - (char == ")")
        at = _after(pattern, at)
    return [*parts, pattern[start:]]


def _required(pattern: str) -> Iterator[tuple[str, ...]]:
    """Every set of texts of which a match must hold one, for a pattern without | at its top."""
    run, at = "", 0
    while at < len(pattern):
        char, after = pattern[at], _after(pattern, at)
        inner = ""
        if char == "(":
            end = _end_of_group(pattern, at)
            inner, after = pattern[at + 1 : end], end + 1
        optional = pattern[after : after + 1] != "" and pattern[after] in _QUANTIFIERS
        literal = "" if optional else _literal(pattern, at)
        run += literal
        if run and not (literal and after < len(pattern)):
            yield (run.lower(),)
        if not literal:
            run = ""
        if inner and not optional and not inner.startswith(("?!", "?=", "?<")):
            words = triggers_of(_body(inner))
            if words:
                yield words
        at = pattern.index("}", after) + 1 if optional and pattern[after] == "{" else after + optional


def _literal(pattern: str, at: int) -> str:
    """The character that stands for itself there; "" for anything else."""
    char = pattern[at]
    if char == "\\":
        return pattern[at + 1] if not pattern[at + 1].isalnum() else ""
    return "" if char in ".^$+?*{}()[" or char.isdigit() else char


def _after(pattern: str, at: int) -> int:
    """Where the character or set ends."""
    if pattern[at] == "\\":
        return at + 2
    if pattern[at] != "[":
        return at + 1
    end = at + 1 + (pattern[at + 1] == "^")
    end += pattern[end] == "]"
    while pattern[end] != "]":
        end = end + 2 if pattern[end] == "\\" else end + 1
    return end + 1


def _end_of_group(pattern: str, at: int) -> int:
    depth = 0
    while True:
        depth += (pattern[at] == "(") - (pattern[at] == ")")
        if depth == 0:
            return at
        at = _after(pattern, at)


def _body(inner: str) -> str:
    """A group's inside without ?: or its name."""
    if inner.startswith("?:"):
        return inner[2:]
    return inner.partition(">")[2] if inner.startswith("?P<") else inner
