"""What may reach a terminal: text whose control characters are shown as what they are, and do nothing."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from busbw.base.secrets import hide_values
from busbw.base.sentences import visible

# Drawn anew by each process, so that no file can hold it: what stands behind it is busbw's own.
_MARK = "\x1b" + "".join(chr(0xE000 + byte) for byte in os.urandom(12))
_OURS = re.compile(_MARK + r"(\x1b\[(?:[0-9]{1,2}m|K)|\r)")


def own(sequence: str) -> str:
    """A colour, `\\r` or an erasing of busbw's own, which `guarded` lets through; foreign ones it spells out."""
    return _MARK + sequence


START_OF_LINE = own("\r")
EMPTY_LINE = START_OF_LINE + own("\x1b[K")


def guarded(text: str) -> str:
    """As `visible`, but for the sequences of busbw's own colours and progress, which `own` marked."""
    if text.isascii() and text.isprintable():
        return text
    parts = _OURS.split(text)
    return "".join(part if number % 2 else visible(part) for number, part in enumerate(parts))


class Guarded:
    """A stream for people: as the one behind it, but what is written goes through `guarded`."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write what is safe of the text, without secrets that are known by their form."""
        self._stream.write(guarded(hide_values(text)))
        return len(text)

    def writelines(self, lines: Iterator[str]) -> None:
        """Write what is safe of each."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def guarding() -> Iterator[None]:
    """While it lasts, stdout and stderr pass nothing on that acts on a terminal."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = Guarded(sys.stdout), Guarded(sys.stderr)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def no_more_output() -> None:
    """Stdout must not be flushed again at exit, where that would end in a traceback."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def read_or_not() -> Iterator[None]:
    """Where the reader (head, less) goes away, the rest is printed for nobody, and the verb's own exit code stands."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        no_more_output()
