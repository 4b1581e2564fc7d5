"""Plain pieces of text of which every match of a regular expression holds one: a quick look before the expression."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

_QUANTIFIERS = "*?{"
_LONGEST = 64
_DIGIT = re.compile(r"\d")
_GRAM = 4
_SHORTEST = 3
"""Characters of the piece of a trigger by which a line is looked up."""


_MAX_WORDS = 100_000
_DIGITS = b"0123456789"


class TriggerIndex:
    """Which of many sets of triggers a line may belong to, by the words of the line, each looked at once.

    Two thousand triggers one after the other cost 0.6 ms a line. Lines are made of the same words again and again, so
    that what a word may be the part of is kept.
    """

    def __init__(self, sets: Sequence[Sequence[str]]) -> None:
        owners: dict[str, list[int]] = {}
        for number, words in enumerate(sets):
            for word in words:
                owners.setdefault(word, []).append(number)
        shared = Counter(part for word in owners for part in set(word.split()))
        self._cores = {
            word: max(word.split() or [""], key=lambda part: (min(len(part), _GRAM), -shared[part], len(part)))
            for word in owners
        }
        self._owners = {word: tuple(numbers) for word, numbers in owners.items()}
        # A line's words are looked up without their digits, and by ASCII.
        plain = {word for word, core in self._cores.items() if core and word.isascii() and _DIGIT.search(core) is None}
        self._always = [each for each in owners if each not in plain and each.isascii()]
        self._foreign = [each for each in owners if not each.isascii()]
        self._short = [each for each in owners if each in plain and len(self._cores[each]) < _GRAM]
        usual = Counter(piece for word in owners for piece in _pieces(self._cores[word]))
        self._by_piece: dict[str, list[str]] = {}
        for word in owners:
            core = self._cores[word]
            if len(core) >= _GRAM:
                # The piece that the fewest triggers share: "fail" would be found in every second line.
                rare = min(_pieces(core), key=lambda piece: (usual[piece], piece))
                self._by_piece.setdefault(rare, []).append(word)
        self._kept: dict[bytes, tuple[tuple[str, tuple[int, ...]], ...]] = {}

    def of(self, lowered: str) -> list[int]:
        """Numbers of the sets of which a trigger stands in the line, which is in lower case; in their order."""
        found = set[int]()
        if not lowered.isascii():
            words = chain(self._always, self._foreign, self._short, self._near(lowered))
            found.update(number for word in words if word in lowered for number in self._owners[word])
            return sorted(found)
        kept = self._kept
        for part in lowered.encode().translate(None, _DIGITS).split():
            near = kept.get(part)
            if near is None:
                near = self._keep(part)
            for word, numbers in near:
                if word in lowered:
                    found.update(numbers)
        for word in self._always:
            if word in lowered:
                found.update(self._owners[word])
        return sorted(found)

    def _near(self, text: str) -> Iterator[str]:
        for piece in self._by_piece.keys() & _pieces(text):
            yield from self._by_piece[piece]

    def _keep(self, part: bytes) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The triggers of which that word of a line may be the longest one."""
        text, cores = part.decode(), self._cores
        words = dict.fromkeys(each for each in chain(self._short, self._near(text)) if cores[each] in text)
        near = tuple((each, self._owners[each]) for each in words)
        if len(self._kept) >= _MAX_WORDS:
            self._kept.clear()
        if len(part) <= _LONGEST:
            self._kept[part] = near
        return near


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
