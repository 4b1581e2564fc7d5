"""The folder of runs: one folder per run, its record as it was written, tags and notes beside it.

The folders are the truth; whatever else lies here (the index) can be deleted and made again.
"""

from __future__ import annotations

import filecmp
import json
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from busbw.base.errors import UserError
from busbw.base.files import read_start
from busbw.records import Record, record_lines
from busbw.records.writer import save_lines
from busbw.runs.destination import RECORD_NAME, runs_directory

LABELS_NAME = "labels.json"
MAX_LABELS = 1 << 20
_MOST_ALIKE = 1000
_UNSAFE = re.compile(r"[^A-Za-z0-9_.+-]+")
_TAG = re.compile(r"[A-Za-z0-9_.:+/-]{1,64}")


@dataclass(frozen=True)
class Labels:
    """What people say about a run after it was measured."""

    tags: tuple[str, ...] = ()
    note: str = ""


def location(chosen: str | None = None) -> Path:
    """`--runs DIR`, else $BUSBW_RUNS, else the user's data folder."""
    return runs_directory(chosen)


def add(record: Record, runs: Path | None = None) -> Path:
    """Keeps a record as a run and returns its file; the same run added twice is there once."""
    return add_lines(record.run.run, record_lines(record), runs)


def add_lines(run_id: str, lines: Iterable[str], runs: Path | None = None) -> Path:
    """As `add`, for the lines of a record that were never objects."""
    root = runs or location()
    name = folder_name(run_id)
    folder = root / name
    try:
        path = _into_new(lines, str(folder))
    except FileExistsError:
        path = _beside(lines, root, name)
    except OSError as problem:
        raise UserError(f"the run cannot be kept in {folder}: {problem.strerror or problem}") from problem
    return path


def _into_new(lines: Iterable[str], folder: str) -> Path:
    """The record in a folder that is made for it, which is no run before its record is whole; FileExistsError."""
    # Plain strings: an import may keep tens of thousands of runs, and path objects would cost more than the files.
    try:
        os.mkdir(folder)  # noqa: PTH102
    except FileNotFoundError:
        os.makedirs(folder)  # noqa: PTH103
    path, partial = f"{folder}/{RECORD_NAME}", f"{folder}/.{RECORD_NAME}.{os.getpid()}.partial"
    try:
        with open(partial, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:  # noqa: PTH123
            stream.writelines(lines)
        os.rename(partial, path)  # noqa: PTH104
    except BaseException:
        with suppress(OSError):  # what somebody else put into it stays theirs
            Path(partial).unlink(missing_ok=True)
            Path(folder).rmdir()
        raise
    return Path(path)


def _beside(lines: Iterable[str], root: Path, name: str) -> Path:
    """The record of a run whose name is taken: by the same record, or by another one."""
    fresh = root / f".new-{os.getpid()}-{name}"
    try:
        fresh.mkdir(parents=True)
        save_lines(lines, fresh / RECORD_NAME)
        return _moved(fresh, root, name)
    except OSError as problem:
        raise UserError(f"the run cannot be kept in {root / name}: {problem.strerror or problem}") from problem
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _moved(fresh: Path, root: Path, name: str) -> Path:
    """Where the new record lies now: a run that is there already is never replaced, whatever id a file claims."""
    for number in range(1, _MOST_ALIKE):
        folder = root / (name if number == 1 else f"{name}-{number}")
        kept = folder / RECORD_NAME
        if kept.is_file() and filecmp.cmp(fresh / RECORD_NAME, kept, shallow=False):
            return kept
        try:
            if not os.path.lexists(kept) and not folder.is_symlink():
                folder.mkdir(exist_ok=True)
                (fresh / RECORD_NAME).rename(kept)
                return kept
        except FileExistsError:
            continue
    raise UserError(f"more than {_MOST_ALIKE} different runs are called {name}; delete some with `busbw runs delete`")


def folder_name(run_id: str) -> str:
    """The run's identifier as a name of a folder: no path separators, no hidden or endless names."""
    name = _UNSAFE.sub("-", run_id).strip("-.")[:120]
    if not name:
        raise UserError(f"'{run_id}' cannot name a run's folder: it has no letter or digit")
    return name


def record_states(root: Path) -> Iterator[tuple[str, os.stat_result, int]]:
    """Every kept run: its folder's name, its record's state and when its labels changed, oldest name first."""
    try:
        with os.scandir(root) as entries:
            names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
    except FileNotFoundError:
        return
    except OSError as problem:
        raise UserError(f"the runs in {root} cannot be listed: {problem.strerror or problem}") from problem
    # Plain strings: with tens of thousands of runs, path objects would cost more than the file system.
    for name in names:
        try:
            # Links are not followed: what lies elsewhere is no run of this folder, and a FIFO would never end.
            state = os.lstat(f"{root}/{name}/{RECORD_NAME}")
            if not stat.S_ISREG(state.st_mode) or not stat.S_ISDIR(os.lstat(f"{root}/{name}").st_mode):
                continue
        except OSError:
            # No record yet, or the run was deleted meanwhile: not a run.
            continue
        try:
            labelled = os.stat(f"{root}/{name}/{LABELS_NAME}").st_mtime_ns  # noqa: PTH116
        except OSError:
            labelled = 0
        yield name, state, labelled


def read_labels(folder: Path) -> Labels:
    """Tags and note of a run; a missing or broken file is none."""
    try:
        raw = json.loads(read_start(folder / LABELS_NAME, MAX_LABELS))
    except (UserError, ValueError, RecursionError):
        return Labels()
    if not isinstance(raw, Mapping):
        return Labels()
    tags, note = raw.get("tags"), raw.get("note")
    return Labels(
        tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else (),
        note if isinstance(note, str) else "",
    )


def write_labels(folder: Path, labels: Labels) -> None:
    """Tags and note appear whole or not at all, so that a reader never sees half of them."""
    for tag in labels.tags:
        if not _TAG.fullmatch(tag):
            raise UserError(f"'{tag}' is no tag: up to 64 letters, digits and _.:+/- make one")
    path = folder / LABELS_NAME
    partial = path.with_name(f".{LABELS_NAME}.{os.getpid()}")
    text = json.dumps({"tags": list(labels.tags), "note": labels.note}, ensure_ascii=False)
    try:
        partial.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
        partial.replace(path)
    except OSError as problem:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise UserError(f"the tags of {folder.name} cannot be written: {problem.strerror or problem}") from problem


def delete(folder: Path) -> None:
    """Removes a run: it first gets a hidden name, so that nobody lists or reads a half-removed run."""
    if is_empty(folder.parent, folder.name):
        with suppress(OSError):  # a record came into it meanwhile: then it is a run
            folder.rmdir()
            return
    if not is_name(folder.name) or folder.is_symlink() or not (folder / RECORD_NAME).is_file():
        raise UserError(f"{folder} is no run's folder, and only those are deleted")
    hidden = folder.with_name(f".deleted-{os.getpid()}-{folder.name}")
    try:
        folder.rename(hidden)
        shutil.rmtree(hidden)
    except OSError as problem:
        raise UserError(f"run {folder.name} cannot be deleted: {problem.strerror or problem}") from problem


def is_empty(root: Path, name: str) -> bool:
    """Whether a run that was killed before its first line left a folder of this name, which then holds nothing."""
    folder = root / name
    try:
        return is_name(name) and not folder.is_symlink() and not any(folder.iterdir())
    except OSError:
        return False


def is_name(word: str) -> bool:
    return bool(word) and not word.startswith(".") and "/" not in word
