"""What a bundle holds of logs: those lines without which it would tell another finding than the logs themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from busbw.base.bounds import bounded
from busbw.base.effort import EFFORT
from busbw.base.errors import UserError
from busbw.base.secrets import hide
from busbw.doctor.examine import examine
from busbw.doctor.facts import gather, is_flight
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.reading.bundle import without_secrets
from busbw.doctor.reading.read_logs import lines_of, size_of
from busbw.doctor.reading.snapshot import Snapshot, TextFile
from busbw.doctor.reading.tables import tables_in
from busbw.records import Record

_MOST_BYTES = 1 << 20
"""Of all logs together: they are examined up to six times."""
_TWICE_BYTES, _AROUND_TWICE = 8 << 20, 8
"""Up to so much is examined once, and what is kept once again, which takes a second for each MiB of the logs."""
_AROUND = (0, 2, 8, 30)
"""Lines before and behind each line of evidence that are kept, the fewest with which the same is told."""


class Bundled(NamedTuple):
    """What goes into a bundle, and whether it tells what the logs tell; None where that was not looked at."""

    snapshot: Snapshot
    is_whole: bool | None


def bundled(snapshot: Snapshot, records: tuple[Record, ...]) -> Bundled:
    """The snapshot without secrets, and with the lines by which its findings above notes stay the same.

    A finding is sharpened by lines of any program, which no list of words can name beforehand.
    """
    bare = without_secrets(snapshot)
    logs = [each for each in snapshot.logs if not is_flight(each) and not (each.text is None and each.why)]
    size = sum(map(size_of, logs))
    if not logs or size > _TWICE_BYTES:
        return Bundled(bare, None if logs else True)
    found = examine(gather(snapshot, records))
    originals = {each.path: tuple(_lines(each)) for each in logs}
    if size > _MOST_BYTES:
        kept = _with_evidence(bare, originals, found, _AROUND_TWICE)
        return Bundled(kept, None if EFFORT.is_spent else _loud(_examined(kept)) == _loud(found))
    said = _examined(bare)
    for around in _AROUND:
        if _loud(said) == _loud(found) or EFFORT.is_spent:
            break
        bare = _with_evidence(bare, originals, (*found, *said), around)
        said = _examined(bare)
    return Bundled(bare, _loud(said) == _loud(found))


def _examined(snapshot: Snapshot) -> tuple[Finding, ...]:
    """What whoever reads the bundle is told."""
    records, notes = tables_in(snapshot.logs)
    return examine(gather(replace(snapshot, notes=(*notes, *snapshot.notes)), records))


def _loud(findings: Sequence[Finding]) -> list[tuple[str, str]]:
    return [(each.name, each.title) for each in findings if each.severity is not Severity.NOTE]


def _lines(file: TextFile) -> Iterator[str]:
    try:
        with bounded(file.path, size_of(file)), lines_of(file) as lines:
            yield from (line.rstrip("\n") for line in lines)
    except UserError:
        return


def _with_evidence(
    snapshot: Snapshot, originals: Mapping[str, Sequence[str]], findings: Sequence[Finding], around: int
) -> Snapshot:
    return replace(snapshot, logs=tuple(_with(each, originals, findings, around) for each in snapshot.logs))


def _with(file: TextFile, originals: Mapping[str, Sequence[str]], findings: Sequence[Finding], around: int) -> TextFile:
    """The log with the lines of the evidence, and so many around each, put back where they stood."""
    original = originals.get(file.path)
    if original is None or file.text is None:
        return file
    kept = file.text.split("\n")
    for at in (seen.line for each in findings for seen in each.evidence if seen.where == file.path and seen.line):
        for number in range(max(1, at - around), min(len(original), len(kept), at + around) + 1):
            kept[number - 1] = kept[number - 1] or hide(original[number - 1])
    return replace(file, text="\n".join(kept))
