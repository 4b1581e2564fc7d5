"""Lines of a file of any kind and size: decoded, numbered, bounded, with binary files refused by name."""

from __future__ import annotations

import bz2
import codecs
import copy
import io
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, BinaryIO, Protocol

from busbw.base.effort import EFFORT, HINT, MIB, per_mib
from busbw.base.errors import UserError
from busbw.base.files import open_to_read
from busbw.base.typography import with_plain_marks
from busbw.importers import zstd
from busbw.importers.gunzip import Gunzip
from busbw.importers.unwrap import (
    HTML,
    WRAPPED,
    CsvLog,
    HtmlText,
    Unwrapper,
    cast_text,
    is_cast,
    is_escaped,
    is_quoted_printable,
    quoted_printable,
    unescaped,
)

MAX_LINE = 1 << 16
"""Characters of one line; no benchmark prints more, JSON files are read by their own reader."""

SNIFFED = 1 << 16
"""Bytes looked at to tell what a file is."""

MAX_UNPACKED = 8 << 30
"""Bytes that a compressed file may unpack to."""

MAX_RATIO = 100
FREE_UNPACKED = 16 << 20
"""A file beyond this may unpack to so many times its size: logs give 10 to 40."""


class Readable(Protocol):
    """Whatever bytes can be read from."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes."""


PACKED: dict[bytes, Callable[[BinaryIO], Readable]] = {
    b"\x1f\x8b": Gunzip,
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ": lzma.LZMAFile,
    zstd.MAGIC: zstd.unpacking,
}
"""What a compressed file starts with, and what unpacks it while it is read."""

MAX_DOCUMENT = 32 << 20
"""Bytes of one document whose lines are told only by all of it."""

OVERDRAFT = 300_000
"""Where the lines of one block cost what is left of the call, so much more may be read to the next line."""
PER_MIB_PARSED, PER_MIB_OF_HTML = 30_000, 200_000
"""Of JSON and the like; of pages, which are mostly tables."""

_CHUNK = 1 << 20
_LINE_OF_JSON = re.compile(r"\s*\{[^\n]*\}[ \t\r]*(?:\n|$)")
_MAGIC = {b"\x7fELF": "a program", b"PK\x03\x04": "a zip archive", b"%PDF": "a PDF", b"\x89PNG": "a picture",
          b"SQLite format 3\0": "an SQLite database"}  # fmt: skip

_PICKLE = re.compile(rb"\x80[\x02-\x05](?:[}\]\x95c(]|X|\x8c)")
PICKLE_SAID = (
    "as PyTorch's flight recorder writes; unpickling runs what a file says, so busbw does not. Where you trust it: "
    "python3 -c 'import json, pickle, sys; json.dump(pickle.load(sys.stdin.buffer), sys.stdout, default=str)' "
    "< FILE > FILE.json, and import that"
)
_ANSI = re.compile(r"\x1b(?:\[[0-?]{0,40}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[@-Z\\-_])")

Progress = Callable[[int], None]
"""Takes the bytes that were read so far, unpacked."""


_ZEROS = re.compile(rb"\0{2,}")
_CONTROL = bytes(each for each in range(32) if each not in b"\t\n\r\f\x08\x1b")
_MOST_CONTROL = 0.02
"""Of bytes of text: a binary file has more. A crash leaves zeros in a log, where blocks were never written."""


def is_binary(head: bytes) -> bool:
    """Whether the first bytes of a file, with zeros in them, are of no text; a run of zeros counts as one."""
    bare = _ZEROS.sub(b"\0", head)
    return b"\0" in head and len(bare) - len(bare.translate(None, _CONTROL)) > _MOST_CONTROL * len(bare)


class Source:
    """An open file: its head for recognition, then its lines."""

    def __init__(self, stream: IO[bytes], name: str, progress: Progress | None = None) -> None:
        self.name = name
        self._progress = progress
        self._stream: Readable = stream
        self.head = _read(stream, SNIFFED, name)
        # Copying and truncating a log that is still written leaves zeros where its beginning was.
        while self.head.startswith(b"\0" * 16) and not self.head.strip(b"\0"):
            self.head = _read(stream, SNIFFED, name)
        if self.head.startswith(b"\0" * 16):
            self.head = self.head.lstrip(b"\0")
        self._packed: _Rejoined | None = None
        self._per_byte = per_mib(self.head) / MIB
        self.is_cut = False
        """Whether the lines end before the file does, as reading it costs too much."""
        unpack = next((each for magic, each in PACKED.items() if self.head.startswith(magic)), None)
        if unpack is not None:
            self._packed = _Rejoined(self.head, stream)
            self._stream = unpack(io.BufferedReader(self._packed))
            self.head = _read(self._stream, SNIFFED, name)
        self._encoding = _encoding(self.head)
        self._refuse_binary()
        self._html = HtmlText() if HTML.search(self.beginning) else None
        self._wrapped = Unwrapper() if WRAPPED.search(self.beginning) else None
        self._escaped = self._wrapped is None and is_escaped(self.beginning)
        self._csv = CsvLog.of(self.beginning)
        self.is_framed = bool(self._html or self._wrapped or self._escaped or self._csv)
        self._returns = "\r" in self.beginning and "\n" not in self.beginning
        """Whether lines end with a carriage return alone, as old programs and terminals write them."""
        self.too_long: list[int] = []
        self.taken = 0
        self._first = 1

    @property
    def packed(self) -> int | None:
        """Bytes on disk of which what was read until now is unpacked; None where the file is not packed."""
        return None if self._packed is None else self._packed.taken

    def is_plain(self, descriptor: int) -> bool:
        """Whether the lines are those of the file itself: neither unpacked, nor decoded, nor cleared of anything."""
        is_text = self._encoding in ("utf-8", "utf-8-sig") and self._packed is None
        return is_text and not self.is_framed and not self._returns and os.pread(descriptor, SNIFFED, 0) == self.head

    def later(self, descriptor: int, start: int, number: int) -> Source:
        """The same file from a line on, without moving its stream; blocks end where those of the whole file do."""
        part = copy.copy(self)
        behind = (start - SNIFFED) % _CHUNK
        part.head = os.pread(descriptor, (_CHUNK - behind) if start >= SNIFFED else SNIFFED - start, start)
        part._stream = _FromPlace(descriptor, start + len(part.head))
        part._encoding, part._progress, part._first, part.too_long = "utf-8", None, number, []
        return part

    def _refuse_binary(self) -> None:
        if not self.head.strip():
            raise UserError(f"{self.name} is empty: nothing to import")
        for magic, what in _MAGIC.items():
            if self.head.startswith(magic):
                raise UserError(f"{self.name} is {what}, not a log: nothing to import; unpack or convert it first")
        if _PICKLE.match(self.head):
            raise UserError(f"{self.name} is a Python pickle, {PICKLE_SAID}")
        if self.head[257:262] == b"ustar":
            raise UserError(
                f"{self.name} is an archive: unpack it, and give the folder (`busbw doctor` reads it as it is)"
            )
        if self._encoding == "utf-8" and is_binary(self.head):
            raise UserError(f"{self.name} is a binary file (it holds zero bytes): nothing to import")

    @property
    def beginning(self) -> str:
        """The head as text."""
        return self.head.decode(self._encoding, "replace")

    def everything(self, limit: int) -> str:
        """The whole text, for formats that are one document; refuses more than `limit` bytes."""
        blocks = [self.head]
        taken = len(self.head)
        # Block by block: a read of so many bytes sets aside memory for all of them, however short the file is.
        while taken <= limit and (block := _read(self._stream, _CHUNK, self.name)):
            blocks.append(block)
            taken += len(block)
            self._pay_for(block)
            self._check_ratio(taken)
        if taken > limit:
            raise UserError(f"{self.name} is larger than {limit >> 20} MiB, too large for one JSON document")
        return b"".join(blocks).decode(self._encoding, "replace")

    def _pay_for(self, block: bytes) -> None:
        """A part of a document that makes sense as a whole alone."""
        EFFORT.left -= len(block) * (self._per_byte + PER_MIB_PARSED / MIB)
        if EFFORT.is_spent:
            raise UserError(f"{self.name} costs too much to be read as one document: {HINT}")

    def binary(self) -> BinaryIO:
        """The whole content as it is, to be read once."""
        return io.BufferedReader(_Rejoined(self.head, self._stream))

    def _check_ratio(self, unpacked: int) -> None:
        if self._packed is not None and unpacked > FREE_UNPACKED + MAX_RATIO * self._packed.taken:
            raise UserError(
                f"{self.name} unpacks to more than {MAX_RATIO} times its size, as no log does; unpack it yourself"
            )

    def blocks(self) -> Iterator[tuple[int, list[str]]]:
        """Lines without their end, many at a time, with the number of the first of them.

        A line longer than MAX_LINE is left out, ends its block, and is noted in `too_long`.
        """
        whole_file = self._whole() if self._first == 1 else None
        if whole_file is not None:
            self.is_framed = True
            yield from self._without_long(1, [as_shown(line) for line in whole_file], skip_first=False)
            return
        number = self._first
        pending = ""
        skipping = False
        for text in self._texts():
            whole = (pending + text).replace("\r\n", "\n")
            whole = whole.replace("\r", "\n") if self._returns else whole
            lines = whole.split("\n")
            pending = lines.pop()
            read = len(lines)
            if self.is_framed:
                per_mib_ = PER_MIB_PARSED if self._html is None else PER_MIB_OF_HTML
                EFFORT.left -= len(whole) * per_mib_ / MIB + len(lines)
                lines = [part for line in lines for part in self._parts(line)]
                whole = "\x1b" if any("\x1b" in line or "\r" in line for line in lines) else ""
            if "\x1b" in whole or "\r" in whole or "\b" in whole:
                lines = [as_shown(line) for line in lines]
            if not whole.isascii():
                lines = [with_plain_marks(line) for line in lines]
            yield from self._without_long(number, lines, skip_first=skipping)
            number += read
            skipping = skipping and not read
            if len(pending) > MAX_LINE:
                pending = ""
                skipping = True
        if skipping:
            self._note_too_long(number)
        elif pending:
            texts = self._parts(pending) if self.is_framed else [pending]
            yield number, [with_plain_marks(as_shown(each)) for each in texts]

    def _parts(self, line: str) -> list[str]:
        """The lines of a log that one line of a page, a table, a string or an object of JSON holds."""
        parts = self._html.lines(line) if self._html is not None else [line]
        if self._csv is not None:
            parts = list(map(self._csv.line, parts))
        if self._escaped:
            parts = [each for part in parts for each in unescaped(part)]
        if self._wrapped is not None:
            wrapped = self._wrapped
            parts = [each for part in parts for each in (wrapped.lines_of(part) if len(part) <= MAX_LINE else [part])]
        return parts

    def _whole(self) -> list[str] | None:
        """The lines of a file that has to be read as a whole before it has any; None where it need not."""
        beginning = self.beginning
        cast, mail = is_cast(beginning), is_quoted_printable(self.head)
        document = (
            self._wrapped is not None and beginning.lstrip()[:1] in ("{", "[") and not _LINE_OF_JSON.match(beginning)
        )
        if not (cast or mail or document):
            return None
        while len(self.head) <= MAX_DOCUMENT and (block := _read(self._stream, _CHUNK, self.name)):
            self.head += block
            self._pay_for(block)
            self._check_ratio(len(self.head))
        if len(self.head) > MAX_DOCUMENT:
            return None
        data = quoted_printable(self.head) if mail else self.head
        text = data.decode(self._encoding, "replace")
        if document:
            assert self._wrapped is not None
            return self._wrapped.document(text)
        return (cast_text(text) if cast else text).replace("\r\n", "\n").split("\n")

    def _without_long(self, number: int, lines: list[str], *, skip_first: bool) -> Iterator[tuple[int, list[str]]]:
        """The lines in blocks between those that are too long; the first may be the end of one that is."""
        if not lines:
            return
        start = 0
        if skip_first or max(map(len, lines)) > MAX_LINE:
            for at, line in enumerate(lines):
                if len(line) > MAX_LINE or (at == 0 and skip_first):
                    self._note_too_long(number + at)
                    yield number + start, lines[start:at]
                    start = at + 1
        yield number + start, lines[start:]

    def _note_too_long(self, number: int) -> None:
        if len(self.too_long) < 100:
            self.too_long.append(number)

    def _texts(self) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder(self._encoding)(errors="replace")
        total = 0
        chunk = self.head
        while chunk:
            total += len(chunk)
            if total > MAX_UNPACKED:
                raise UserError(f"{self.name} holds more than {MAX_UNPACKED >> 30} GiB: split it before importing")
            self._check_ratio(total)
            self.taken = total
            if self._progress is not None:
                self._progress(total)
            EFFORT.left -= len(chunk) * self._per_byte
            yield decoder.decode(chunk)
            if EFFORT.left <= -OVERDRAFT:
                self.is_cut = True
                return
            chunk = _read(self._stream, _CHUNK, self.name)
        yield decoder.decode(b"", final=True)


def as_shown(line: str) -> str:
    """A line as a terminal shows it in the end: without colours, and after what a carriage return wrote over."""
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    if "\r" in line:
        parts = [part for part in line.split("\r") if part.strip()]
        line = parts[-1] if parts else ""
    return line.replace("\b", "")


def open_source(path: Path) -> IO[bytes]:
    """The file opened for reading, or a sentence why it cannot be."""
    if path.is_dir():
        raise UserError(f"{path} is a directory: name the files in it")
    return open_to_read(path)


def _read(stream: Readable, size: int, name: str) -> bytes:
    try:
        return stream.read(size)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise UserError(f"cannot read {name} to its end: {reason}") from problem


def _encoding(head: bytes) -> str:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"  # what PowerShell's > writes
    return "utf-8-sig" if head.startswith(b"\xef\xbb\xbf") else "utf-8"


class _Rejoined(io.RawIOBase):
    """What was read already, followed by the rest."""

    def __init__(self, head: bytes, rest: Readable) -> None:
        self._head = memoryview(head)
        self._rest = rest
        self.taken = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]
        data = self._head[: len(buffer)] if self._head else self._rest.read(len(buffer))
        self._head = self._head[len(data) :] if self._head else self._head
        buffer[: len(data)] = data
        self.taken += len(data)
        return len(data)


class _FromPlace:
    """A file from a place on, whoever else reads it."""

    def __init__(self, descriptor: int, at: int) -> None:
        self._descriptor, self._at = descriptor, at

    def read(self, size: int = -1, /) -> bytes:
        data = os.pread(self._descriptor, size, self._at)
        self._at += len(data)
        return data
