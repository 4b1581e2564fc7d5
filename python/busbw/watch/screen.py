"""Keeps a table in the lowest lines of a terminal, while a program goes on to print above them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TextIO

from busbw.base.sentences import visible

HEIGHT = 18
"""Lines of the table at most; half of a small terminal."""
_LEAST = 6


class Screen:
    """The lowest lines of a terminal. They are left out of what scrolls, and given back at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shape = (0, 0)

    @staticmethod
    def fits(stream: TextIO) -> bool:
        """Whether the stream is a terminal that such a table can be drawn on; never a pipe or a file."""
        try:
            return (
                stream.isatty()
                and os.environ.get("TERM", "dumb") != "dumb"
                and os.get_terminal_size(stream.fileno()).lines // 2 >= _LEAST
            )
        except (OSError, ValueError):
            return False

    @property
    def width(self) -> int:
        """Characters of a line."""
        try:
            return max(20, os.get_terminal_size(self._stream.fileno()).columns)
        except OSError:
            return 80

    @property
    def height(self) -> int:
        """Lines of the table."""
        try:
            return min(HEIGHT, os.get_terminal_size(self._stream.fileno()).lines // 2)
        except OSError:
            return HEIGHT

    def draw(self, lines: Sequence[str]) -> None:
        """Replace the table."""
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except OSError:
            return
        height = min(HEIGHT, size.lines // 2)
        if height < _LEAST:
            return
        words = []
        if (size.lines, height) != self._shape:
            # Room below the cursor first, so that nothing that was printed lies under the table.
            words.append("\n" * height + f"\x1b[{height}A")
            words.append(f"\x1b7\x1b[1;{size.lines - height}r\x1b8")
            self._shape = (size.lines, height)
        words.append("\x1b7")
        for at in range(height):
            text = lines[at] if at < len(lines) else ""
            words.append(f"\x1b[{size.lines - height + 1 + at};1H\x1b[2K{visible(text)[: size.columns - 1]}")
        words.append("\x1b8")
        self._write("".join(words))

    def close(self) -> None:
        """Give the lines back to what scrolls, and clear them."""
        lines, height = self._shape
        if lines:
            self._write(f"\x1b7\x1b[r\x1b[{lines - height + 1};1H\x1b[J\x1b8")
            self._shape = (0, 0)

    def _write(self, text: str) -> None:
        # Past the guard of what people read: the cursor has to move. What is shown was made visible above.
        left = text.encode(errors="replace")
        try:
            self._stream.flush()
            while left:
                left = left[os.write(self._stream.fileno(), left) :]
        except (OSError, ValueError):
            self._shape = (0, 0)
