"""The folder of recordings that a user names: what is there instead is said, with the verb that reads it."""

from __future__ import annotations

from pathlib import Path

from busbw.base.errors import UserError
from busbw.watch.recording import SUFFIX, find

_TRACES = (".json", ".json.gz")
_MOST = 1000
"""Entries of a folder that are looked at for traces."""


def recordings_in(folder: Path) -> list[Path]:
    """At least one; UserError where there is none, or where the word names a file."""
    if folder.is_file():
        if folder.name.endswith(SUFFIX):
            raise UserError(f"{folder} is one recording; name its folder, which holds those of all ranks")
        raise UserError(f"{folder} is no folder of recordings{_of_traces(folder, [folder.name])}")
    if paths := find(folder):
        return paths
    names = [each.name for _, each in zip(range(_MOST), folder.iterdir(), strict=False)]
    made = _of_traces(folder, names) or f"; `busbw watch --output {folder} -- PROGRAM` makes them"
    raise UserError(f"{folder} holds no recording{made}")


def _of_traces(path: Path, names: list[str]) -> str:
    if not any(name.endswith(_TRACES) for name in names):
        return ""
    return (
        f"; of execution traces `busbw import {path} --recordings FOLDER` makes them, and dumps of the flight recorder "
        f"are read by `busbw doctor {path}`"
    )
