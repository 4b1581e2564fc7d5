"""Communicators that a process makes, or that NCCL refused to make, as the header of a recording tells."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from busbw.watch.copies import Read, steady

MADE = ("none", "init", "init_all", "split", "shrink", "grow")
MAKING, REFUSED = struct.Struct("<2Q2i2IQ"), struct.Struct("<Q3iI")
MAKING_AT, REFUSED_AT = 280, 336
_MOST_RANKS = 1 << 20


@dataclass(frozen=True)
class Making:
    """A communicator that a process makes now, for which NCCL waits for the other ranks."""

    how: str
    identity: int
    """That it will have; of a split, shrink or grow its parent's."""
    since_ns: int
    rank: int
    ranks: int
    """Of how many; -1 where the program does not say."""


def read_making(read: Read) -> Making | None:
    """None where no communicator is being made, and in recordings of older recorders."""
    raw = steady(read, MAKING_AT, MAKING.size)
    return _known(*MAKING.unpack(raw)[:5]) if len(raw) == MAKING.size else None


def read_refused(read: Read) -> Making | None:
    """The last one that NCCL refused to make; `since_ns` is 0."""
    raw = steady(read, REFUSED_AT, REFUSED.size)
    identity, rank, ranks, _, how = REFUSED.unpack(raw) if len(raw) == REFUSED.size else (0, 0, 0, 0, 0)
    return _known(identity, 0, rank, ranks, how)


def _known(identity: int, since_ns: int, rank: int, ranks: int, how: int) -> Making | None:
    return Making(MADE[how], identity, since_ns, rank, min(ranks, _MOST_RANKS)) if 0 < how < len(MADE) else None
