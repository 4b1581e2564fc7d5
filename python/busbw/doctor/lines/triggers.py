"""Plain pieces of text of which every match of a regular expression holds one: a quick look before the expression."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

_QUANTIFIERS = "*?{"
_GRAM = 4
"""Characters of the piece of a trigger by which a line is looked up."""
_SHORTEST = 3
_USUAL = " "


class TriggerIndex:
    """Which of many sets of triggers a line may belong to, by pieces of four characters, all looked up at once.

    Two thousand triggers one after the other cost 0.6 ms a line. A set of pieces meets those of a line in 5 us.
    """

    def __init__(self, sets: Sequence[Sequence[str]]) -> None:
        owners: dict[str, list[int]] = {}
        for number, words in enumerate(sets):
            for word in words:
                owners.setdefault(word, []).append(number)
        usual = Counter(piece for word in owners for piece in _pieces(word))
        by_piece: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
        self._short: list[tuple[str, tuple[int, ...]]] = []
        self._foreign: list[tuple[str, tuple[int, ...]]] = []
        for word, numbers in owners.items():
            owned = word, tuple(numbers)
            if not word.isascii():
                self._foreign.append(owned)
            elif len(word) < _GRAM:
                self._short.append(owned)
            else:
                # The piece that the fewest triggers share: "fail" would be found in every second line.
                rare = min(_pieces(word), key=lambda piece: (usual[piece], _USUAL in piece, piece))
                by_piece.setdefault(rare, []).append(owned)
        self._by_piece = by_piece
        self._rare = frozenset(by_piece)

    def of(self, lowered: str) -> list[int]:
        """Numbers of the sets of which a trigger stands in the line, which is in lower case; in their order."""
        found = set[int]()
        pieces = map("".join, zip(lowered, lowered[1:], lowered[2:], lowered[3:], strict=False))
        for piece in self._rare.intersection(pieces):
            for word, numbers in self._by_piece[piece]:
                if word in lowered:
                    found.update(numbers)
        for word, numbers in self._short:
            if word in lowered:
                found.update(numbers)
        if not lowered.isascii():
            for word, numbers in self._foreign:
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
    for alternative in alternatives(pattern):
        best = max(_required(alternative), key=_worth, default=())
        if not best:
            return ()
        found += best
    return tuple(dict.fromkeys(found))


_COMMON = frozenset(
    {"nccl warn", "nccl warn ", "nccl info", "nccl info ", "nccl ", "nccl", "failed", " failed", "error"}
)
_COMMON |= {"failed to ", " failed: ", "error: ", ": error", " error", "failure", "memory", "device", "exception"}


def _worth(words: tuple[str, ...]) -> float:
    """How few lines hold one of the texts: by the shortest, less where thousands of lines of a log hold it."""
    return min(max(3.0, 0.4 * len(each)) if each in _COMMON else len(each) for each in words)


Needs = tuple[tuple[tuple[str, ...], ...], ...]
"""Of each alternative of a pattern the sets of texts of which every match holds one each."""


def needs_of(pattern: str) -> Needs:
    """Texts in lower case that a line must hold besides a trigger; () where `triggers_of` finds none."""
    if not triggers_of(pattern):
        return ()
    return tuple(_sets(each) for each in alternatives(pattern))


def _sets(alternative: str) -> tuple[tuple[str, ...], ...]:
    """The sets of one alternative, the rarest texts first."""
    found = {words for words in _required(alternative) if min(map(len, words)) >= _SHORTEST}
    # The texts of a run are told again for each character that it grows by.
    kept = [words for words in found if not any(_implied(words, other) for other in found if other != words)]
    best = max(_required(alternative), key=_worth)
    return tuple(sorted(kept, key=lambda words: (-_worth(words), words))) or (best,)


def _implied(words: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether a line that holds one of the others holds one of the words for that."""
    return all(any(word in each for word in words) for each in other)


def alternatives(pattern: str) -> list[str]:
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
