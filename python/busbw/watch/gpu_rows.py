"""What a recording has of the GPU: times of calls, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass


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
