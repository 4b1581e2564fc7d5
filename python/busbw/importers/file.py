"""Files of any kind to records: one by its path, an open stream, or a folder of them."""

from __future__ import annotations

import gc
import io
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO

from busbw.base.bounds import bounded
from busbw.base.effort import EFFORT, HINT
from busbw.base.errors import UserError
from busbw.base.files import bytes_on_disk
from busbw.importers import apart
from busbw.importers.draft import Collector, ImportedSweep
from busbw.importers.lines import PACKED, Progress, Source, open_source
from busbw.importers.reading import EnoughError, Reading, Take, describe
from busbw.importers.recordings import Jobs as Recordings
from busbw.importers.recordings import is_recording
from busbw.importers.report import FileReport
from busbw.importers.seems import what_it_seems
from busbw.records import Collective, parse_records

PER_FILE = 150
"""What opening one costs, in units of work."""
MAX_FILES = 20_000
"""Files of one folder that are read."""
_RECORD = re.compile(r'\s*\{"schema"\s*:\s*\d')
_NUMBER = re.compile(r"(\d+)", re.ASCII)


def import_path(  # noqa: PLR0913 - options that are named
    path: Path,
    take: Take,
    *,
    collective: Collective | None = None,
    url: str | None = None,
    progress: Progress | None = None,
    part: Callable[[], apart.Part] | None = None,
    most_rows: int | None = None,
) -> FileReport:
    """Hand every sweep of a file to `take`, as it becomes complete, and report on the file.

    With `part` a second process may read the later part of a large file; `part` says where its sweeps go. With
    `most_rows` reading ends after about so many rows of tables in forms of their own, which cost the most.
    """
    if is_recording(path):
        report = FileReport(str(path))
        reading = _of_recording(path, report, take, collective, url)
        reading.close()
        return report
    with open_source(path) as stream, _bounded(str(path), stream), _uncollected():
        return import_stream(
            stream, str(path), take, collective=collective, url=url, progress=progress,
            part=part if part is not None and apart.is_possible() else None, most_rows=most_rows,
        )  # fmt: skip


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without Python's search for cycles: rows make none, and of a million objects it takes a fifth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _bounded(name: str, stream: IO[bytes]) -> AbstractContextManager[None]:
    """The bounds of a file by its size on disk; none of time for a pipe."""
    state = os.fstat(stream.fileno())
    if not stat.S_ISREG(state.st_mode):
        return bounded(name, None)
    return bounded(
        name, bytes_on_disk(stream.fileno()), packed=os.pread(stream.fileno(), 8, 0).startswith(tuple(PACKED))
    )


def import_folder(
    path: Path,
    take: Take,
    *,
    collective: Collective | None = None,
    url: str | None = None,
    progress: Progress | None = None,
) -> FileReport:
    """As `import_path`, for the files of a folder: what ranks wrote into files of their own becomes one run."""
    report = FileReport(str(path))
    shared: dict[type[Collector], Collector] = {}
    files = _files_of(path)
    for at, file in enumerate(files):
        EFFORT.spend(PER_FILE)
        if EFFORT.is_spent:
            report.ends_early(
                f"{len(files) - at} of its {len(files)} files were not read, as they cost too much: {HINT}"
            )
            break
        try:
            if is_recording(file):
                _of_recording(file, report, take, collective, url, shared)
                continue
            with open_source(file) as stream, _bounded(str(file), stream):
                source = Source(stream, str(file), progress)
                reading = Reading(source, report, take, collective, url, shared)
                reading.who = file.name.split(".")[0]
                reading.ordinal = at * 1_000_000
                if not reading.as_document(source.beginning):
                    reading.as_lines()
        except UserError as problem:
            report.problem(None, str(problem))
    for collector in shared.values():
        collector.close()
    if not report.sweeps:
        report.seems = f"a folder of {len(files)} files without results"
    return report


def _of_recording(  # noqa: PLR0913, PLR0917 - as for any file
    path: Path,
    report: FileReport,
    take: Take,
    collective: Collective | None,
    url: str | None,
    shared: dict[type[Collector], Collector] | None = None,
) -> Reading:
    """The calls of one process, which is no text: its collector gets them, and ends with the file or folder."""
    nothing = Source(io.BytesIO(b"a recording of busbw\n"), str(path))
    reading = Reading(nothing, report, take, collective, url, shared)
    reading.shared(Recordings).take(path)
    return reading


def _files_of(path: Path) -> list[Path]:
    """The files of a folder in the order of their numbers, three folders deep; hidden ones are left out."""
    found = []
    for depth in ("*", "*/*", "*/*/*"):
        for each in path.glob(depth):
            if each.is_file() and not any(part.startswith(".") for part in each.relative_to(path).parts):
                found.append(each)
                if len(found) > MAX_FILES:
                    raise UserError(f"{path} holds more than {MAX_FILES} files: name the ones to import")
    return sorted(
        found, key=lambda each: [int(part) if part.isdecimal() else part for part in _NUMBER.split(str(each))]
    )


def import_stream(  # noqa: PLR0913 - options that are named
    stream: IO[bytes],
    name: str,
    take: Take,
    *,
    collective: Collective | None = None,
    url: str | None = None,
    progress: Progress | None = None,
    part: Callable[[], apart.Part] | None = None,
    most_rows: int | None = None,
) -> FileReport:
    """As `import_path`, for an open binary stream; `progress` is told the bytes that were read, now and then."""
    source = Source(stream, name, progress)
    report = FileReport(name)
    head = source.beginning
    reading = Reading(source, report, take, collective, url)
    reading.most_rows = most_rows
    if _RECORD.match(head):
        _take_records(source, report, take)
    else:
        try:
            if not reading.as_document(head):
                reading.as_lines(apart.Division(reading, stream.fileno(), part) if part is not None else None)
            reading.close()
        except EnoughError as enough:
            report.skimmed(f"only the first {enough} were read; `busbw import` reads more of them")
    if not report.sweeps:
        report.seems = what_it_seems(head)
    for long_line in source.too_long:
        report.problem(long_line, "a line of more than 64 Ki characters was left out")
    return report


def _take_records(source: Source, report: FileReport, take: Take) -> None:
    for record in parse_records(source.binary(), source.name, report.ends_early):
        report.notes.extend(record.notes)
        collectives = list(dict.fromkeys(case.collective for case in record.cases))
        ranks = next((case.ranks for case in record.cases if case.ranks), None)
        report.count(describe(collectives, ranks, record.run.machine), len(record.cases), "busbw record")
        take(ImportedSweep(record.run, record.end, ranks, None, list(record.cases)))


__all__ = ["import_folder", "import_path", "import_stream"]
