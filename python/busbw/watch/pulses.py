"""How far GPUs have come, as the recorder's thread writes it into a recording while the program calls nothing."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from busbw.watch.copies import Read

HEADER = struct.Struct("<Q2I")
PULSE = struct.Struct("<2Hi4IQ")
HEADER_AT, PULSES_AT, MOST_PULSES = 320, 1024, 96
_TRIES = 3


@dataclass(frozen=True)
class Pulse:
    """How far the GPU has come with a communicator's calls; numbers of collectives, 0 for none."""

    place: int
    stream: int
    """The handle folded, of the first call that has not begun, else of the first that has not ended."""
    error: int
    """What the driver said, where it was neither done nor not done."""
    begun: int
    """The last that the GPU is known to have begun: what was queued before it in its stream is done."""
    not_begun: int
    """The first that it has not begun."""
    ended: int
    not_ended: int
    entered: int
    """Calls on the communicator when the GPU was asked: others since make this old."""


def read_pulses(read: Read) -> dict[int, Pulse]:
    """By place; none where the GPU was never asked, or where it is being written at each try. `read` takes a place of
    the file and an amount.
    """
    for _ in range(_TRIES):
        head = read(HEADER_AT, HEADER.size)
        raw = read(PULSES_AT, MOST_PULSES * PULSE.size)
        if len(head) < HEADER.size or len(raw) < MOST_PULSES * PULSE.size:
            return {}
        asked_ns, many, stamp = HEADER.unpack(head)
        if not asked_ns or many > MOST_PULSES:
            return {}
        # Between two equal and even stamps nobody wrote.
        if stamp % 2 == 0 and head == read(HEADER_AT, HEADER.size):
            return {each[0]: Pulse(*each) for each in PULSE.iter_unpack(raw[: many * PULSE.size])}
    return {}
