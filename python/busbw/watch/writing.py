"""Writes a recording by the documented layout, of calls that another tool has noted down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from busbw.base.files import writing
from busbw.watch.recording import CALL, COLLECTIVES, COMMUNICATOR, HEADER, KINDS, OPS, SUFFIX, TYPES

_ROWS_AT = 4096
_NO_ROOT = 0xFFFFF
TICK_NS = 64
MAX_COUNT = (1 << 48) - 1
MAX_ROWS = 4096


@dataclass(frozen=True)
class Noted:
    """One call; `place` is the number of its communicator, `took_ns` None where that is not known."""

    place: int
    kind: str
    count: int
    type: str
    root: int | None = None
    op: str = "sum"
    group: int = 0
    begun_ns: int = 0
    took_ns: int | None = None


@dataclass(frozen=True)
class Group:
    """A communicator of this rank; the identity is equal on all its ranks."""

    identity: int
    rank: int
    ranks: int


def write_recording(folder: Path, rank: int, groups: Sequence[Group], calls: Sequence[Noted]) -> Path:
    """A whole recording of a process that has ended; calls that return before they have run, as over NCCL."""
    room = 1 << max(len(calls) - 1, 1).bit_length()
    calls_at = _ROWS_AT + max(len(groups), 1) * COMMUNICATOR.size
    calls_at += -calls_at % 4096
    length = calls_at + room * CALL.size
    head = HEADER.pack(
        b"BUSBWREC", 1, 4096, COMMUNICATOR.size, max(len(groups), 1), CALL.size, TICK_NS, room, _ROWS_AT, calls_at,
        length, rank + 1, 0, 1, 1, 0, 0, 0, 0, rank, b"trace", len(calls), 0, len(groups), 0, room, 1, 0,
    )  # fmt: skip
    path = folder / f"trace-{rank + 1}-1{SUFFIX}"
    collectives = [0] * len(groups)
    rings = bytearray(len(calls) * CALL.size)
    for number, call in enumerate(calls, 1):
        collectives[call.place] += call.kind in COLLECTIVES
        sequence = collectives[call.place] & 0xFFFFFFFF
        when = min(call.begun_ns // TICK_NS, MAX_COUNT)
        CALL.pack_into(
            rings, (number - 1) * CALL.size, number & 0xFFFFFFFF, sequence, call.count | call.place << 48, when,
            how_of(call),
        )  # fmt: skip
    table = b"".join(_row(place, group, calls, collectives[place]) for place, group in enumerate(groups))
    with writing(path), path.open("xb") as file:
        try:
            path.chmod(0o600)
            file.write(head.ljust(_ROWS_AT, b"\0"))
            file.write(table.ljust(calls_at - _ROWS_AT, b"\0"))
            file.write(rings)
            file.truncate(length)
            file.flush()
        except BaseException:
            path.unlink()  # half a recording is none
            raise
    return path


def how_of(call: Noted) -> int:
    """The word of a call that says how it was made."""
    root = _NO_ROOT if call.root is None else call.root
    return (
        KINDS.index(call.kind) | TYPES.index(call.type) << 6 | OPS.index(call.op) << 10 | root << 16
        | (call.group & 0xFFF) << 36 | packed(call.took_ns or TICK_NS) << 48
    )  # fmt: skip


def packed(ns: int) -> int:
    """A duration: 11 bits of value and 5 of exponent, in ticks."""
    ticks, exponent = max(ns // TICK_NS, 1), 0
    while ticks >= 2048 and exponent < 31:
        ticks, exponent = (ticks + 1) // 2, exponent + 1
    return exponent << 11 | min(ticks, 2047)


def _row(place: int, group: Group, calls: Sequence[Noted], collectives: int) -> bytes:
    mine = [call for call in calls if call.place == place]
    began = mine[-1].begun_ns if mine else 0
    last = (mine[-1].count, how_of(mine[-1]) & 0xFFFFFFFFFFFF) if mine else (0, 0)
    return COMMUNICATOR.pack(
        group.identity, 0, group.rank, group.ranks, 0, 1, 0, 0, 0, 0, 0, 0, len(mine), len(mine), 0, began, began,
        *last, collectives,
    )  # fmt: skip
