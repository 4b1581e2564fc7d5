"""Logs that are packed (gzip, bzip2, xz, zstd) are read as what they unpack to, and never as more than a log may be."""

from __future__ import annotations

import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from busbw.base.errors import UserError
from busbw.base.files import bytes_on_disk, open_to_read
from busbw.importers.lines import FREE_UNPACKED, MAX_RATIO, MAX_UNPACKED, PACKED, Readable

_LONGEST = max(map(len, PACKED))
_TAR = slice(257, 262)
"""Where a tar archive says that it is one."""


@contextmanager
def opened(path: str | Path) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked where it is packed."""
    with open_to_read(path) as file:
        unpack = next((each for magic, each in PACKED.items() if _start(file).startswith(magic)), None)
        yield file if unpack is None else io.BufferedReader(_Unpacked(unpack(file), str(path), file))


def read_start(path: str | Path, most: int) -> bytes:
    """The first `most` bytes of what the file holds, unpacked; UserError where it cannot be read."""
    try:
        with opened(path) as file:
            return file.read(most)
    except OSError as problem:
        raise UserError(f"{path} cannot be read: {problem.strerror or problem}") from problem


def was_cut(file: BinaryIO) -> bool:
    """Whether what was read of a packed file until now ended before the file's own end."""
    raw = getattr(file, "raw", None)
    return isinstance(raw, _Unpacked) and raw.cut


def ends_early(path: str | Path) -> bool:
    """Whether a packed file was cut off: it is unpacked to where it ends."""
    with opened(path) as file:
        while file.read(1 << 20):
            pass
        return was_cut(file)


def read_first(path: str | Path) -> bytes:
    """The first bytes of a file as they are on disk."""
    with open_to_read(path) as file:
        return _start(file)


def is_packed(path: str | Path) -> bool:
    """Whether the file is packed, by its first bytes."""
    with open_to_read(path) as file:
        return _start(file).startswith(tuple(PACKED))


def is_archive(path: str | Path) -> bool:
    """Whether a packed file holds a tar archive."""
    return is_packed(path) and read_start(path, _TAR.stop)[_TAR] == b"ustar"


def _start(file: BinaryIO) -> bytes:
    return file.peek(_LONGEST)[:_LONGEST] if isinstance(file, io.BufferedReader) else b""


class _Unpacked(io.RawIOBase):
    """What a stream unpacks to. One that was cut off ends there: so do logs of jobs that were killed."""

    def __init__(self, stream: Readable, name: str, file: BinaryIO) -> None:
        self._name, self._taken = name, 0
        # `read` asks again until it has all that was asked for, and what it has is lost where the file was cut.
        self._more = getattr(stream, "read1", stream.read)
        self.cut = False
        self._most = min(MAX_UNPACKED, FREE_UNPACKED + MAX_RATIO * bytes_on_disk(file.fileno()))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]
        try:
            data = self._more(len(buffer))
        except EOFError:
            if self._taken == 0:
                raise UserError(f"{self._name} cannot be unpacked: it was cut off near its start") from None
            self.cut = True
            return 0
        except (OSError, ValueError, zlib.error, lzma.LZMAError) as problem:
            raise UserError(f"{self._name} cannot be unpacked: {problem}") from problem
        self._taken += len(data)
        if self._taken > self._most:
            raise UserError(f"{self._name} unpacks to more than a log of its size holds; unpack it yourself")
        buffer[: len(data)] = data
        return len(data)
