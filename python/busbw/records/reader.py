"""Records from JSON Lines that may come from anywhere: bounded, checked, and every complaint names file and line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any, BinaryIO

from busbw.base.bounds import bounded
from busbw.base.effort import EFFORT, HINT, MIB, PER_CASE_OF_RECORDS, PER_MIB_OF_RECORDS, PER_SWEEP_EXAMINED
from busbw.base.errors import UserError
from busbw.base.files import bytes_on_disk, open_to_read
from busbw.base.text import clean
from busbw.records.decode import InvalidLineError, Line, decode
from busbw.records.model import Case, End, Record, Run

MAX_LINE_BYTES = 64 << 20
"""A case with 1000 batches of 4096 ranks is below this; what is longer is no record."""

MAX_FILE_BYTES = 1 << 30
"""More than a million cases with samples: what is larger does not belong into memory at once."""

_LINE_START = b'{"schema":'
"""How every writer of ours begins a line; other text that ends without a newline is not called cut off."""


Tell = Callable[[str], None]
"""Takes a sentence for the user."""


class _NotJsonError(InvalidLineError):
    """The line is no JSON at all, as one that was cut off is."""


@dataclass
class _Building:
    run: Run
    cases: list[Case] = field(default_factory=list)
    end: End | None = None
    notes: list[str] = field(default_factory=list)


def read_records(path: str | PathLike[str], tell: Tell | None = None) -> list[Record]:
    """Every record of a JSON Lines file, in the order of their `run` lines.

    With `tell` the file may be anybody's: it costs no more than what is left of the call, at least one case is read,
    and a part says so in its notes and to `tell`.
    """
    name = fspath(path)
    with open_to_read(Path(path)) as stream:
        try:
            with bounded(name, bytes_on_disk(stream.fileno())):
                return parse_records(stream, name, tell)
        except OSError as problem:
            raise UserError(f"cannot read {name}: {problem.strerror or problem}") from problem


def read_record(path: str | PathLike[str]) -> Record:
    """The one record of a file; a file of several is refused with their number."""
    records = read_records(path)
    if len(records) != 1:
        raise UserError(f"{fspath(path)} holds {len(records)} runs where one is expected; split it with `busbw import`")
    return records[0]


def parse_records(stream: BinaryIO, name: str, tell: Tell | None = None) -> list[Record]:
    """Every record of an open binary stream; `name` is what complaints call it, `tell` as for `read_records`."""
    building: dict[str, _Building] = {}
    file_notes: list[str] = []
    part = ""
    sweeps = set[tuple[object, ...]]()
    for number, line, is_last in _lines(stream, name):
        if tell is not None:
            if EFFORT.is_spent and any(each.cases for each in building.values()):
                part = f"{name}: the file was read to line {number - 1} and no further"
                tell(f"{part}, as reading costs too much: {HINT}")
                break
            EFFORT.left -= len(line) * PER_MIB_OF_RECORDS / MIB + PER_CASE_OF_RECORDS + EFFORT.per_case
        try:
            decoded = decode(_json(line))
        except _NotJsonError as problem:
            # A kill stops a write at the end of a page as likely as not: the lines before it are whole.
            could_be_cut = is_last and not line.endswith(b"\n") and (building or line.startswith(_LINE_START))
            if not could_be_cut:
                raise UserError(f"{name}:{number}: {problem}") from None
            if not building:
                raise UserError(f"{name}:{number}: the last line is cut off and nothing stands before it") from None
            file_notes.append(f"{name}:{number}: the last line is cut off and was left out")
            break
        except InvalidLineError as problem:
            raise UserError(f"{name}:{number}: {problem}") from None
        if tell is not None and EFFORT.per_case and isinstance(decoded, Case) and _sweep_of(decoded) not in sweeps:
            sweeps.add(_sweep_of(decoded))
            EFFORT.left -= PER_SWEEP_EXAMINED
        _add(decoded, building, f"{name}:{number}")
    if not building:
        raise UserError(f"{name} holds no busbw record")
    return [_finished(each, name, file_notes, part) for each in building.values()]


def _sweep_of(case: Case) -> tuple[object, ...]:
    """What cases of one curve have in common."""
    return case.run, case.collective, case.type, case.op, case.root, case.ranks, case.variant


def _finished(each: _Building, name: str, file_notes: list[str], part: str) -> Record:
    notes, run = each.notes + file_notes, clean(each.run.run)
    if each.end is None and part:
        notes.append(part)
    elif each.end is None:
        notes.append(f"{name}: run {run} has no end line: it was cut off, its {len(each.cases)} cases stand")
    elif each.end.cases != len(each.cases):
        notes.append(f"{name}: run {run} ended with {each.end.cases} cases, but {len(each.cases)} are here")
    return Record(each.run, tuple(each.cases), each.end, tuple(notes))


def _add(line: Line, building: dict[str, _Building], where: str) -> None:
    if isinstance(line, Run):
        if line.run in building:
            raise UserError(f"{where}: run {clean(line.run)} starts a second time; a file holds each run once")
        building[line.run] = _Building(line)
        return
    run = building.get(line.run)
    if run is None:
        raise UserError(f"{where}: a line of run {clean(line.run)} comes before its run line")
    if run.end is not None:
        raise UserError(f"{where}: a line of run {clean(line.run)} comes after its end line")
    if isinstance(line, Case):
        run.cases.append(line)
    else:
        run.end = line


def _lines(stream: BinaryIO, name: str) -> Iterator[tuple[int, bytes, bool]]:
    """Numbered lines that are not blank, each with whether the file ends there."""
    total = 0
    number = 0
    line = stream.readline(MAX_LINE_BYTES + 1)
    while line:
        number += 1
        total += len(line)
        if len(line) > MAX_LINE_BYTES:
            raise UserError(f"{name}:{number}: a line of more than {MAX_LINE_BYTES >> 20} MiB is no record's")
        if total > MAX_FILE_BYTES:
            raise UserError(f"{name} is larger than {MAX_FILE_BYTES >> 30} GiB, more than one file of records may be")
        following = stream.readline(MAX_LINE_BYTES + 1)
        if line.strip():
            yield number, line, not following
        line = following


def _refuse_constant(text: str) -> Any:
    raise InvalidLineError(f"{text} is not JSON")


def _json(line: bytes) -> Any:
    try:
        return json.loads(line, parse_constant=_refuse_constant)
    except InvalidLineError:
        raise
    except RecursionError:
        raise InvalidLineError("nested too deeply") from None
    except UnicodeDecodeError:
        raise _NotJsonError("not UTF-8 text") from None
    except ValueError as problem:
        raise _NotJsonError(f"not JSON ({getattr(problem, 'msg', 'a number is too long')})") from None
