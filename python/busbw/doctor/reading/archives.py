"""An archive (tar, packed or not, zip) stands for the logs in it, as a folder does; nothing of it gets a name."""

from __future__ import annotations

import os
import re
import resource
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import IO

from busbw.base.bounds import bounded
from busbw.base.effort import EFFORT, MIB
from busbw.base.errors import UserError
from busbw.base.files import bytes_on_disk, open_to_read
from busbw.base.text import clean
from busbw.doctor.reading.bundle import MEMBER
from busbw.doctor.reading.packed import is_packed, opened, read_start

MOST_MEMBERS = 4000
"""Each is an open file: twice the ranks of a job whose logs somebody sends."""
MOST_BYTES = 4 << 30
MOST_HEADERS = 20_000
_BLOCK = 1 << 20
_TAR, _ZIP = b"ustar", b"PK\x03\x04"
_PER_MIB = 2_000
"""What it costs to copy a MiB out."""
NO_LOGS = re.compile(
    r"\.(?:pyc?|pyi|pyx|c|cc|cpp|cuh?|h|hpp|rs|go|[jt]s|java|so|o|a|bin|pth?|ckpt|safetensors|np[yz]|parquet|arrow|whl|jar"
    r"|png|jpe?g|gif|svg|pdf|html?|css|md|rst|ipynb|onnx|engine|sqsh|img|idx|tfrecord|webm|mp4|nsys-rep|ncu-rep|sqlite"
    r"|db|toml|cmake|tf|diff|patch)$",
    re.IGNORECASE,
)
"""Endings of what lies in folders of jobs beside their logs: programs, weights, pictures, texts."""
_NAME = re.compile(r"/proc/self/fd/(\d{1,7})(?!\d)")
_UNSAFE = re.compile(r"[^\w./+=:,@%~-]")
_called: dict[int, str] = {}
"""What an open file is called: its archive and its place there."""


def unpacked(names: Sequence[str]) -> list[str]:
    """The names, with its members in the place of an archive of logs; UserError where none can be had of it."""
    found: list[str] = []
    for name in names:
        found += _members(name) if _holds_logs(name) else [name]
    return found


def shown(text: str) -> str:
    """A text in which members of archives have the names that a person knows."""
    return _NAME.sub(lambda seen: _called.get(int(seen[1]), seen[0]), text) if _called else text


@contextmanager
def forgotten() -> Iterator[None]:
    """Within it members are open; afterwards they are closed, and gone."""
    try:
        yield
    finally:
        while _called:
            os.close(_called.popitem()[0])


def _holds_logs(name: str) -> bool:
    """Whether it is an archive, and no bundle of ours."""
    if not os.path.isfile(name):  # noqa: PTH113 - also a descriptor's name
        return False
    start = read_start(name, 512)
    if start.startswith(_ZIP):
        return True
    return start[257:262] == _TAR and not (is_packed(name) and start[:100].rstrip(b"\0").endswith(MEMBER.encode()))


def _members(name: str) -> list[str]:
    """Every log in the archive, open and without a name of its own."""
    _allow_files()
    found: list[str] = []
    left = MOST_BYTES
    with bounded(name, bytes_on_disk(name), packed=True):
        try:
            for inside, content in _contents(name):
                if len(found) >= MOST_MEMBERS:
                    raise UserError(
                        f"{name} holds more than {MOST_MEMBERS} files; unpack it, and give the logs that matter"
                    )
                found.append(_kept(name, inside, content, left))
                left -= bytes_on_disk(found[-1])
        except (
            tarfile.TarError,
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            NotImplementedError,
            RuntimeError,
        ) as problem:
            if not found:  # what was cut off holds what stands before
                raise UserError(f"{name} cannot be unpacked: {problem}") from problem
        except OSError as problem:
            raise UserError(f"{name} cannot be unpacked: {problem.strerror or problem}") from problem
    if not found:
        raise UserError(f"{name} is an archive without a log in it")
    return found


def _contents(name: str) -> Iterator[tuple[str, IO[bytes]]]:
    """Names and contents of what may be a log."""
    if read_start(name, 4) == _ZIP:
        with open_to_read(name) as file, zipfile.ZipFile(file) as archive:
            for entry in archive.infolist()[:MOST_HEADERS]:
                if not entry.is_dir() and entry.file_size and may_be_log(entry.filename):
                    with archive.open(entry) as content:
                        yield entry.filename, content
        return
    # As a stream: nothing is sought, and links and devices are passed over.
    with opened(name) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        for count, member in enumerate(archive):
            if count >= MOST_HEADERS:
                raise UserError(
                    f"{name} holds more than {MOST_HEADERS} entries; unpack it, and give the logs that matter"
                )
            if member.isreg() and member.size and may_be_log(member.name):
                held = archive.extractfile(member)
                if held is not None:
                    yield member.name, held


def may_be_log(name: str) -> bool:
    """Whether a file of that name may be a log: it is not hidden, and no program, picture or file of weights."""
    return not PurePosixPath(name).name.startswith(".") and not NO_LOGS.search(name)


def _kept(archive: str, inside: str, content: IO[bytes], most: int) -> str:
    """The content in a file without a name; the name by which it can be opened."""
    with tempfile.TemporaryFile() as file:
        while block := content.read(_BLOCK):
            most -= len(block)
            EFFORT.spend(len(block) * _PER_MIB / MIB)
            if most < 0:
                raise UserError(
                    f"{archive} unpacks to more than {MOST_BYTES >> 30} GiB; unpack it, and give the logs that matter"
                )
            file.write(block)
        file.flush()
        number = os.dup(file.fileno())
    where = "/".join(part for part in clean(inside).split("/") if part not in {"", ".", ".."})
    _called[number] = f"{archive}/{_UNSAFE.sub('_', where[-200:])}"
    return f"/proc/self/fd/{number}"


def _allow_files() -> None:
    """As many open files as the system lets this process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_MEMBERS + 512 if hard == resource.RLIM_INFINITY else min(hard, MOST_MEMBERS + 512)
    if soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
