"""Finds the libnccl.so files that programs here may load, and their versions."""

from __future__ import annotations

import mmap
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from busbw.doctor.reading.snapshot import LibraryFile

_VERSION_IN_NAME = re.compile(r"libnccl\.so\.(\d+\.\d+\.\d+)$")
_VERSION_INSIDE = re.compile(rb"NCCL version (\d{1,2}\.\d{1,3}\.\d{1,3})")
_SYSTEM = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib",
           "/usr/local/cuda/lib64", "/opt/nccl/lib", "/opt/nccl/build/lib")  # fmt: skip
MAX_LIBRARIES = 32
MAX_BYTES = 2 << 30


def find_libraries(environ: Mapping[str, str]) -> tuple[LibraryFile, ...]:
    """Every libnccl.so.2 on the way of the loader and in Python's packages, each real file once."""
    found: dict[Path, LibraryFile] = {}
    for folder, found_by in _folders(environ):
        for name in ("libnccl.so.2", "libnccl.so"):
            path = folder / name
            try:
                real = path.resolve(strict=True)
            except (OSError, RuntimeError):
                continue
            if real not in found and len(found) < MAX_LIBRARIES:
                found[real] = LibraryFile(str(path), version_of(real), found_by)
            break
    return tuple(found.values())


def version_of(path: Path) -> str | None:
    """The version in the file's name, else the one in its text; None where neither has one."""
    named = _VERSION_IN_NAME.search(path.name)
    if named:
        return named[1]
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            # A group is cut out of the mapped file, so it must be taken before the file is closed.
            inside = _VERSION_INSIDE.search(content) if len(content) <= MAX_BYTES else None
            return inside[1].decode() if inside else None
    except (OSError, ValueError):
        return None


def _folders(environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    for each in environ.get("LD_LIBRARY_PATH", "").split(":"):
        if each:
            yield Path(each), "LD_LIBRARY_PATH"
    for each in _SYSTEM:
        yield Path(each), "the system's folders"
    for each in sys.path:
        yield Path(each) / "nvidia" / "nccl" / "lib", "a Python package"
