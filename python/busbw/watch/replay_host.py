"""A replay in host memory: the recorder stands in front of the library again, so that both times mean the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from busbw.watch.recording import TYPES, Recording, find


def environment(environ: Mapping[str, str], library: Path, folder: Path, calls: int) -> dict[str, str]:
    """Of a rank: where the recorder writes, and what stands behind it."""
    made = {name: value for name, value in environ.items() if not name.startswith("BUSBW_RECORD_")}
    room = 1 << max(calls, 1024).bit_length()
    return made | {"BUSBW_RECORD_DIR": str(folder), "BUSBW_RECORD_CALLS": str(room), "BUSBW_REAL_NCCL": str(library),
                   "BUSBW_WITH_QUIET": "1"}  # fmt: skip


def put(folder: Path, communicators: Sequence[Sequence[tuple[int, int]]], results: Sequence[dict[str, Any]]) -> None:
    """Times of calls alone, as the recorder took them, in place of those that Python took around them.

    The first call of a shape is checked, and waits for ranks that start later. Where a rank has no recording its own
    times stay.
    """
    with ExitStack() as stack:
        for path in find(folder):
            recording = stack.enter_context(Recording(path))
            number = recording.header().launched_rank
            if not 0 <= number < len(results):
                continue
            mine = [place for place, (size, _) in enumerate(communicators[number]) if size]
            places = {row.place: place for row, place in zip(recording.communicators(), mine, strict=False)}
            times: dict[str, list[int]] = {}
            for call in recording.calls():
                if call.communicator in places and not call.group and call.host_ns is not None:
                    shape = call.shape
                    key = f"{places[call.communicator]} {shape.kind} {shape.count} {TYPES.index(shape.type)}"
                    times.setdefault(key, []).append(call.host_ns)
            taken = {key: each[1:] or each for key, each in times.items() if key in results[number]["times"]}
            results[number]["times"].update(taken)
