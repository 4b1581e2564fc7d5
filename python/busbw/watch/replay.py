"""From recordings to what each rank of a replay has to call: only calls that all their ranks recorded, and alike."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from busbw.base.errors import UserError
from busbw.watch.grown import two_names
from busbw.watch.recording import COLLECTIVES, OPS, TYPES, Call, Recording

MAX_BYTES = 1 << 30
"""Of one call's buffer."""
MAX_CALLS = 4_000_000

MESSAGES = frozenset({"send", "recv"})

Step = tuple[int, int, str, int, int, int, int, int, int, int, bool, bool]
"""begun_ns from the job's first call, communicator, kind, count, type, operator, root or peer, group, lane, how long
after the lane's call before it, in ns (-1 where that is not known), whether that is since its end on the GPU (else
since its return), and whether the result comes where the data lie."""


@dataclass
class RankPlan:
    """One process of the replay."""

    who: str
    communicators: list[tuple[int, int]] = field(default_factory=list)
    """Of each communicator of the plan (size, this rank in it); (0, 0) where it takes no part."""
    steps: list[Step] = field(default_factory=list)
    recorded_ns: dict[tuple[int, str, int, int], list[int]] = field(default_factory=dict)


@dataclass
class Plan:
    """What is replayed, and what is not."""

    ranks: list[RankPlan]
    left_out: Counter[str]
    notes: list[str]
    span_ns: int
    identities: list[int] = field(default_factory=list)
    """Of the communicators, in their order here."""


@dataclass
class _Rank:
    who: str
    is_synchronous: bool
    rows: dict[int, tuple[int, int, int]]
    calls: list[Call]
    order: tuple[int, str, int]
    clock: int
    """Processes of one host have the same: its boot's hash."""
    began_ns: int
    """When its recording began, by that clock."""
    is_whole: bool
    """The ring has not come round: the first message between two ranks is there."""
    gpu_ended_ns: dict[int, int]
    """When a call had ended on the GPU, by its number, where that was timed."""


def plan(recordings: Sequence[Recording], ranks: int | None) -> Plan:
    """A replay on as many ranks as were recorded, or on the first `ranks` of them."""
    names = two_names(row for recording in recordings for row in recording.communicators())
    all_ranks = sorted((_read(recording, names) for recording in recordings), key=lambda each: each.order)
    if ranks is not None and ranks > len(all_ranks):
        raise UserError(f"--ranks {ranks}: the recordings hold {len(all_ranks)} ranks; more cannot be made of them")
    chosen = all_ranks[: ranks or len(all_ranks)]
    members: dict[int, list[tuple[int, int]]] = defaultdict(list)
    sizes: dict[int, int] = {}
    for number, rank in enumerate(chosen):
        for identity, own, size in rank.rows.values():
            members[identity].append((own, number))
            sizes[identity] = size
    notes = []
    for identity, found in members.items():
        if len({number for _, number in found}) < len(found):
            raise UserError("a process holds several ranks of one communicator; busbw replay needs one process a rank")
        if len(found) < sizes[identity] and ranks is None:
            raise UserError(
                f"the recordings hold {len(found)} of {sizes[identity]} ranks of a communicator: bring the others, or "
                f"say --ranks {len(all_ranks)} for a job with these alone"
            )
    kept = {identity: sorted(found) for identity, found in members.items() if len(found) > 1}
    if ranks is not None and ranks < len(all_ranks):
        notes.append(
            f"{ranks} of {len(all_ranks)} ranks: communicators have their remaining ranks, and counts are as recorded. "
            "A root that is left out becomes the first rank; messages to ranks that are left out are not sent"
        )
    made = Plan([RankPlan(rank.who) for rank in chosen], Counter(), notes, 0)
    made.identities = list(kept)
    _communicators(made, kept)
    _steps(made, chosen, kept)
    if not any(rank.steps for rank in made.ranks):
        raise UserError("the recordings hold no call that all its ranks made: nothing to replay")
    return made


def _read(recording: Recording, names: Mapping[int, int]) -> _Rank:
    header = recording.header()
    if header.calls > MAX_CALLS:
        raise UserError(f"{recording.path} holds {header.calls:,} calls; busbw replay takes {MAX_CALLS:,} of a rank")
    rows = {
        row.place: (names.get(row.identity, row.identity), row.rank, row.ranks)
        for row in recording.communicators()
        if 0 <= row.rank < row.ranks <= 1 << 16
    }
    name = f"rank {header.launched_rank}" if header.launched_rank >= 0 else f"pid {header.pid} of {header.host}"
    order = (header.launched_rank, header.host, header.pid)
    whole = recording.overwritten() == 0 == header.lost
    calls = list(recording.calls())
    ended = {time.number: time.begun_ns + time.took_ns for _, time in recording.times()}
    return _Rank(name, header.synchronous, rows, calls, order, header.boot_id, header.monotonic_ns, whole, ended)


def _communicators(made: Plan, kept: dict[int, list[tuple[int, int]]]) -> None:
    for found in kept.values():
        place = {number: at for at, (_, number) in enumerate(found)}
        for number, rank in enumerate(made.ranks):
            rank.communicators.append((len(found), place[number]) if number in place else (0, 0))


def _steps(made: Plan, chosen: Sequence[_Rank], kept: dict[int, list[tuple[int, int]]]) -> None:
    shapes: dict[tuple[int, int], Counter[object]] = defaultdict(Counter)
    for rank in chosen:
        for call in rank.calls:
            row = rank.rows.get(call.communicator)
            if row and call.shape.kind in COLLECTIVES and not call.failed:
                shapes[row[0], call.sequence][call.shape] += 1
    answered = _answered(chosen, kept)
    numbers = {identity: at for at, identity in enumerate(kept)}
    launched = 0
    firsts, beside = _firsts(chosen), _beside_each_other(chosen)
    for number, rank in enumerate(chosen):
        first = firsts[rank.clock] - rank.began_ns
        taken = []
        for call in rank.calls:
            why = _why_not(rank, call, kept, shapes, answered[number])
            if why:
                made.left_out[why] += 1
            else:
                taken.append(call)
        lanes = _lanes(taken, {place for place, row in rank.rows.items() if row[0] in beside})
        last: dict[int, Call] = {}
        for call in taken:
            identity = rank.rows[call.communicator][0]
            at = call.begun_ns - first
            where = [own for own, _ in kept[identity]]
            root = where.index(call.shape.root) if call.shape.root in where else 0
            op = OPS.index(call.shape.op) if call.shape.op in OPS else 0
            type_ = TYPES.index(call.shape.type)
            lane = lanes[call.communicator]
            pause, on_gpu = _pause(rank, last.get(lane), call)
            last[lane] = call
            step = (at, numbers[identity], call.shape.kind, call.shape.count, type_, op, root, call.group, lane)
            made.ranks[number].steps.append((*step, pause, on_gpu, call.in_place))
            made.span_ns = max(made.span_ns, at)
            launched += call.launched
            if rank.is_synchronous and not call.group and call.host_ns is not None:
                key = (numbers[identity], call.shape.kind, call.shape.count, type_)
                made.ranks[number].recorded_ns.setdefault(key, []).append(call.host_ns)
    if launched:
        made.notes.append(f"{launched:,} calls of launched graphs are issued one by one, as there are no graphs here")


def _pause(rank: _Rank, before: Call | None, call: Call) -> tuple[int, bool]:
    """How long after the lane's call before it a call came: after its end on the GPU, or after its return.

    Who called when the GPU had ended the last call may have waited for it. Without times there the return of a call
    that comes back before it has run says nothing, nor does one within a group.
    """
    if before is None:
        return -1, False
    ended_ns = rank.gpu_ended_ns.get(before.number)
    if ended_ns is not None and ended_ns <= call.begun_ns:
        return call.begun_ns - ended_ns, True
    if before.group or before.host_ns is None or (ended_ns is None and not rank.is_synchronous):
        return -1, False
    return max(0, call.begun_ns - before.begun_ns - before.host_ns), False


def _firsts(chosen: Sequence[_Rank]) -> dict[int, int]:
    """Of each host the moment of its first call, from which its gaps count: ranks come as late as they came."""
    found: dict[int, int] = {}
    for rank in chosen:
        moment = rank.began_ns + (rank.calls[0].begun_ns if rank.calls else 0)
        if rank.calls or rank.clock not in found:
            found[rank.clock] = min(moment, found.get(rank.clock, moment))
    return found


def _beside_each_other(chosen: Sequence[_Rank]) -> set[int]:
    """Communicators whose calls some rank made while it was in one of another: threads of the job called them.

    So their order need not be the same on all ranks, and a stream does not make it where calls are done when they
    return.
    """
    found: set[int] = set()
    for rank in chosen:
        within: Call | None = None
        for call in rank.calls if rank.is_synchronous else ():
            if call.group or call.host_ns is None or call.communicator not in rank.rows:
                continue
            if (
                within
                and within.communicator != call.communicator
                and call.begun_ns < _end_of(within) - _unsure_ns(within)
            ):
                found |= {rank.rows[each.communicator][0] for each in (within, call)}
            if within is None or _end_of(call) > _end_of(within):
                within = call
    return found


def _end_of(call: Call) -> int:
    return call.begun_ns + (call.host_ns or 0)


def _unsure_ns(call: Call) -> int:
    """Clocks of threads differ by less, and durations are kept within one in 1,024."""
    return 10_000 + (call.host_ns or 0) // 500


def _lanes(calls: Sequence[Call], beside: Collection[int] = ()) -> dict[int, int]:
    """Which communicators' calls wait for each other, by place: those that share a group, or but for `beside` a stream.

    Streams run beside each other, so lanes may be in another order on another rank. A communicator's own calls stay in
    one lane, as their order has to be the same on all ranks.
    """
    above: dict[tuple[str, int], tuple[str, int]] = {}

    def top(one: tuple[str, int]) -> tuple[str, int]:
        while above.setdefault(one, one) != one:
            one = above[one]
        return one

    before: Call | None = None
    for call in calls:
        place = ("communicator", call.communicator)
        if call.communicator not in beside:
            above[top(("stream", call.stream))] = top(place)
        else:
            top(place)
        # Numbers of groups come again: those of one group follow each other.
        if before and call.group and before.group == call.group:
            above[top(("communicator", before.communicator))] = top(place)
        before = call
    numbers: dict[tuple[str, int], int] = {}
    return {
        one[1]: numbers.setdefault(top(one), len(numbers)) for one in list(above) if one[0] == "communicator"
    }  # fmt: skip


def _answered(chosen: Sequence[_Rank], kept: dict[int, list[tuple[int, int]]]) -> list[set[int]]:
    """Of each rank the numbers of its sends and receives whose other half is there: the n-th of a pair, and alike."""
    halves: dict[tuple[int, int, int], tuple[list[tuple[int, Call]], list[tuple[int, Call]]]] = {}
    for number, rank in enumerate(chosen):
        for call in rank.calls:
            row, peer = rank.rows.get(call.communicator), call.shape.root
            if call.shape.kind not in MESSAGES or call.failed or call.captured or row is None or row[0] not in kept:
                continue
            if peer is None or not rank.is_whole:
                continue
            is_send = call.shape.kind == "send"
            pair = (row[0], row[1], peer) if is_send else (row[0], peer, row[1])
            halves.setdefault(pair, ([], []))[0 if is_send else 1].append((number, call))
    found: list[set[int]] = [set() for _ in chosen]
    for sends, receives in halves.values():
        for (sender, send), (receiver, receive) in zip(sends, receives, strict=False):
            if (send.shape.count, send.shape.type) != (receive.shape.count, receive.shape.type):
                break
            found[sender].add(send.number)
            found[receiver].add(receive.number)
    return found


def _why_not(
    rank: _Rank,
    call: Call,
    kept: dict[int, list[tuple[int, int]]],
    shapes: dict[tuple[int, int], Counter[object]],
    answered: set[int],
) -> str | None:
    """Why a call is left out: in a sentence's words."""
    row = rank.rows.get(call.communicator)
    if call.failed or call.captured:
        return "calls that were refused, or captured into a graph"
    if call.shape.kind not in COLLECTIVES | MESSAGES:
        return "signals and calls that only some libraries have"
    if row is None or row[0] not in kept:
        return "calls on communicators of one rank"
    if call.shape.type not in TYPES or call.shape.bytes(row[2]) > MAX_BYTES:
        return f"calls of an unknown type, or above {MAX_BYTES >> 20} MiB"
    if call.shape.kind in MESSAGES:
        why, fits = "sends and receives whose other half is not in the recordings", call.number in answered
    else:
        same = shapes[row[0], call.sequence]
        why = "calls that not all ranks made, or not alike"
        fits = same.total() >= len(kept[row[0]]) and len(same) == 1
    return None if fits else why
