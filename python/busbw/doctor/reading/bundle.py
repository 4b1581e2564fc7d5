"""Bundles: a snapshot in one .tar.gz that can be carried away and examined elsewhere; no secret goes in."""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from busbw.base.bounds import bounded
from busbw.base.errors import UserError
from busbw.base.files import bytes_on_disk, open_to_read, write_whole
from busbw.base.secrets import hide, hide_random
from busbw.doctor.lines.candidates import SHOWN_WORDS
from busbw.doctor.lines.scan import DIGITS, MAX_SHAPES, knowing
from busbw.doctor.reading.codec import decode, encode
from busbw.doctor.reading.flight import bare, looks_like
from busbw.doctor.reading.p2p_rows import is_part
from busbw.doctor.reading.packed import is_archive
from busbw.doctor.reading.read_logs import lines_of, size_of
from busbw.doctor.reading.shown import is_telling
from busbw.doctor.reading.snapshot import SCHEMA, Snapshot, TextFile
from busbw.doctor.reading.steps import WORDS as STEPS
from busbw.doctor.signatures import SIGNATURES
from busbw.importers.context import is_kept
from busbw.importers.context import without_secrets as without_secret_values

MEMBER = "snapshot.json"
MAX_BYTES = 64 << 20
_SPACES = " " * 64
_MANY_SPACES = re.compile(r" {65,}")


def write_bundle(snapshot: Snapshot, path: Path) -> None:
    """Write the snapshot without what could be secret; UserError where the file cannot be written."""
    write_bare(without_secrets(snapshot), path)


def write_bare(snapshot: Snapshot, path: Path) -> None:
    """Write a snapshot that holds nothing that could be secret, as it stands."""
    text = json.dumps(encode(snapshot), indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace")
    if len(text) > MAX_BYTES:
        raise UserError(f"the snapshot has {len(text) >> 20} MiB, more than a bundle may hold; give shorter logs")
    member = tarfile.TarInfo(MEMBER)
    member.size = len(text)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.addfile(member, io.BytesIO(text))
    write_whole(path, packed.getvalue())


def read_bundle(path: Path) -> Snapshot:
    """The snapshot in a bundle; UserError where it is none, is too large, or a newer busbw wrote it."""
    try:
        with open_to_read(path) as file, bounded(str(path), bytes_on_disk(file.fileno()), packed=True):
            return _decoded(_member(file, path), path)
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as problem:
        raise UserError(f"{path} is no bundle of `busbw doctor --collect`: {problem}") from problem
    except OSError as problem:
        raise UserError(f"{path} cannot be read: {problem.strerror or problem}") from problem


def _decoded(text: bytes, path: Path) -> Snapshot:
    try:
        raw = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as problem:
        raise UserError(f"{path}: {MEMBER} in it is no JSON: {problem}") from problem
    if not isinstance(raw, dict):
        raise UserError(f"{path}: {MEMBER} in it is no snapshot")
    schema = raw.get("schema", SCHEMA)
    if schema != SCHEMA:
        raise UserError(f"{path} has snapshot schema {str(schema)[:20]}, this busbw reads {SCHEMA}; use a newer busbw")
    return replace(decode(Snapshot, raw, f"{path}: snapshot"), source=str(path), live=False)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


def is_bundle(path: str | Path) -> bool:
    """Whether a file may be a bundle: a packed archive."""
    return is_archive(path)


class _Limited:
    """What an archive unpacks to, up to a limit: headers and members before ours may be of any size."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._unpacked = gzip.GzipFile(fileobj=file)
        self._left = MAX_BYTES + (1 << 20)
        self._path = path

    def read(self, size: int) -> bytes:
        if size > self._left:
            raise UserError(f"{self._path} unpacks to more than {MAX_BYTES >> 20} MiB, more than a bundle may hold")
        data = self._unpacked.read(size)
        self._left -= len(data)
        return data


def _member(file: BinaryIO, path: Path) -> bytes:
    # As a stream: the size of a member is known before it is read, and nothing is written to disk.
    with tarfile.open(fileobj=_Limited(file, path), mode="r|") as archive:  # type: ignore[call-overload]
        for count, member in enumerate(archive):
            if count >= 16:
                break
            if member.name == MEMBER and member.isfile():
                if member.size > MAX_BYTES:
                    raise UserError(f"{path}: its snapshot has {member.size} bytes, more than {MAX_BYTES}")
                content = archive.extractfile(member)
                return bytes(content.read(MAX_BYTES)) if content else b""
    raise UserError(f"{path} is no bundle of `busbw doctor --collect`: it has no {MEMBER}")


def without_secrets(snapshot: Snapshot) -> Snapshot:
    """The snapshot with only those variables that matter, and of logs only NCCL's and the benchmark's lines."""
    return replace(
        snapshot,
        environment={name: hide_random(value) for name, value in snapshot.environment.items() if is_kept(name)},
        confs=tuple(_kept_conf(each) for each in snapshot.confs),
        logs=tuple(_kept_log(each) for each in snapshot.logs),
    )


def _kept_conf(file: TextFile) -> TextFile:
    if file.text is None:
        return file
    # Lines stay where they are, so that findings name the same ones.
    kept = [hide(line) if is_kept(line.partition("=")[0].strip()) else "#" for line in file.text.splitlines()]
    return replace(file, text="\n".join(kept) + "\n")


def _kept_log(file: TextFile) -> TextFile:
    if file.text is None and file.why:
        return file
    if file.text is not None and looks_like(file.text[: 1 << 16]):
        return replace(file, text=bare(file.text, file.path))
    shapes: dict[bytes, bool] = {}
    with bounded(file.path, size_of(file)), lines_of(file) as lines:
        # Lines stay where they are, so that findings name the same ones.
        kept = [without_secret_values(line.rstrip("\n")) if _tells(line, shapes) else "" for line in lines]
    return replace(file, text="\n".join(kept) + "\n")


def _tells(line: str, shapes: dict[bytes, bool]) -> bool:
    """Whether a line is NCCL's, a benchmark's, or one that a signature knows; equal shapes are looked at once."""
    # No expression asks for more of them in a row, and each is tried at every one.
    line = _MANY_SPACES.sub(_SPACES, line)
    if "NCCL " in line or line.lstrip().startswith("#") or is_part(line) or is_telling(line):
        return True
    if any(word in line for word in STEPS):
        return True
    key = line.encode("utf-8", "replace").translate(None, DIGITS)
    if not shapes.get(key, True):
        return False
    lowered = line.lower()
    if any(word in lowered for word in SHOWN_WORDS):
        return True  # findings may look at it: what the scan counts as shown
    line, known = knowing(line, tuple(SIGNATURES.values()))
    if len(shapes) < MAX_SHAPES:
        shapes[key] = bool(known)
    lowered = line.lower()
    return any(each.match(line, lowered, patterns) is not None for each, patterns in known)
