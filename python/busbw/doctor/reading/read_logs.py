"""Reads the logs of a snapshot: those that lie on disk line by line, and many of them by several processes."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import BinaryIO

from busbw.base.bounds import bounded
from busbw.base.effort import EFFORT, per_mib
from busbw.base.errors import UserError
from busbw.base.files import bytes_on_disk
from busbw.base.pool import mapped
from busbw.base.typography import as_typed
from busbw.doctor.lines.moments import moment_of
from busbw.doctor.lines.scan import Scanning
from busbw.doctor.lines.scanned import Scan
from busbw.doctor.lines.sieve import Sieve, is_json_log, lines_in, numbered, numbered_in, said_in
from busbw.doctor.reading.in_front import Cut, begin, learned, unwrapped, without_time
from busbw.doctor.reading.packed import is_packed, opened, read_first, read_start, was_cut
from busbw.doctor.reading.pasted import restored
from busbw.doctor.reading.snapshot import TextFile
from busbw.doctor.signatures import SIGNATURES
from busbw.machine.nccl.log import read_numbered
from busbw.machine.nccl.log_model import NcclLog

MAX_LOG_BYTES = 4 << 30
ALONE_BYTES = 24 << 20
"""Below this one process is done before others have started."""
MAX_PROCESSES = 16
PER_LOG, MOST_FOR_ALL = 3_000, 0.5
"""Beside its lines a log costs as much, most of it to tell what was found; of what is left at most that part."""
MOST_UNWRAPPED, LEARNED_FROM = 16 << 20, 1 << 16
"""Bytes of a log up to which what stands before its lines is taken off, a step for each; and of which it is learned."""
FLAT = 20_000
"""Bytes that each log counts as beside its own."""


def read_logs(files: Sequence[TextFile]) -> list[tuple[NcclLog, Scan]]:
    """What every log says, in their order; a log without text is read from where it lies."""
    readable = [each for each in files if each.text is not None or not each.why]
    if not EFFORT.is_lifted:
        EFFORT.spend(min(PER_LOG * len(readable), max(0.0, EFFORT.left * MOST_FOR_ALL)))
    processes = min(MAX_PROCESSES, len(readable), len(os.sched_getaffinity(0)))
    if processes < 2 or sum(map(size_of, readable)) < ALONE_BYTES:
        found = []
        sizes = [size_of(each) + FLAT for each in readable]
        for at, each in enumerate(readable):
            with EFFORT.part(sizes[at] / sum(sizes[at:])):
                found.append(_read(each))
        return found
    # What all processes need is made once, before they are forked.
    Scanning("", tuple(SIGNATURES.values()))
    shares = _shared(readable)
    EFFORT.spend(0 if EFFORT.is_lifted else max(0.0, EFFORT.left))
    return mapped(_read_within, shares, processes)


def _shared(files: Sequence[TextFile]) -> list[tuple[float, TextFile]]:
    """Each log and what may be spent on it: of what is left so much as it is of all."""
    sizes = [size_of(each) + FLAT for each in files]
    return [(EFFORT.left * size / sum(sizes), each) for size, each in zip(sizes, files, strict=True)]


def _read_within(given: tuple[float, TextFile]) -> tuple[NcclLog, Scan]:
    EFFORT.left = given[0]
    return _read(given[1])


def restored_lines(file: TextFile) -> list[tuple[int, bytes]] | None:
    """The lines of a small log as they were before it was pasted; None where nothing was done to it."""
    if file.text is None:
        return None
    if not is_json_log(file.text[:4096].encode("utf-8", "replace").lstrip()):
        lines = restored(file.text)
        return None if lines is None else [(number, line.encode("utf-8", "replace")) for number, line in lines]
    said = unwrapped(file.text)
    text = "\n".join(each.text for each in said)
    lines = restored(text) or list(enumerate(text.split("\n"), 1))
    return [(said[at - 1].number, line.encode("utf-8", "replace")) for at, line in lines]


def _with_fronts(scan: Scan, fronts: Mapping[int, str]) -> Scan:
    """The scan of lines without what stood before each, with the ranks and times that stood there."""
    moments = [moment for front in fronts.values() if (moment := moment_of(front)) is not None]
    for hit in scan.hits.values() if fronts else ():
        hit.told_before([front for number, _ in hit.lines if (front := fronts.get(number))])
    return replace(scan, newest=scan.newest if scan.newest is not None or not moments else max(moments))


class _Fronts:
    """Takes off the lines of a log what its first ones have in front, and keeps it by the lines' numbers."""

    def __init__(self, file: TextFile) -> None:
        self.kept: dict[int, str] = {}
        self._cuts: tuple[Cut, ...] = ()
        self._objects = self._typed = False
        if file.text is not None:
            self.kept = {each.number: each.front for each in unwrapped(file.text) if each.front}
        elif size_of(file) <= MOST_UNWRAPPED:
            start = read_start(file.path, LEARNED_FROM)
            text = start.decode("utf-8", "replace")
            self._objects, self._typed = is_json_log(start.lstrip()), as_typed(text) != text
            lines = as_typed(text).splitlines()
            if len(start) >= LEARNED_FROM:
                # The last one is torn.
                lines = lines[:-1]
            self._cuts = () if self._objects else learned(lines)

    def off(self, lines: Iterable[tuple[int, bytes]]) -> Iterable[tuple[int, bytes]]:
        """The lines without it; as they are where they have none."""
        return self._off(lines) if self._cuts or self._objects or self._typed else lines

    def _off(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        for number, raw in lines:
            line = as_typed(raw.decode("utf-8", "replace"))
            if self._objects:
                front, line = without_time(line)
            else:
                at = begin(line, self._cuts)
                front, line = line[:at], line[at:]
            if front:
                self.kept[number] = front
            yield number, line.encode("utf-8", "replace")


def size_of(file: TextFile) -> int:
    """Its bytes on disk, or of its text."""
    if file.text is not None:
        return len(file.text)
    try:
        return bytes_on_disk(file.path)
    except OSError:
        return 0


def _read(file: TextFile) -> tuple[NcclLog, Scan]:
    scanning = Scanning(file.path, tuple(SIGNATURES.values()))
    sieve = Sieve(scanning)
    packed, fronts = file.text is None and is_packed(file.path), _Fronts(file)
    if packed:
        sieve.limit.costs(per_mib(read_first(file.path)))
    with bounded(file.path, size_of(file), packed=packed), _opened(file) as stream:
        lines = restored_lines(file) or fronts.off(said_in(numbered_in(stream, sieve.limit), sieve.limit))
        log = read_numbered(sieve.passed(lines), file.path)
        cut = file.cut or was_cut(stream)
    scanned = _with_fronts(scanning.finished(sieve.lines), fronts.kept)
    return log, replace(scanned, cut=True) if cut else scanned


@contextmanager
def _opened(file: TextFile) -> Iterator[BinaryIO]:
    """The bytes of a log, from its text or from where it lies."""
    if file.text is not None:
        yield io.BytesIO(file.text.encode("utf-8", "replace"))
        return
    try:
        with opened(file.path) as stream:
            yield stream
    except OSError as problem:
        raise UserError(f"{file.path} cannot be read: {problem.strerror or problem}") from problem


@contextmanager
def lines_of(file: TextFile) -> Iterator[Iterable[str]]:
    """The lines of a log without what stands before all of them, from its text or from where it lies."""
    fronts = _Fronts(file)
    with _opened(file) as stream:
        yield (line.decode("utf-8", "replace") for _, line in fronts.off(numbered(lines_in(stream))))
