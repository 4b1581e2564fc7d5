"""Plain pieces of text of which every match of a regular expression holds one: a quick look before the expression."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

_QUANTIFIERS = "*?{"
_GRAM = 4
"""Characters of the piece of a trigger by which a line is looked up."""


class TriggerIndex:
    """Which of many sets of triggers a line may belong to, by one look at the line's pieces of four characters.

    A thousand triggers one after the other cost 0.6 ms a line; the pieces of a line of 150 characters cost 0.02 ms.
    """

    def __init__(self, sets: Sequence[Sequence[str]]) -> None:
        owners: dict[str, list[int]] = {}
        for number, words in enumerate(sets):
            for word in words:
                owners.setdefault(word, []).append(number)
        usual = Counter(piece for word in owners for piece in _pieces(word))
        self._short = [(word, numbers) for word, numbers in owners.items() if len(word) < _GRAM]
        self._by_piece: dict[str, list[tuple[str, list[int]]]] = {}
        for word, numbers in owners.items():
            if len(word) >= _GRAM:
                # The piece that the fewest triggers share: "fail" would be found in every second line.
                rare = min(_pieces(word), key=lambda piece: (usual[piece], piece))
                self._by_piece.setdefault(rare, []).append((word, numbers))

    def of(self, lowered: str) -> list[int]:
        """Numbers of the sets of which a trigger stands in the line, which is in lower case; in their order."""
        found = {number for word, numbers in self._short if word in lowered for number in numbers}
        for piece in self._by_piece.keys() & _pieces(lowered):
            for word, numbers in self._by_piece[piece]:
                if word in lowered:
                    found.update(numbers)
        return sorted(found)


def _pieces(text: str) -> set[str]:
    return {text[at : at + _GRAM] for at in range(len(text) - _GRAM + 1)}


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
    for start in ("?:", "?-i:"):
        if inner.startswith(start):
            return inner[len(start) :]
    return inner.partition(">")[2] if inner.startswith("?P<") else inner
