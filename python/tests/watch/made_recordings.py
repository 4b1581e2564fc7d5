"""Writes recordings by the documented layout, so that the readers are tried without a build and with any clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from busbw.watch import pulses
from busbw.watch.gpu_rows import GPU_HEADER, TIME
from busbw.watch.recording import CALL, COMMUNICATOR, HEADER, KINDS, OPS, TYPES

CALLS_AT = 8192


@dataclass(frozen=True)
class Made:
    """One call; times in ns from the start of the recording."""

    begun_ns: int
    host_ns: int | None = 6400
    kind: str = "all_reduce"
    count: int = 256
    type: str = "float32"
    op: str = "sum"
    root: int | None = None
    place: int = 0
    sequence: int | None = None
    group: int = 0
    flags: int = 0
    stream: int = 0
    launched: bool = False
    gpu_ns: int | None = None
    in_place: bool = False


@dataclass(frozen=True)
class Row:
    """One rank of a communicator."""

    rank: int
    ranks: int
    identity: int = 7
    parent: int = 0
    made: int = 1


def mixed(many: int) -> list[Made]:
    """Collectives with times on the GPU, and messages."""
    kinds = (("all_reduce", None), ("send", 1), ("recv", 1))
    return [
        Made(1000 * at, sequence=at, gpu_ns=900, kind=kinds[at % 3][0], root=kinds[at % 3][1]) for at in range(many)
    ]


def packed(ns: int | None) -> int:
    """As the recorder packs a duration: 11 bits of value, 5 of exponent, in ticks of 64 ns."""
    if ns is None:
        return 0
    ticks, exponent = max(ns // 64, 1), 0
    while ticks >= 2048:
        ticks, exponent = (ticks + 1) // 2, exponent + 1
    return exponent << 11 | ticks


def write(
    folder: Path,
    rank: int,
    rows: Sequence[Row],
    calls: Sequence[Made],
    *,
    host: str = "node",
    boot: int = 1,
    realtime_ns: int = 10**18,
    monotonic_ns: int = 10**12,
    synchronous: bool = True,
    pid: int = 0,
    lost: int = 0,
    capacity: int = 0,
    ended: bool = True,
    launches: int = 0,
    sees_launches: bool = True,
) -> Path:
    """A file of one process, whose ring holds at least its calls."""
    pid = pid or 1000 + rank
    path = folder / f"{host}-{pid}-1.busbwrec"
    room = capacity or 1 << max(len(calls) - 1, 1).bit_length()
    head = HEADER.pack(
        b"BUSBWREC", 1, 4096, 128, 32, 32, 64, room, 4096, CALLS_AT, CALLS_AT + room * CALL.size, pid, 0, 1, boot, 0,
        realtime_ns, monotonic_ns, 22809, rank, host.encode(), len(calls), lost, len(rows), 0, room, ended, synchronous,
    )  # fmt: skip
    table = b"".join(_row(row, place, calls, monotonic_ns) for place, row in enumerate(rows))
    content = bytearray(CALLS_AT + room * CALL.size)
    content[: len(head)] = head
    content[4096 : 4096 + len(table)] = table
    sequences = [0] * len(rows)
    for number, call in enumerate(calls, 1):
        sequences[call.place] += 1
        root = 0xFFFFF - call.in_place if call.root is None else call.root
        how = (
            KINDS.index(call.kind) | call.launched << 5
            | TYPES.index(call.type) << 6 | OPS.index(call.op) << 10 | call.flags << 13
            | root << 16 | call.group << 36 | packed(call.host_ns) << 48
        )  # fmt: skip
        sequence = sequences[call.place] if call.sequence is None else call.sequence
        at = CALLS_AT + (number - 1) % room * CALL.size
        CALL.pack_into(
            content, at, number, sequence, call.count | call.place << 48,
            call.begun_ns // 64 | call.stream << 48, how,
        )  # fmt: skip
    timed = [(number, call) for number, call in enumerate(calls, 1) if call.gpu_ns is not None]
    places = 1 << max(len(timed) - 1, 0).bit_length()
    GPU_HEADER.pack_into(content, len(head), launches, len(content), places, len(timed), 0, 1, sees_launches)
    for number, call in timed:
        took = (call.gpu_ns or 0) | call.place << 48
        content += TIME.pack(number, call.begun_ns, took, number, 1 if call.group else 0)
    path.write_bytes(content)
    return path


def _row(row: Row, place: int, calls: Sequence[Made], start_ns: int) -> bytes:
    mine = [call for call in calls if call.place == place]
    last = mine[-1] if mine else None
    began = start_ns + last.begun_ns if last else 0
    return COMMUNICATOR.pack(
        row.identity, row.parent, row.rank, row.ranks, row.rank, row.made, 0, 0, start_ns, 0, 0, 0, len(mine),
        len(mine), 0, began, began + (last.host_ns or 0) if last else 0, 0, 0, len(mine),
    )  # fmt: skip


def write_pulses(path: Path, *found: pulses.Pulse, stamp: int = 2) -> None:
    """As the recorder's thread writes what the GPU said; an odd stamp while it does."""
    with path.open("r+b") as file:
        file.seek(pulses.HEADER_AT)
        file.write(pulses.HEADER.pack(10**12, len(found), stamp))
        file.seek(pulses.PULSES_AT)
        file.write(b"".join(pulses.PULSE.pack(*astuple(each)) for each in found))
