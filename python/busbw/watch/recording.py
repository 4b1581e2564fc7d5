"""Reads a recording (docs/reference/recording.md): a file that may still be written, hostile until checked."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from busbw.base.errors import UserError
from busbw.watch.containers import NUMBERS, is_ours
from busbw.watch.copies import entries
from busbw.watch.gpu_rows import CHUNK, MOST_CALLS, GpuHeader, GpuTime, read_gpu, read_times
from busbw.watch.makings import MADE, MAKING, MAKING_AT, Making, read_making, read_refused
from busbw.watch.pulses import Pulse, read_pulses

SUFFIX = ".busbwrec"
MAGIC = b"BUSBWREC"
HEADER = struct.Struct("<8s6I4Q2I5Q2i64s5Q2I")
COMMUNICATOR = struct.Struct("<2Q4I2i2Q2I8Q")
CALL = struct.Struct("<2I3Q")
OVERTAKEN = struct.Struct("<Q")
OVERTAKEN_AT = 360
KINDS = (
    "none", "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "gather", "scatter",
    "send", "recv", "put_signal", "signal", "wait_signal", "alltoallv", "msccl",
)  # fmt: skip
TYPES = (
    "int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16", "float8e4m3",
    "float8e5m2",
)  # fmt: skip
TYPE_BYTES = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)
OPS = ("sum", "prod", "max", "min", "avg")
ENDED = ("alive", "destroyed", "aborted", "revoked")
ROOTED = frozenset({"broadcast", "reduce", "gather", "scatter", "send", "recv", "put_signal", "signal"})
REDUCES = frozenset({"all_reduce", "reduce_scatter", "reduce"})
COLLECTIVES = frozenset(KINDS[1:9])
_SCALED_BY_RANKS = frozenset({"all_gather", "reduce_scatter", "alltoall", "gather", "scatter"})
_MAX_COMMUNICATORS = 0xFFFF
_BLOCK = 64 * COMMUNICATOR.size
_STAMP, _MADE = slice(0, 4), slice(28, 32)
_NO_ROOT, _IN_PLACE = 0xFFFFF, 0xFFFFE


@dataclass(frozen=True)
class Shape:
    """What must be equal on all ranks of a communicator, apart from the root of a message."""

    kind: str
    count: int
    type: str
    op: str
    root: int | None

    def __str__(self) -> str:
        words = [f"{self.kind} of {self.count} {self.type}"]
        if self.kind in REDUCES:
            words.append(self.op)
        if self.root is not None:
            words.append(f"{'peer' if self.kind in ('send', 'recv', 'put_signal', 'signal') else 'root'} {self.root}")
        return ", ".join(words)

    def bytes(self, ranks: int) -> int:
        """As nccl-tests counts the size of a collective: the larger buffer of a rank."""
        width = TYPE_BYTES[TYPES.index(self.type)] if self.type in TYPES else 1
        return self.count * width * (max(ranks, 1) if self.kind in _SCALED_BY_RANKS else 1)


@dataclass(frozen=True)
class Call:
    """One call; `begun_ns` from the start of the recording, `host_ns` None while it has not returned."""

    number: int
    sequence: int
    communicator: int
    shape: Shape
    stream: int
    group: int
    captured: bool
    configured: bool
    failed: bool
    begun_ns: int
    host_ns: int | None
    launched: bool = False
    """Run by the launch of a graph that had captured it."""
    in_place: bool = False
    """An all-reduce whose result came where its data lay."""


@dataclass(frozen=True)
class Communicator:
    """One rank's row; times by the monotonic clock of its host."""

    place: int
    identity: int
    parent: int
    rank: int
    ranks: int
    device: int
    made: str
    color: int
    last_error: int
    made_ns: int
    ended: str
    entered: int
    returned: int
    collectives: int
    entered_ns: int
    returned_ns: int
    last: Shape
    in_group_end: bool = False
    """The library is at the end of its newest group; False in recordings of older recorders."""
    in_end: bool = False
    """The library's ncclCommFinalize or ncclCommDestroy has not come back."""
    ended_ns: int = 0


@dataclass(frozen=True)
class Header:
    """Whose recording it is, and how much it holds."""

    call_capacity: int
    communicator_capacity: int
    communicators_at: int
    calls_at: int
    pid: int
    uid: int
    process_start: int
    boot_id: int
    pid_namespace: int
    realtime_ns: int
    monotonic_ns: int
    nccl_version: int
    launched_rank: int
    host: str
    calls: int
    lost: int
    communicators: int
    communicators_lost: int
    ended: bool
    synchronous: bool
    """Calls return when they are done, as over busbw's CPU library."""
    seen_here: bool = False
    """It runs, or ran, in a container of this machine; `pid` is its number here."""
    overtaken: int = 0
    """Calls that were not kept: the call a whole ring before them had not ended. 0 in recordings of older recorders."""


class Recording:
    """A file of a recording; every read sees it as it is then."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pid_here: int | None = None
        self._last: Header | None = None
        self._blocks: list[tuple[bytes, list[Communicator]]] = []
        """Rows of the table as they were read last."""
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}") from error
        try:
            self.header()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the file back."""
        os.close(self._file)

    def header(self) -> Header:
        """The head of the file as it is now; UserError where it is no recording that this busbw can read.

        Of a file that was cut off since it was opened, as a log that is rotated, what it was before.
        """
        raw = self._read(0, OVERTAKEN_AT + OVERTAKEN.size)
        if len(raw) < HEADER.size or raw[:8] != MAGIC:
            if self._last:
                return self._last
            raise UserError(f"{self.path} is no recording of busbw, or its process has not begun it yet")
        (
            _, version, header_bytes, row_bytes, rows, call_bytes, tick, capacity, rows_at, calls_at, length, pid, uid,
            start, boot, namespace, realtime, monotonic, nccl, rank, host, calls, lost, used,
            rows_lost, _, ended, synchronous,
        ) = HEADER.unpack_from(raw)  # fmt: skip
        if version != 1:
            raise UserError(f"{self.path} is a recording of version {version}; this busbw reads version 1")
        sizes = (header_bytes, row_bytes, call_bytes, tick) == (4096, COMMUNICATOR.size, CALL.size, 64)
        fits = 0 < capacity <= MOST_CALLS and capacity & (capacity - 1) == 0 and rows <= _MAX_COMMUNICATORS
        placed = (
            rows_at == 4096 and rows_at + rows * row_bytes <= calls_at and calls_at + capacity * call_bytes <= length
        )
        if not (sizes and fits and placed and used <= rows):
            raise UserError(f"{self.path} is a damaged recording: its header does not hold together")
        name = host.split(b"\0")[0].decode("ascii", errors="replace")
        if self._pid_here is None and not ended and not is_ours(name, namespace):
            self._pid_here = NUMBERS.here(self.path, name, namespace, pid, start, boot)
        self._last = Header(
            capacity, rows, rows_at, calls_at, self._pid_here or pid, uid, start, boot, namespace, realtime, monotonic,
            nccl, rank, name, calls, lost, used, rows_lost, bool(ended), bool(synchronous), self._pid_here is not None,
            OVERTAKEN.unpack_from(raw, OVERTAKEN_AT)[0] if len(raw) >= OVERTAKEN_AT + OVERTAKEN.size else 0,
        )  # fmt: skip
        return self._last

    def communicators(self) -> list[Communicator]:
        """Every row, in the order in which they were made."""
        header = self.header()
        amount = header.communicators * COMMUNICATOR.size
        whole = entries(self._read, header.communicators_at, amount, COMMUNICATOR.size, _MADE)
        found: list[Communicator] = []
        # Of many most have ended and stay as they are.
        for number in range(-(-len(whole) // _BLOCK)):
            block = whole[number * _BLOCK : (number + 1) * _BLOCK]
            if number >= len(self._blocks) or self._blocks[number][0] != block:
                first = number * _BLOCK // COMMUNICATOR.size
                rows = [_row(place, each) for place, each in enumerate(COMMUNICATOR.iter_unpack(block), first)]
                self._blocks[number : number + 1] = [(block, [row for row in rows if row])]
            found += self._blocks[number][1]
        return found

    def calls(self, first: int = 1) -> Iterator[Call]:
        """Calls from number `first` on that the ring still holds, oldest first."""
        for number, fields in self.raw_calls(first):
            yield _call(number, fields)

    def raw_calls(self, first: int = 1) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The same as numbers, for those who count many."""
        for begin, oldest, raw in self.blocks_of_calls(first):
            for at, fields in enumerate(CALL.iter_unpack(raw), begin):
                if fields[0] == at & 0xFFFFFFFF and at >= oldest:
                    yield at, fields

    def blocks_of_calls(self, first: int, most: int = MOST_CALLS) -> Iterator[tuple[int, int, bytes]]:
        """Places of calls as they lie there: number of the first, number of the oldest that may be taken, and bytes."""
        header = self.header()
        number = max(first, header.calls - header.call_capacity + 1, 1)
        last = min(header.calls, number + most - 1)
        while number <= last:
            place = (number - 1) % header.call_capacity
            amount = min(CHUNK, header.call_capacity - place, last - number + 1)
            raw = entries(self._read, header.calls_at + place * CALL.size, amount * CALL.size, CALL.size, _STAMP)
            # What the writer has come round to since is not what was asked for.
            oldest = self.header().calls - header.call_capacity + 1
            yield number, oldest, raw
            number += amount

    def gpu(self) -> GpuHeader:
        """What there is of the GPU; UserError where it does not hold together."""
        return read_gpu(self._read, self.path)

    def making(self) -> Making | None:
        """None where no communicator is being made, and in recordings of older recorders."""
        return read_making(self._read)

    def refused(self) -> Making | None:
        """The last communicator that NCCL refused to make; `since_ns` is 0."""
        return read_refused(self._read)

    def is_mapped(self) -> bool:
        """Whether its process noted that it has the file in its memory."""
        raw = self._read(MAKING_AT, MAKING.size)
        return len(raw) == MAKING.size and bool(MAKING.unpack(raw)[-1])

    def pulses(self) -> dict[int, Pulse]:
        """Of each place what its GPU was last asked; none in recordings of older recorders."""
        return read_pulses(self._read)

    def times(self, first: int = 0) -> Iterator[tuple[int, GpuTime]]:
        """Times on the GPU with their places in the order in which they were written, from place `first` on."""
        return read_times(self._read, self.gpu, first)

    def call(self, number: int) -> Call | None:
        """One call, where the ring still holds it."""
        header = self.header()
        if not max(0, header.calls - header.call_capacity) < number <= header.calls:
            return None
        at = header.calls_at + (number - 1) % header.call_capacity * CALL.size
        raw = entries(self._read, at, CALL.size, CALL.size, _STAMP)
        if len(raw) < CALL.size or (fields := CALL.unpack(raw))[0] != number & 0xFFFFFFFF:
            return None
        # The writer may have come round to it while it was read.
        if number <= self.overwritten():
            return None
        return _call(number, fields)

    def overwritten(self) -> int:
        """How many calls the ring no longer holds."""
        header = self.header()
        return max(0, header.calls - header.call_capacity)

    def _read(self, at: int, amount: int) -> bytes:
        try:
            return os.pread(self._file, amount, at)
        except (OSError, OverflowError) as error:
            raise UserError(f"{self.path} cannot be read: {error}") from error


def find(folder: Path) -> list[Path]:
    """The recordings in a folder, by name; at most 65,536 of them."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.path for _, entry in zip(range(1 << 17), entries, strict=False)]
    except OSError as error:
        code = 2 if isinstance(error, FileNotFoundError) else 1
        raise UserError(f"{folder} cannot be read: {error.strerror}", exit_code=code) from error
    return sorted(Path(name) for name in names if name.endswith(SUFFIX))[: 1 << 16]


def _named(names: tuple[str, ...], number: int) -> str:
    return names[number] if number < len(names) else f"number {number}"


def shape_of(what: int, how: int) -> Shape:
    """Of the words of a call that say what it was."""
    return _shape(what & 0xFFFFFFFFFFFF, how & 0xFFFFF1FDF)


@lru_cache(maxsize=4096)
def _shape(what: int, how: int) -> Shape:
    kind = _named(KINDS, how & 0x1F)
    root = how >> 16 & 0xFFFFF
    op = how >> 10 & 7
    return Shape(
        kind,
        what & 0xFFFFFFFFFFFF,
        _named(TYPES, how >> 6 & 0xF),
        "an operator of the program" if op == 7 else _named(OPS, op),
        root if kind in ROOTED and root != _NO_ROOT else None,
    )


def _row(place: int, raw: tuple[int, ...]) -> Communicator | None:
    (
        identity, parent, rank, ranks, device, made, color, error, made_ns, ended_ns, ended, ending, entered,
        returned, _, entered_ns, returned_ns, last_what, last_how, collectives,
    ) = raw  # fmt: skip
    if made == 0:
        return None
    return Communicator(
        place, identity, parent, rank, ranks, device if device < 1 << 31 else -1, _named(MADE, made), color, error,
        made_ns, _named(ENDED, ended), entered, returned, collectives, entered_ns, returned_ns,
        shape_of(last_what, last_how), ending == 1, ending == 2, ended_ns,
    )  # fmt: skip


def host_ns_of(how: int) -> int | None:
    """How long the host was in a call: None while it is, or where its process ended in it."""
    packed = how >> 48
    return ((packed & 0x7FF) << (packed >> 11)) * 64 if packed else None


def _call(number: int, fields: tuple[int, ...]) -> Call:
    _, sequence, what, when, how = fields
    flags = how >> 13 & 7
    return Call(
        number=number,
        sequence=sequence,
        communicator=what >> 48,
        shape=shape_of(what, how),
        stream=when >> 48,
        group=how >> 36 & 0xFFF,
        captured=bool(flags & 1),
        configured=bool(flags & 2),
        failed=bool(flags & 4),
        begun_ns=(when & 0xFFFFFFFFFFFF) * 64,
        host_ns=host_ns_of(how),
        launched=bool(how >> 5 & 1),
        in_place=KINDS[how & 0x1F : 1 + (how & 0x1F)] == ("all_reduce",) and how >> 16 & 0xFFFFF == _IN_PLACE,
    )
