"""Unpacks zstd while it is read: Python's own module since 3.14, else the zstandard package, else the zstd program."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import threading
import weakref
from contextlib import suppress
from typing import BinaryIO, Protocol

from busbw.base.errors import UserError

MAGIC = b"\x28\xb5\x2f\xfd"
_CHUNK = 1 << 16


class _Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


def unpacking(file: BinaryIO) -> _Readable:
    """The unpacked bytes of a stream; UserError where nothing here unpacks zstd."""
    try:
        found: _Readable = importlib.import_module("compression.zstd").ZstdFile(file)
    except ImportError:
        pass
    else:
        return found
    try:
        reader: _Readable = (
            importlib.import_module("zstandard").ZstdDecompressor().stream_reader(file, read_across_frames=True)
        )
    except ImportError:
        pass
    else:
        return reader
    program = shutil.which("zstd")
    if program is None:
        raise UserError(
            "a file packed with zstd, which Python before 3.14 cannot unpack: install the zstd program or the "
            "zstandard package, or unpack it first with `zstd -d FILE`"
        )
    return _Program(program, file)


class _Program:
    """Reads what the zstd program unpacks; a thread feeds it, since the file may be a pipe that is read from."""

    def __init__(self, program: str, file: BinaryIO) -> None:
        self._process = subprocess.Popen(
            [program, "-dcq", "--memory=128MB"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        weakref.finalize(self, _end, self._process)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._out = self._process.stdout
        threading.Thread(target=_feed, args=(file, self._process.stdin), daemon=True).start()

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes; EOFError where the file is cut or broken."""
        data = self._out.read(size)
        if not data and self._process.wait(10):
            raise EOFError("it is broken or was cut, zstd says")
        return data


def _feed(file: BinaryIO, into: BinaryIO) -> None:
    try:
        while data := file.read(_CHUNK):
            into.write(data)
    except (OSError, ValueError):
        pass  # the program or the reader has ended
    finally:
        with suppress(OSError):
            into.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):
            if pipe is not None:
                pipe.close()
    process.wait()
