"""A log as a program wrote it, of one that a terminal coloured, or that went through an editor, a chat or a page.

Such programs make quotes and dashes of their own, put spaces that do not break, and leave a line free after each.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_COLOUR = re.compile(r"\x1b\[[0-9;]{0,16}[A-Za-z]")
_MARKS = {
    **dict.fromkeys(map(ord, "\u00a0\u2007\u202f"), " "),
    **dict.fromkeys(map(ord, "\u2018\u2019"), "'"),
    **dict.fromkeys(map(ord, "\u201c\u201d"), '"'),
    **dict.fromkeys(map(ord, "\u200b\u2060\ufeff"), ""),
    **dict.fromkeys(map(ord, "\u2013\u2212"), "-"),
    ord("\u2014"): "--",
}
_ANY_MARK = re.compile("[" + "".join(map(chr, _MARKS)) + "]")
_FEWEST, _SHARE = 4, 0.95


def as_typed(text: str) -> str:
    """The text without colours, with the signs that programs write; it has as many lines."""
    return with_plain_marks(uncoloured(text))


def uncoloured(text: str) -> str:
    """The text without what colours it on a terminal."""
    return _COLOUR.sub("", text) if "\x1b[" in text else text


def with_plain_marks(text: str) -> str:
    """The text with the quotes, dashes and spaces that programs write."""
    return text if text.isascii() or not _ANY_MARK.search(text) else text.translate(_MARKS)


def is_spaced(lines: Sequence[str]) -> bool:
    """Whether each line has a free one behind it, as copies of pages have: nearly all do."""
    free = sum(not line.strip() for line in lines[1::2])
    return len(lines) >= _FEWEST and free >= _SHARE * (len(lines) // 2) and sum(map(bool, lines)) * 4 > len(lines)
