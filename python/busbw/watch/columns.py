"""Calls of recordings as columns of numbers: a million of them are read and matched in about a second.

Who looks at each call by itself takes arrivals.py. Both match the calls of one number on all ranks of a communicator;
here no clocks are learned, so ranks are compared within one boot of one host only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from busbw.base.errors import UserError
from busbw.watch.arrivals import Arrivals, Meeting, who_of
from busbw.watch.grown import two_names
from busbw.watch.recording import COLLECTIVES, KINDS, Header, Recording

_SHAPE = 0xFFFFF1FDF
CAPTURED, LAUNCHED, _FAILED = 1 << 13, 1 << 5, 1 << 15
"""In `how`."""
_COUNT = (1 << 48) - 1
_MOST_NS = 1 << 61
"""So that no sum of times leaves 63 bits: 73 years after 1970, and nine of a host that runs."""


@dataclass
class Columns:
    """The oldest calls of one recording that the ring holds; every column has a number for each."""

    head: Header
    held: int
    """Calls that the ring holds, read or not."""
    sequence: Any
    place: Any
    begun_ns: Any
    """By the monotonic clock of the host."""
    host_ns: Any
    """0 for a call that has not come back."""
    count: Any
    how: Any
    next: int = 0
    """Number of the first call that was not read."""

    @property
    def shape(self) -> Any:
        """With the count all that tells kind, type, operator, root, and whether it was captured or launched."""
        return self.how & (_SHAPE | CAPTURED | LAUNCHED)


def read(recording: Recording, most: int, first: int = 1) -> Columns:
    """At most so many calls, from that number on or from the oldest that the ring holds."""
    import numpy as np

    head = recording.header()
    if head.monotonic_ns >= _MOST_NS >> 3 or head.realtime_ns >= _MOST_NS:
        raise UserError(f"{recording.path} is a damaged recording: it began at no time that there is")
    held = min(head.calls, head.call_capacity)
    layout = np.dtype([("stamp", "<u4"), ("sequence", "<u4"), ("what", "<u8"), ("when", "<u8"), ("how", "<u8")])
    blocks = [np.zeros(0, layout)]
    after = first
    for begin, oldest, raw in recording.blocks_of_calls(first, most):
        block = np.frombuffer(raw, layout)
        if not len(block):  # the file was cut off
            break
        after = begin + len(block)
        # A place whose stamp is not its number's has no call.
        stamps = (begin & 0xFFFFFFFF) + np.arange(len(block), dtype=np.int64) & 0xFFFFFFFF
        gone = min(max(oldest - begin, 0), len(block))
        blocks.append(block[gone:][block["stamp"][gone:] == stamps[gone:]])
    calls = np.concatenate(blocks)
    packed = calls["how"] >> np.uint64(48)
    host = (packed & np.uint64(0x7FF)) << (packed >> np.uint64(11))
    return Columns(
        head, held, calls["sequence"].astype(np.int64), (calls["what"] >> np.uint64(48)).astype(np.int64),
        head.monotonic_ns + ((calls["when"] & np.uint64(_COUNT)) * np.uint64(64)).astype(np.int64),
        (host * np.uint64(64)).astype(np.int64), (calls["what"] & np.uint64(_COUNT)).astype(np.int64),
        calls["how"].astype(np.int64) & ((1 << 48) - 1), after,
    )  # fmt: skip


def quotas(held: Sequence[int], most: int) -> list[int]:
    """How many calls of each recording are read, of all together at most so many: as many of each as can be."""
    found = [0] * len(held)
    left = most
    for done, at in enumerate(sorted(range(len(held)), key=held.__getitem__)):
        found[at] = min(held[at], left // (len(held) - done))
        left -= found[at]
    return found


def waits(recordings: Sequence[Recording], columns: Sequence[Columns]) -> list[Any]:
    """Of each recording's calls how long the rank waited in it for the last one of its communicator, in ns.

    0 where not all ranks were read, where calls do not return when they are done, and over several boots.
    """
    import numpy as np

    found = [np.zeros(len(each.place), np.int64) for each in columns]
    if not columns or len({each.head.boot_id for each in columns}) > 1:
        return found
    rows = rows_of(recordings, [])
    parts = [collectives(one, rows[at], at) for at, one in enumerate(columns)]
    every = tuple(np.concatenate(each) for each in zip(*parts, strict=True))
    order, starts, group, members = groups_of(every)
    if not len(order):
        return found
    whose, index, _, _, _, ranks, begun, is_done = (each[order] for each in every)
    is_whole = (members == ranks[starts]) & np.logical_and.reduceat(is_done, starts)
    last = np.maximum.reduceat(begun, starts)
    wait = np.where(is_whole[group], last[group] - begun, 0)
    for at, each in enumerate(found):
        mine = whose == at
        each[index[mine]] = wait[mine]
    return found


def groups_of(every: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
    """Calls of one number on one communicator: an order of all calls, where each group begins in it, the group of each
    call, and how many calls a group has."""
    import numpy as np

    _, _, key, sequence, rank, *_ = every
    order = np.lexsort((rank, sequence, key))
    key, sequence = key[order], sequence[order]
    is_first = np.ones(len(order), bool)
    is_first[1:] = (key[1:] != key[:-1]) | (sequence[1:] != sequence[:-1])
    starts = np.flatnonzero(is_first)
    return order, starts, np.cumsum(is_first) - 1, np.diff([*starts, len(order)])


def waits_of_hosts(recordings: Sequence[Recording], columns: Sequence[Columns], found: Sequence[Any]) -> None:
    """The same over several boots, into `found`: by what the calls themselves tell of the clocks."""
    places = {
        (who_of(one.head), place, sequence): (at, index)
        for at, one in enumerate(columns)
        for index, (place, sequence) in enumerate(zip(one.place.tolist(), one.sequence.tolist(), strict=True))
    }
    arrivals = Arrivals()
    while new := list(arrivals.look(recordings)):
        for each in new:
            if not isinstance(each, Meeting) or not each.is_synchronous or each.error_ns is None:
                continue
            for arrival in each.arrivals:
                wait = each.last.begun_ns - arrival.begun_ns
                at, index = places.get((arrival.who, arrival.place, each.sequence & 0xFFFFFFFF), (-1, 0))
                if at >= 0 and wait > each.error_ns:
                    found[at][index] = wait


def collectives(one: Columns, rows: Mapping[int, tuple[int, int, int]], at: int) -> tuple[Any, ...]:
    """Calls that all ranks of a communicator make: whose, which, on what, and when."""
    import numpy as np

    table = np.zeros((3, 1 << 16), np.int64)
    for place, (key, rank, ranks) in rows.items():
        table[:, place] = key, rank, ranks
    kinds = np.array([kind in COLLECTIVES for kind in KINDS] + [False] * (32 - len(KINDS)))
    key, rank, ranks = table[:, one.place]
    # Of one that has not come back nobody knows yet whether it meets the others.
    is_one = kinds[one.how & 0x1F] & (ranks > 1) & (one.how & (_FAILED | CAPTURED) == 0) & (one.host_ns > 0)
    index = np.flatnonzero(is_one)
    is_done = (one.how >> 36 & 0xFFF == 0) & one.head.synchronous
    return (
        np.full(len(index), at), index, key[index], one.sequence[index], rank[index], ranks[index],
        one.begun_ns[index], is_done[index],
    )  # fmt: skip


def rows_of(recordings: Sequence[Recording], identities: list[int]) -> list[dict[int, tuple[int, int, int]]]:
    """Of each recording by place: which communicator it is, counted from 0 on, the rank and the number of ranks.

    Into `identities` goes that of each communicator.
    """
    every = [recording.communicators() for recording in recordings]
    names = two_names(row for rows in every for row in rows)
    numbers: dict[int, int] = {}
    found = [
        {
            row.place: (numbers.setdefault(names.get(row.identity, row.identity), len(numbers)), row.rank, row.ranks)
            for row in rows
            if 0 <= row.rank < row.ranks <= 1 << 20
        }
        for rows in every
    ]
    identities += numbers
    return found
