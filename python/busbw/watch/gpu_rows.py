"""What a recording has of the GPU: times of calls, and how many there are."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from busbw.base.errors import UserError
from busbw.watch.copies import Read, entries

TIME = struct.Struct("<3Q2I")
GPU_HEADER = struct.Struct("<5Q2I")
GPU_HEADER_AT = 232
MOST_CALLS = 1 << 32
CHUNK = 1 << 15
"""So many entries of a ring are read together."""


@dataclass(frozen=True)
class GpuTime:
    """How long a call took on the GPU; `begun_ns` from the start of the recording, by the host's clock."""

    number: int
    sequence: int
    communicator: int
    begun_ns: int
    took_ns: int
    in_group: bool
    """With other calls: the time is that of the whole group in its stream."""


@dataclass(frozen=True)
class GpuHeader:
    """What a recording has of the GPU; zeros in those of older recorders."""

    launches: int
    """Of graphs with calls in them."""
    times_at: int
    capacity: int
    times: int
    missed: int
    """Calls of the sample that have no time."""
    every: int
    sees_launches: bool


def read_gpu(read: Read, path: Path) -> GpuHeader:
    """UserError, which names `path`, where it does not hold together."""
    raw = read(GPU_HEADER_AT, GPU_HEADER.size)
    if len(raw) < GPU_HEADER.size:
        return GpuHeader(0, 0, 0, 0, 0, 0, False)
    launches, at, capacity, times, missed, every, sees = GPU_HEADER.unpack(raw)
    if times and (capacity == 0 or capacity > MOST_CALLS or capacity & (capacity - 1) or at >= 1 << 48):
        raise UserError(f"{path} is a damaged recording: its times do not hold together")
    return GpuHeader(launches, at, capacity, times, missed, every, bool(sees))


def read_times(read: Read, now: Callable[[], GpuHeader], first: int) -> Iterator[tuple[int, GpuTime]]:
    """With their places in the order in which they were written, from place `first` on."""
    gpu = now()
    at = max(first, gpu.times - gpu.capacity, 0)
    while at < gpu.times:
        place = at % gpu.capacity
        amount = min(CHUNK, gpu.capacity - place, gpu.times - at)
        # The writer counts a time only once it is there, so the oldest may be overwritten already: all of it must stay.
        raw = entries(read, gpu.times_at + place * TIME.size, amount * TIME.size, TIME.size, slice(0, TIME.size))
        if not raw:
            return
        oldest = now().times - gpu.capacity
        for number, (call, begun, what, sequence, flags) in enumerate(TIME.iter_unpack(raw), at):
            if call and number >= oldest:
                yield number, GpuTime(call, sequence, what >> 48, begun, what & 0xFFFFFFFFFFFF, bool(flags & 1))
        at += amount
