"""Text for terminals: aligned columns, wrapped sentences, colour only where a person looks at it."""

from __future__ import annotations

import os
import textwrap
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TextIO

from busbw.base.terminal import own

WIDTH = 80
_CODES: Mapping[str, str] = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def clean(text: object) -> str:
    """Text of a record without control characters: an escape sequence in a host name must not reach the terminal."""
    return "".join(c if c.isprintable() else "\ufffd" for c in str(text))


def wants_colour(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """True for a terminal, unless NO_COLOR is set or TERM is dumb (https://no-color.org)."""
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb" and stream.isatty()


def paint(text: str, style: str, *, colour: bool) -> str:
    return own(f"\x1b[{_CODES[style]}m") + text + own("\x1b[0m") if colour and style in _CODES else text


def display_width(text: str) -> int:
    """Columns that a terminal gives to the text; CJK characters take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )  # fmt: skip


def shorten(text: str, width: int) -> str:
    """The text in at most `width` columns; what is cut out of its middle is marked, since both ends tell runs apart."""
    text = clean(text)
    if display_width(text) <= width:
        return text
    if width <= 4:
        return text[:width]
    tail = (width - 2) // 2
    head = width - 2 - tail
    return f"{text[:head]}..{text[len(text) - tail :]}"


def pad(text: str, width: int, *, right: bool) -> str:
    gap = " " * max(0, width - display_width(text))
    return gap + text if right else text + gap


def columns(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: Sequence[int] = (),
    gap: str = "  ",
    styles: Mapping[tuple[int, int], str] | None = None,
) -> list[str]:
    """Aligned lines: numbers to the right, the columns named in `left` to the left; `styles` by (row, column)."""
    cells = [[clean(cell) for cell in row] for row in (header, *rows)]
    widths = [max(display_width(row[i]) for row in cells) for i in range(len(header))]
    lines = []
    for number, row in enumerate(cells):
        padded = [pad(cell, widths[i], right=i not in left) for i, cell in enumerate(row)]
        for i, cell in enumerate(padded):
            style = (styles or {}).get((number - 1, i))
            if style:
                padded[i] = paint(cell, style, colour=True)
        lines.append(gap.join(padded).rstrip())
    return lines


def sentences(lines: Sequence[str], *, indent: str = "", bullet: str = "- ", width: int = WIDTH) -> list[str]:
    """Wrapped lines, continuation lines under their first word."""
    wrapped: list[str] = []
    for line in lines:
        wrapped += textwrap.wrap(
            clean(line), width, initial_indent=indent + bullet, subsequent_indent=indent + " " * len(bullet),
            break_on_hyphens=False, break_long_words="://" not in line,  # half an address is none
        )  # fmt: skip
    return wrapped
