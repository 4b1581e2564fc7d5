"""Lines of a large job's log that hold nothing of interest: known again by all but their digits, and passed by."""

from __future__ import annotations

import re
from functools import lru_cache

from busbw.importers.context import SIGNS
from busbw.importers.prefixes import ends_head, is_time
from busbw.importers.stream import STARTS, Stream
from busbw.importers.values import ELEMENT_BYTES

MAX_SHAPES = 20_000
"""Shapes of lines of no interest that are remembered."""
IN_VAIN = 64
"""Lines with a table's words that are offered to the formats in vain, far from any result, before others like them are
not: those of a training's steps that name a throughput."""
MAX_HEADS = 20_000
"""Prefixes of one form that are remembered with the stream of lines that they name."""

_DIGITS = b"0123456789"


def _without_digits(sign: str) -> str:
    assert sign.isascii()
    return "".join(each for each in sign if not each.isdigit())


def _shortest(signs: set[str]) -> tuple[str, ...]:
    """Those of the signs that hold no other of them: whatever holds a sign holds one of these."""
    return tuple(sorted(each for each in signs if not any(other in each for other in signs if other != each)))


_INTEREST = _shortest({_without_digits(sign) for sign in (*STARTS, *SIGNS, *(f" {name} " for name in ELEMENT_BYTES))})
"""One of these is in every line that starts a table, names a command, or is a row without a header: without digits."""
_ALL_LETTERS = tuple(each for each in _INTEREST if each.replace(" ", "").isalpha() and each.islower())
_WITH_MARKS = tuple(each for each in _INTEREST if each not in _ALL_LETTERS)
_MARK = re.compile(r"[^a-z ]")
"""Without such a character no sign of _WITH_MARKS stands in a line."""
Head = str | tuple[str, str] | None
Known = tuple[str, dict[Head, Stream]]
_ONE_DIGIT = dict.fromkeys(map(ord, "123456789"), "0")
_NO_HEAD: Known = ("\n", {})
"""Of a line whose prefix has no sure end: no stream is found by it."""


class DullLines:
    """The shapes (all of a line but its digits) in which no table, command or row can start."""

    def __init__(self) -> None:
        self._shapes: dict[bytes, Known | None] = {}
        self._vain: dict[bytes, int] = {}
        self._heads: dict[tuple[str, str], dict[Head, Stream]] = {}

    def holds(self, line: str, text: str, stream: Stream, shape: bytes | None = None) -> bool:
        """Whether a line is dull; `text` is what its prefix leaves, `stream` whose line it is."""
        shape = shape or shape_of(line)
        if shape in self._shapes:
            known = self._shapes[shape]
        else:
            known = self._looked_at(shape, line, text)
            if len(self._shapes) < MAX_SHAPES and len(shape) < 500:
                self._shapes[shape] = known
        if known is None:
            return False
        end, heads = known
        if end != "\n" and len(heads) < MAX_HEADS:
            head = line[: len(line) - len(text) - len(end)]
            if line.startswith(end, len(head)) and end not in head:
                heads[_behind_time(head) or head] = stream
        return True

    def _looked_at(self, shape: bytes, line: str, text: str) -> Known | None:
        """What ends the prefix of lines of that shape, and their streams; None where they are of interest."""
        characters = shape.decode("latin-1")
        for sign in _ALL_LETTERS:  # a generator, and bytes, cost several times as much
            if sign in characters:
                return None
        if _MARK.search(characters) is not None:
            for sign in _WITH_MARKS:
                if sign in characters:
                    return None
        end, head = ends_head(line, text)
        return (end, self._heads.setdefault((end, head), {})) if end else _NO_HEAD

    def in_vain(self, shape: bytes) -> None:
        """A line of that shape was offered to all formats, far from any result, and none took it."""
        if shape in self._vain or len(self._vain) < MAX_SHAPES:
            self._vain[shape] = self._vain.get(shape, 0) + 1

    def was_in_vain(self, shape: bytes) -> bool:
        """Whether so many lines of that shape were no results that no further one is tried."""
        return self._vain.get(shape, 0) >= IN_VAIN

    def shapes_of(self, lines: list[str]) -> list[bytes]:
        """The shape of each line for `passed`; none where nothing can be passed yet."""
        if not self._heads:
            return []
        # One call for all lines takes a third of the time of one each.
        shapes = shape_of("\n".join(lines)).split(b"\n")
        return shapes if len(shapes) == len(lines) else []

    def passed(self, lines: list[str], shapes: list[bytes], at: int) -> list[str]:
        """The dull lines from `at` on, without prefix: most of a large log are, many thousand alike.

        The shape says what ends a line's prefix, the prefix whose line it is (see `ends_head`).
        """
        known = self._shapes
        found: list[str] = []
        for index in range(at, len(lines)):
            shape = known.get(shapes[index])
            if shape is None:
                break
            head, _, text = lines[index].partition(shape[0])
            stream = shape[1].get(head) or shape[1].get(_behind_time(head))
            if stream is None or not stream.is_cold:
                break
            stream.before = text
            found.append(text)
        return found


def _behind_time(head: str) -> tuple[str, str] | None:
    """(the form of a time, what stands behind it): no two lines of a log have the same time."""
    when, _, who = head.rpartition(" ")
    form = when.translate(_ONE_DIGIT)
    return (form, who) if _is_time(form) else None


@lru_cache(maxsize=1024)
def _is_time(form: str) -> bool:
    return is_time(form.strip("[]"))


def shape_of(text: str) -> bytes:
    """All of a text but its digits."""
    return text.encode("utf-8", "replace").translate(None, _DIGITS)
