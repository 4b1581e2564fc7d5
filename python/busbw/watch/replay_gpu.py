"""A replay in GPU memory: the recorder stands in front of the library again, so that both times mean the same.

A recorded time on the GPU and a replayed one are the transfer: the shortest of all ranks (gpu_times.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from busbw.watch.gpu_times import GpuTimes
from busbw.watch.recording import TYPES, Recording, find

Key = tuple[int, str, int, int]
"""Communicator of the plan, kind, count and type."""


def environment(environ: Mapping[str, str], library: Path, folder: Path, *, is_ours: bool) -> dict[str, str]:
    """Of a rank: where the recorder writes, and what stands behind it."""
    made = {name: value for name, value in environ.items() if not name.startswith("BUSBW_RECORD_")}
    made |= {"BUSBW_RECORD_DIR": str(folder), "BUSBW_RECORD_TIMES": "all", "BUSBW_WITH_QUIET": "1"}
    made["BUSBW_RECORD_OVER" if is_ours else "BUSBW_REAL_NCCL"] = str(library)
    return made


def transfers(recordings: Sequence[Recording], places: Mapping[int, int]) -> dict[Key, list[int]]:
    """Times of all collectives that were timed on all their ranks, in ns; `places` by a communicator's identity."""
    found: dict[Key, list[int]] = {}
    times, before = GpuTimes(), -1
    while before != times.seen:
        before = times.seen
        for timed in times.look(recordings):
            if timed.communicator in places and timed.shape.type in TYPES:
                shape = timed.shape
                key = (places[timed.communicator], shape.kind, shape.count, TYPES.index(shape.type))
                found.setdefault(key, []).append(timed.transfer_ns)
    return found


def replayed(folder: Path, communicators: Sequence[Sequence[tuple[int, int]]]) -> tuple[dict[Key, list[int]], int]:
    """What the replay's own recordings hold, and how many calls they could not time.

    `communicators` are those of each rank of the plan. A rank makes them in the plan's order.
    """
    recordings = [Recording(path) for path in find(folder)]
    try:
        places: dict[int, int] = {}
        for recording in recordings:
            number = recording.header().launched_rank
            own = communicators[number] if 0 <= number < len(communicators) else ()
            mine = [place for place, (size, _) in enumerate(own) if size]
            places |= {row.identity: place for row, place in zip(recording.communicators(), mine, strict=False)}
        return transfers(recordings, places), sum(recording.gpu().missed for recording in recordings)
    finally:
        for recording in recordings:
            recording.close()


def put(results: Sequence[dict[str, Any]], found: Mapping[Key, Sequence[int]]) -> None:
    """In place of the host's times in the calls, which come back before they have run."""
    times = {" ".join(map(str, key)): list(each) for key, each in found.items()}
    for result in results:
        result["times"] = {key: times[key] for key in result["times"] if key in times}
        result["groups"] = []
