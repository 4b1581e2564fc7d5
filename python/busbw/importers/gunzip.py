"""What a gzip file unpacks to, however many members it has: Python's own reader takes 20 us for each of them."""

from __future__ import annotations

import gzip
import zlib
from typing import BinaryIO

_READ = 8 << 10
"""Small: what follows the end of a member is copied for each."""
_WITH_HEADER = 31


class Gunzip:
    """Reads members behind each other. Where the file is cut EOFError comes after all that was there."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._rest = b""
        self._member = zlib.decompressobj(_WITH_HEADER)
        self._in_member = False
        self._is_new = True

    def read1(self, size: int = -1, /) -> bytes:
        """Some bytes, at most `size`; none at the end."""
        most = size if size > 0 else 1 << 20
        while self._fill():
            if not self._in_member and not self._begins():
                continue
            try:
                data = self._member.decompress(self._rest, most)
            except zlib.error as problem:
                raise gzip.BadGzipFile(str(problem)) from problem
            self._rest = self._member.unconsumed_tail
            if self._member.eof:
                self._rest = self._member.unused_data
                self._member, self._in_member = zlib.decompressobj(_WITH_HEADER), False
            if data:
                return data
        return b""

    def _fill(self) -> bool:
        """Whether something is left; EOFError where a member is not whole."""
        if not self._rest:
            self._rest = self._file.read(_READ)
        if not self._rest and (self._in_member or self._is_new):
            raise EOFError("Compressed file ended before the end-of-stream marker was reached")
        return bool(self._rest)

    def _begins(self) -> bool:
        """Whether a member begins here; zeros behind one are padding."""
        if not self._is_new:
            self._rest = self._rest.lstrip(b"\0")
            if len(self._rest) == 1:
                self._rest += self._file.read(_READ)
            if self._rest and not self._rest.startswith(b"\x1f\x8b"):
                raise gzip.BadGzipFile(f"Not a gzipped file ({self._rest[:2]!r})")
        self._is_new, self._in_member = False, bool(self._rest)
        return self._in_member

    def read(self, size: int = -1, /) -> bytes:
        """`size` bytes, or all that is left; fewer at the end and before a cut."""
        parts, taken = list[bytes](), 0
        while size < 0 or taken < size:
            try:
                part = self.read1(size - taken if size > 0 else -1)
            except EOFError:
                if parts:
                    break
                raise
            if not part:
                break
            parts.append(part)
            taken += len(part)
        return b"".join(parts)
