"""What a word on the command line names: a record, a log of another tool, a kept run, or a catalogue entry."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

from busbw.base.effort import EFFORT, HINT
from busbw.base.errors import UsageError, UserError
from busbw.base.files import read_start
from busbw.records import Case, Collective, Record, read_records

_NUMBERED = re.compile(r"(.+)#(\d+)")
CATALOGUE = "catalogue:"
EXPERIMENT = "experiment.json"
RECORD = "record.jsonl"
SMALL = 1 << 16
"""Bytes that a word counts for at least where words share what a call may spend."""
SOURCES_HELP = """\
A run is named by a file or folder of records, or a log or folder of logs
that `busbw import` can read. A kept run is named by a tag or its id (or a
unique start of it, or its shortened form), published figures by
catalogue:NAME. NAME#2 takes the second run of several."""


@dataclass(frozen=True)
class Labelled:
    """A record and what to call it in a table."""

    label: str
    record: Record


def resolve(
    words: Sequence[str],
    runs: str | None = None,
    *,
    by_variant: bool = True,
    collective: Collective | None = None,
) -> list[Labelled]:
    """Every record that the words name, in their order; UserError names the word that means nothing.

    `by_variant` makes a run of each named variant of a record, for those who compare runs with each other.
    `collective` is what logs measure in which nothing says it.
    """
    found: list[Labelled] = []
    for word in sharing(words):
        found += _resolve_one(word, runs, by_variant=by_variant, collective=collective)
    return found


def sharing(words: Sequence[str]) -> Iterator[str]:
    """The words, each with its share of what the call may spend: half is divided by sizes, half among all alike."""
    sizes = [_size(word) for word in words]
    shares = [each / sum(sizes) + 1 / len(sizes) for each in sizes]
    for at, word in enumerate(words):
        with EFFORT.part(shares[at] / sum(shares[at:])):
            yield word


def _size(word: str) -> int:
    """Bytes that will be read for a word, or a guess."""
    path = Path(word)
    with suppress(OSError, ValueError):
        return max(SMALL, (path / RECORD if path.is_dir() else path).stat().st_size)
    return SMALL


def _resolve_one(word: str, runs: str | None, *, by_variant: bool, collective: Collective | None) -> list[Labelled]:
    numbered = None if Path(word).exists() else _NUMBERED.fullmatch(word)
    name = numbered[1] if numbered else word
    loaded = _load(name, runs, collective)
    found = [each for source, records in loaded for each in _label(source, records, by_variant=by_variant)]
    if not numbered:
        return found
    number = int(numbered[2])
    if not 1 <= number <= len(found):
        raise UsageError(f"{name} holds {len(found)} runs: there is no {word}")
    return [Labelled(f"{_short(name)}#{number}", found[number - 1].record)]


def _label(source: str, records: list[Record], *, by_variant: bool) -> list[Labelled]:
    """What one source holds, numbered where that is more than one."""
    found = [each for record in records for each in (_by_variant(record) if by_variant else (record,))]
    if len(found) == 1:
        return [Labelled(source, found[0])]
    return [Labelled(f"{source}#{number}", record) for number, record in enumerate(found, start=1)]


def resolve_sides(
    words: Sequence[str], runs: str | None = None, *, collective: Collective | None = None
) -> list[Labelled]:
    """As `resolve`, but runs that repeat each other share a label: A+B, and the trials of an experiment's variant."""
    found: list[Labelled] = []
    for word in sharing(words):
        parts = word.split("+") if "+" in word and not Path(word).exists() else [word]
        if len(parts) > 1:
            found += [
                Labelled(word, each.record) for each in resolve(parts, runs, by_variant=False, collective=collective)
            ]
        elif (Path(word) / EXPERIMENT).is_file():
            found += _trials(Path(word))
        else:
            found += _resolve_one(word, runs, by_variant=False, collective=collective)
    return found


def _trials(folder: Path) -> list[Labelled]:
    """Every trial of an experiment that left a record, under the name of its variant, in the variants' order."""
    plan = import_module("busbw.experiment.plan").load(folder)
    trials = import_module("busbw.experiment.loop").read_trials(folder)
    names, paths = [], []
    for number, variant in enumerate(plan.variants):
        values = [f"{factor.name}={level.label}" for factor, level in zip(plan.factors, variant.levels, strict=True)]
        name = variant.name if number else f"baseline ({', '.join(values)})"
        for trial in trials:
            if trial.variant == number and trial.outcome.value == "measured":
                names.append(name)
                paths.append(folder / "trials" / f"r{trial.round:04d}-v{number:03d}" / RECORD)
    read = _read(paths, str(folder))
    found = [Labelled(name, record) for name, records in zip(names, read, strict=False) for record in records]
    if not found:
        raise UserError(f"{folder} is an experiment without a trial that was measured: there is nothing to report")
    return found


def say_part(sentence: str) -> None:
    """A part alone was read: the command does not end as if it were all."""
    EFFORT.is_cut = True
    print(f"busbw: {sentence}", file=sys.stderr)


def _read(paths: Sequence[Path], name: str) -> list[list[Record]]:
    """The records of each of files that may be anybody's, as far as the sum of the call goes."""
    found: list[list[Record]] = []
    for at, path in enumerate(paths):
        if at and EFFORT.is_spent:
            say_part(
                f"{name}: {len(paths) - at} of its {len(paths)} records were not read, as they cost too much: {HINT}"
            )
            break
        with EFFORT.examining():
            found.append(read_records(path, say_part))
    return found


def _load(name: str, runs: str | None, collective: Collective | None) -> list[tuple[str, list[Record]]]:
    """What a name stands for: the records of one source, or those of each entry of the catalogue's group."""
    if name.startswith(CATALOGUE):
        entries = import_module("busbw.records.catalogue").load_named(name.removeprefix(CATALOGUE))
        return [(f"{CATALOGUE}{entry}", [record]) for entry, record in entries.items()]
    return [(_short(name), _load_records(name, runs, collective))]


def _load_records(name: str, runs: str | None, collective: Collective | None) -> list[Record]:
    path = Path(name)
    if path.is_dir():
        if not (path / RECORD).exists():
            return list(import_module("busbw.importers").load(path, collective, say_part))
        return _read([path / RECORD], name)[0]
    if path.exists():
        return _read_file(path, collective)
    from busbw.runs import store
    from busbw.runs.lookup import find

    kept = find(name, store.location(runs))
    if not kept:
        raise UsageError(
            f"'{name}' is neither a file nor the id or tag of a run in {store.location(runs)}; "
            "`busbw runs` lists the runs, `busbw import --help` the logs that can be read"
        )
    return [record for records in _read(kept, name) for record in records]


def _read_file(path: Path, collective: Collective | None) -> list[Record]:
    if not path.is_file():
        raise UserError(f"{path} is no regular file; save what it gives into one first")
    start = read_start(path, 4096).lstrip()
    if re.match(rb'\{"schema"\s*:\s*\d', start) or (
        start.startswith(b"{") and b'"kind"' in start and b'"run"' in start
    ):
        return _read([path], str(path))[0]
    return list(import_module("busbw.importers").load(path, collective, say_part))


def _by_variant(record: Record) -> Iterator[Record]:
    """A record of several named variants (K0, K1, ...) is as many runs: they compete with each other."""
    variants: dict[str | None, list[Case]] = {}
    for case in record.cases:
        variants.setdefault(case.variant, []).append(case)
    if len(variants) < 2:
        yield record
        return
    for cases in variants.values():
        yield replace(record, cases=tuple(cases))


def _short(name: str) -> str:
    return name if name.startswith(CATALOGUE) else Path(name).name or name
