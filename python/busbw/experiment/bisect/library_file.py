"""One release as a file: the library of a wheel, unpacked and checked, and for which machine it is."""

from __future__ import annotations

import base64
import csv
import errno
import hashlib
import os
import re
import struct
import zipfile
import zlib
from pathlib import Path

from busbw.base.errors import UserError

MEMBER = "nvidia/nccl/lib/libnccl.so.2"
MOST_BYTES = 2 << 30
"""NCCL 2.28 takes about 420 MB unpacked; nothing larger is unpacked."""

_DAMAGED = (zipfile.BadZipFile, zlib.error, struct.error, csv.Error, KeyError, ValueError, EOFError, RuntimeError)
_MOST_LIST = 1 << 20
_ALIKE = {"amd64": "x86_64", "arm64": "aarch64"}
_ELF_MACHINES = {62: "x86_64", 183: "aarch64"}


def platforms_of(wheel: str) -> list[str]:
    """The machines that a wheel's name says it is for: [`linux x86_64`]; none for `any` and for other names."""
    tags = wheel.removesuffix(".whl").split("-")[-1] if wheel.endswith(".whl") else "any"
    found: list[str] = []
    for tag in tags.split("."):
        known = re.fullmatch(r"(manylinux|musllinux|linux|win|macosx)_?(?:\d+_)*(\w*)", tag)
        if known:
            system = "linux" if "linux" in known[1] else known[1]
            found.append(f"{system} {_ALIKE.get(known[2], known[2])}".strip())
    return sorted(set(found))


def check_machine(path: Path, machine: str) -> None:
    """UserError where a wheel's name, or the first bytes of a library, say that it is for other machines."""
    here = f"linux {_ALIKE.get(machine.lower(), machine.lower())}"
    platforms = platforms_of(path.name)
    if not platforms and path.suffix != ".whl":
        with path.open("rb") as stream:
            first = stream.read(20)
        known = _ELF_MACHINES.get(int.from_bytes(first[18:20], "little")) if first.startswith(b"\x7fELF") else None
        platforms = [f"linux {known}"] if known else []
    if platforms and here not in platforms:
        raise UserError(f"{path} is for {' and '.join(platforms)}, and this machine is {here}")


def unpack(wheel: Path, into: Path) -> Path:
    """The library of a wheel, written whole or not at all; UserError for a file that is none."""
    target = into / "libnccl.so.2"
    into.mkdir(parents=True, exist_ok=True)
    beside = into / f".libnccl.{os.getpid()}"
    try:
        with zipfile.ZipFile(wheel) as archive:
            size = archive.getinfo(MEMBER).file_size
            if size > MOST_BYTES:
                raise UserError(f"{wheel.name} holds a library of {size >> 20} MiB, which no NCCL is")
            with archive.open(MEMBER) as source, beside.open("wb") as out:
                left = MOST_BYTES
                while chunk := source.read(1 << 20):
                    left -= len(chunk)
                    if left < 0:
                        raise UserError(f"{wheel.name} unpacks to more than {MOST_BYTES >> 30} GiB, which no NCCL does")
                    out.write(chunk)
            _check_listed(wheel, archive, beside)
    except (OSError, *_DAMAGED) as problem:
        # A damaged directory sends it to places before the file's beginning.
        if isinstance(problem, OSError) and problem.errno != errno.EINVAL:
            raise
        raise UserError(f"{wheel} is no wheel with {MEMBER} in it: {str(problem)[:200]}") from None
    else:
        beside.chmod(0o755)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
    return target


def _check_listed(wheel: Path, archive: zipfile.ZipFile, library: Path) -> None:
    """UserError where the wheel's own list (RECORD) names another hash of the library than the file has."""
    lists = [name for name in archive.namelist() if name.endswith(".dist-info/RECORD")][:4]
    own = base64.urlsafe_b64encode(bytes.fromhex(sha256_of(library))).rstrip(b"=").decode()
    for name in lists:
        if archive.getinfo(name).file_size > _MOST_LIST:
            raise UserError(f"{wheel}: its list of files is larger than {_MOST_LIST >> 20} MiB, which no wheel's is")
        rows = csv.reader(archive.read(name).decode("utf-8", "replace").splitlines())
        said = next((row[1] for row in rows if len(row) > 1 and row[0] == MEMBER), "")
        if said.startswith("sha256=") and said.removeprefix("sha256=").rstrip("=") != own:
            raise UserError(
                f"{wheel}: the library has another hash than the wheel's own list names; fetch the wheel again"
            )


def sha256_of(path: Path) -> str:
    """Of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    except OSError as problem:
        raise UserError(f"{path} cannot be read: {problem.strerror or problem}") from problem
    return digest.hexdigest()
