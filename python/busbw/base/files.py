"""Files that a user names: read up to a limit, written, and a sentence where either fails."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from busbw.base.errors import UserError


def read_bytes(path: str | Path, most: int, *, what: str = "", hint: str) -> bytes:
    """The content of up to `most` bytes; UserError calls the file `what` and gives the hint where it is larger."""
    data = read_start(path, most + 1, what=what)
    if len(data) > most:
        raise UserError(f"{_called(what, path)} is larger than {most >> 20} MiB; {hint}")
    return data


def read_start(path: str | Path, most: int, *, what: str = "") -> bytes:
    """The first `most` bytes, or all where there are fewer."""
    try:
        with Path(path).open("rb") as file:
            return file.read(most)
    except OSError as problem:
        raise UserError(f"{_called(what, path)} cannot be read: {problem.strerror or problem}") from problem


def read_text(path: str | Path, most: int, *, what: str = "", hint: str) -> str:
    """As `read_bytes`, of text in UTF-8."""
    try:
        return read_bytes(path, most, what=what, hint=hint).decode()
    except UnicodeDecodeError:
        raise UserError(f"{_called(what, path)} is no text in UTF-8") from None


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Turns what goes wrong with writing that file into a sentence."""
    try:
        yield
    except OSError as problem:
        raise UserError(f"{path} cannot be written: {problem.strerror or problem}") from problem


def _called(what: str, path: str | Path) -> str:
    return f"{what} {path}" if what else str(path)


def open_standard_descriptors() -> None:
    """Open what is closed of stdin, stdout and stderr on /dev/null: else a file of ours takes its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number is this one
    sys.stdin = sys.stdin or os.fdopen(0, "r")
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
