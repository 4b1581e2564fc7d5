"""The lines of a kept record as plain objects: the index needs no more checks; a run that is used is read with all."""

from __future__ import annotations

import json
from functools import partial
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO

from busbw.base.bounds import bounded
from busbw.base.errors import UserError
from busbw.base.files import bytes_on_disk, open_to_read, read_start
from busbw.records.reader import MAX_LINE_BYTES

SMALL = 64 << 10
"""Bytes of a record that is read at once: JSON of that size takes milliseconds and at most 2 MiB, whatever it says."""
MOST_LINES, MOST_BYTES = 50_000, 32 << 20
"""Of a record that are looked at, beside its end: a second of processor time and 100 MiB."""
TAIL = 64 << 10
"""Bytes at the end of a record in which its last line is looked for."""
_DECODER = json.JSONDecoder()


def read_lines(path: Path, size: int) -> tuple[list[dict[str, Any]], str | None]:
    """The lines of a record of `size` bytes, and what is wrong with it; what is still being written is left out.

    Of a very long one these are the first lines and the last, and what is wrong says so.

    Small records are read at once, which takes half the time of reading them line by line (3,000 records of 3 rows: 0.3
    and 0.65 s of processor), and a fifth of the time of checking every field, which whoever uses a run does.
    """
    if size <= SMALL:
        try:
            data = read_start(path, SMALL + 1)
        except UserError as problem:
            return [], str(problem)
        lines = _at_once(data)
        if lines is not None:
            return lines, None
    return _one_by_one(path)


def _at_once(data: bytes) -> list[dict[str, Any]] | None:
    """The lines of a small record; None where it has to be looked at line by line, to say what is wrong."""
    if len(data) > SMALL:
        return None  # it grew
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    lines: list[dict[str, Any]] = []
    begin = 0
    # What follows the last line's end is still being written, or was cut off by a kill.
    while (end := text.find("\n", begin)) >= 0:
        try:
            line, ended = _DECODER.raw_decode(text, begin)
        except (ValueError, RecursionError):
            return None
        if ended != end or not isinstance(line, dict):
            return None
        lines.append(line)
        begin = end + 1
    return lines


def _one_by_one(path: Path) -> tuple[list[dict[str, Any]], str | None]:
    lines: list[dict[str, Any]] = []
    try:
        with open_to_read(path) as stream, bounded(str(path), bytes_on_disk(stream.fileno())):
            taken = 0
            for number, raw in enumerate(iter(partial(stream.readline, MAX_LINE_BYTES), b""), start=1):
                taken += len(raw)
                if number > MOST_LINES or (taken > MOST_BYTES and number > 2):
                    return lines + _last(stream), f"only its first {len(lines) - 1:,} cases are in the index"
                if len(raw) == MAX_LINE_BYTES:
                    return lines, f"line {number} is longer than {MAX_LINE_BYTES >> 20} MiB"
                if not raw.endswith(b"\n"):
                    # Still being written, or cut off by a kill: the lines before it stand.
                    break
                line = _object(raw)
                if line is None:
                    return lines, f"line {number} is no JSON object"
                lines.append(line)
    except UserError as problem:
        return [], str(problem)
    except OSError as problem:
        return lines, problem.strerror or str(problem)
    return lines, None


def _last(stream: BinaryIO) -> list[dict[str, Any]]:
    """The last line of a record, where it is its end."""
    stream.seek(max(0, stream.seek(0, SEEK_END) - TAIL))
    *_, last, rest = stream.read(TAIL).rpartition(b"\n")[0].rpartition(b"\n")
    line = _object(rest) if last else None
    return [line] if line is not None and line.get("kind") == "end" else []


def _object(raw: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None
