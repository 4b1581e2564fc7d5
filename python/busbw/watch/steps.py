"""The step that a recorded job repeats: what each rank calls in it, how long that takes, and its work in between.

The order of calls of one rank is searched for a period. A cut of all ranks there takes with it what had to come before
(the other ranks' parts of the same calls, and all that these had called until then; L. Lamport, Communications of the
ACM 21(7), 1978), so that no call is half in a step. Of each place in the step the medians over all steps count.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from busbw.base.errors import UserError
from busbw.watch.period import find_period
from busbw.watch.recording import COLLECTIVES, Recording

MOST_CALLS = 200_000
"""Of a rank, the newest ones: a step is found in far fewer."""
_MESSAGES = frozenset({"send", "recv"})
_TIMED = 0.9
"""Of the calls that must have times, where they do not return when they are done."""


@dataclass(frozen=True)
class Op:
    """A call of one rank: the work before it, and what it takes without the wait for others, in microseconds.

    `channel` is equal on all ranks that take part; `members` are their numbers in the job.
    """

    work_us: float
    us: float
    kind: str
    bytes: int
    channel: Hashable
    members: tuple[int, ...]
    ranks: int


@dataclass(frozen=True)
class RecordedStep:
    """`ranks` holds the calls of each rank, in the order of the job's ranks."""

    ranks: tuple[tuple[Op, ...], ...]
    step_us: float
    steps: int
    is_exact: bool
    """Calls return when they are done: no work is hidden in them."""
    notes: tuple[str, ...] = ()


@dataclass
class _Call:
    begun_us: float
    us: float
    kind: str
    bytes: int
    key: Hashable
    channel: Hashable
    ranks: int
    signature: Hashable
    in_group: bool


@dataclass
class _Rank:
    order: tuple[int, str, int]
    calls: list[_Call] = field(default_factory=list)
    is_exact: bool = False


def step_of(recordings: Sequence[Recording]) -> RecordedStep:
    """The repeated step; UserError where there is none."""
    ranks = sorted((_read(each) for each in recordings), key=lambda rank: rank.order)
    ranks = [rank for rank in ranks if rank.calls]
    if not ranks:
        raise UserError("the recordings hold no call whose time is known: nothing to predict")
    partners: dict[Hashable, list[tuple[int, int]]] = {}
    for number, rank in enumerate(ranks):
        for at, call in enumerate(rank.calls):
            partners.setdefault(call.key, []).append((number, at))
    windows = _windows(ranks, partners)
    members = _members(ranks)
    found = [_ops(rank.calls, [cut[number] for cut in windows], partners, ranks, members)
             for number, rank in enumerate(ranks)]  # fmt: skip
    first = ranks[0].calls
    took = [first[window[0][1]].begun_us - first[window[0][0]].begun_us for window in windows]
    return RecordedStep(tuple(found), median(took), len(windows), all(rank.is_exact for rank in ranks), _notes(ranks))


# -- reading ------------------------------------------------------------------------------------------------------


def _read(recording: Recording) -> _Rank:
    header = recording.header()
    rank = _Rank((header.launched_rank, header.host, header.pid), is_exact=header.synchronous)
    rows = {row.place: row for row in recording.communicators() if 0 <= row.rank < row.ranks}
    times = {} if header.synchronous else {time.number: time for _, time in recording.times()}
    first = max(1, header.calls - MOST_CALLS + 1)
    seen: Counter[Hashable] = Counter()
    called = untimed = 0
    for call in recording.calls(first):
        row = rows.get(call.communicator)
        if row is None or call.failed or call.captured or call.shape.kind not in COLLECTIVES | _MESSAGES:
            continue
        called += 1
        time = times.get(call.number)
        if header.synchronous and call.host_ns is not None:
            begun, us = call.begun_ns / 1e3, call.host_ns / 1e3
        elif time is not None:
            begun, us = time.begun_ns / 1e3, time.took_ns / 1e3
        else:
            untimed += 1
            continue
        key: Hashable = (row.identity, call.sequence)
        channel: Hashable = row.identity
        if call.shape.kind in _MESSAGES:
            ends = (row.rank, call.shape.root)
            channel = (row.identity, *(ends if call.shape.kind == "send" else ends[::-1]))
            seen[channel] += 1
            key = (channel, seen[channel])
        shape = call.shape
        kind = "sendrecv" if shape.kind in _MESSAGES else shape.kind
        rank.calls.append(_Call(begun, us, kind, shape.bytes(row.ranks), key, channel, row.ranks,
                                (row.identity, shape), bool(call.group)))  # fmt: skip
    if called and untimed > (1 - _TIMED) * called and not header.synchronous:
        raise UserError(
            f"{untimed:,} of {called:,} calls in {recording.path.name} have no time on the GPU; record with "
            "BUSBW_RECORD_TIMES=all, and without CUDA graphs"
        )
    return rank


def _members(ranks: Sequence[_Rank]) -> dict[Hashable, tuple[int, ...]]:
    found: dict[Hashable, set[int]] = {}
    for number, rank in enumerate(ranks):
        for call in rank.calls:
            found.setdefault(call.channel, set()).add(number)
    return {channel: tuple(sorted(numbers)) for channel, numbers in found.items()}


# -- steps --------------------------------------------------------------------------------------------------------


def _windows(ranks: Sequence[_Rank], partners: dict[Hashable, list[tuple[int, int]]]) -> list[list[tuple[int, int]]]:
    """Of each step the first call of every rank and the one behind its last; only steps that are alike."""
    calls = ranks[0].calls
    gaps = [0.0, *(_pause(before, after) for before, after in pairwise(calls))]
    starts, length = find_period([call.signature for call in calls], [call.bytes for call in calls], gaps)
    cut, done = [0] * len(ranks), [0] * len(ranks)
    cuts: dict[int, list[int]] = {}
    for start in [*starts, starts[-1] + length]:
        cut[0] = max(cut[0], start)
        _close(cut, done, ranks, partners)
        cuts[start] = list(cut)
    found = [
        list(zip(cuts[start], cuts[start + length], strict=True)) for start in starts if start + length in cuts
    ]  # fmt: skip
    found = [each for each in found if each[0][1] < len(calls)]
    if len(found) > 8:
        found = found[len(found) // 4 :]  # the first steps are slower, and their buckets others
    shapes = [tuple(tuple(call.signature for call in rank.calls[begin:end])
                    for rank, (begin, end) in zip(ranks, step, strict=True)) for step in found]  # fmt: skip
    usual, times = Counter(shapes).most_common(1)[0] if shapes else ((), 0)
    if times < 3:
        raise UserError("the recordings hold no step that was repeated three times on all ranks alike")
    return [step for step, shape in zip(found, shapes, strict=True) if shape == usual]


def _close(
    cut: list[int], done: list[int], ranks: Sequence[_Rank], partners: dict[Hashable, list[tuple[int, int]]]
) -> None:
    """Take into the cut what the calls before it need."""
    while any(map(operator.lt, done, cut)):
        for number, rank in enumerate(ranks):
            while done[number] < cut[number]:
                for other, at in partners[rank.calls[done[number]].key]:
                    cut[other] = max(cut[other], at + 1)
                done[number] += 1


def _ops(
    calls: Sequence[_Call], windows: Sequence[tuple[int, int]], partners: dict[Hashable, list[tuple[int, int]]],
    ranks: Sequence[_Rank], members: dict[Hashable, tuple[int, ...]],
) -> tuple[Op, ...]:  # fmt: skip
    """One rank's calls of a step with their medians."""
    found = []
    for offset in range(windows[0][1] - windows[0][0]):
        places = [begin + offset for begin, _ in windows]
        call = calls[places[0]]
        works = [_pause(calls[at - 1], calls[at]) for at in places if at]
        alone = [min(ranks[other].calls[there].us for other, there in partners[calls[at].key]) for at in places]
        us = 0.0 if call.in_group else median(alone)
        found.append(Op(median(works) if works else 0.0, us, "group" if call.in_group else call.kind, call.bytes,
                        call.channel, members[call.channel], call.ranks))  # fmt: skip
    return tuple(found)


def _pause(before: _Call, call: _Call) -> float:
    """The work between two calls; of a group's calls nobody knows when they ended."""
    return max(0.0, call.begun_us - before.begun_us - (0.0 if before.in_group else before.us))


def _notes(ranks: Sequence[_Rank]) -> tuple[str, ...]:
    grouped = sum(call.in_group for rank in ranks for call in rank.calls)
    if not grouped:
        return ()
    return (f"{grouped:,} calls stand in groups; what these take is part of the work behind them, and stays as it was",)
