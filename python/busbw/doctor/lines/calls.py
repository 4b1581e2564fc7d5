"""Calls of collectives as NCCL prints them (NCCL_DEBUG_SUBSYS=COLL): the last of a log, and where ranks part."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from busbw.doctor.lines.speakers import speaker

MAX_CALLS = 512
MAX_COMMS = 4096
MAX_LOOK = 600
_WHO = rb"(?P<host>[\w.-]{0,255}):(?P<pid>\d{1,10}):\d{1,10} \[(?P<device>-?\d{1,4})\] NCCL INFO "
_INIT = re.compile(
    _WHO + rb".{0,60}?comm (?P<comm>0x[0-9a-f]{1,16}) rank (?P<rank>\d{1,7}) nranks \d{1,7}.{0,120}?"
    rb"commId (?P<id>0x[0-9a-f]{1,16})"
)
_CALL = re.compile(
    _WHO + rb"(?P<op>AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|AlltoAll|Gather|Scatter): "
    rb"opCount (?P<number>[0-9a-f]{1,16}) .{0,120}?count (?P<count>\d{1,19}) datatype (?P<type>\d{1,3}) "
    rb"op (?P<redop>\d{1,3}) root (?P<root>-?\d{1,7}) comm (?P<comm>0x[0-9a-f]{1,16})"
    rb"(?: \[nranks=(?P<nranks>\d{1,7})\])?"
)
Key = tuple[str, str, str]
Process = tuple[str, str, str]
"""A host, a process there and its device: one rank, of which no init is in the log."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call: what must be alike on all ranks, its number in the communicator, and its line."""

    what: tuple[str, int, int, int, int]
    number: int
    line: int

    @property
    def told(self) -> str:
        """The call in words."""
        op, count, kind, redop, root = self.what
        return f"{op} of {count} elements (datatype {kind}, op {redop}, root {root})"


@dataclass(frozen=True, slots=True)
class Calls:
    """The last calls of a log by communicator and rank; `whole` says that none was dropped before them.

    `unplaced` are those of processes of which no init names a rank, each with its own name for a communicator.
    """

    by_rank: Mapping[tuple[str, int], Sequence[Call]]
    whole: bool = True
    unplaced: Mapping[Process, Sequence[Unplaced]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A call, who says it as far as its line tells, the communicator in that process, and how many ranks that has."""

    call: Call
    who: str
    comm: str
    nranks: int | None


class Watching:
    """Keeps the last calls of a log while its lines go by."""

    def __init__(self) -> None:
        self.recent = deque[tuple[int, bytes]](maxlen=MAX_CALLS)
        self._comms: dict[Key, tuple[str, int]] = {}

    def begun(self, raw: bytes) -> None:
        """A line that may name a communicator and the rank that this process has in it."""
        if len(self._comms) < MAX_COMMS and (found := _INIT.search(raw[:MAX_LOOK])):
            self._comms[_key(found)] = (found["id"].decode(), int(found["rank"]))

    def ended(self) -> Calls:
        """What the last calls were."""
        by_rank: dict[tuple[str, int], list[Call]] = defaultdict(list)
        unplaced: dict[Process, list[Unplaced]] = defaultdict(list)
        for line, raw in self.recent:
            found = _CALL.search(raw[:MAX_LOOK])
            place = self._comms.get(_key(found)) if found else None
            if found is None:
                continue
            numbers = (int(found[name]) for name in ("count", "type", "redop", "root"))
            count, kind, redop, root = numbers
            what = (found["op"].decode(), count, kind, redop, root)
            call = Call(what, int(found["number"], 16), line)
            if place is not None:
                by_rank[place].append(call)
                continue
            host, pid, comm = _key(found)
            nranks = int(found["nranks"]) if found["nranks"] else None
            who = speaker(raw[:MAX_LOOK].decode("utf-8", "replace"))
            unplaced[host, pid, found["device"].decode()].append(Unplaced(call, who, comm, nranks))
        return Calls(by_rank, len(self.recent) < MAX_CALLS, unplaced)


def _key(found: re.Match[bytes]) -> Key:
    return found["host"].decode(), found["pid"].decode(), found["comm"].decode()


Said = tuple[str, str, Call, str]
"""A log, who says it there, the call, and the communicator."""


def parted(logs: Iterable[tuple[str, Calls]]) -> list[Said] | None:
    """The first place where ranks of one communicator call different things: what two of them say."""
    every = list(logs)
    placed = [
        (source, f"rank {rank}", comm, mine, not calls.whole)
        for source, calls in every
        for (comm, rank), mine in calls.by_rank.items()
    ]
    return _parted(placed) or _parted(_of_one_communicator(every))


def _parted(ranks: Iterable[tuple[str, str, str, Sequence[Call], bool]]) -> list[Said] | None:
    first: dict[tuple[str, int, int], tuple[str, str, Call]] = {}
    found: list[tuple[int, list[Said]]] = []
    for source, rank, comm, mine, is_cut in ranks:
        # Calls of one group have one number: its first ones may have been dropped.
        start = mine[0].number if mine and is_cut else -1
        places: dict[int, int] = defaultdict(int)
        for call in mine:
            if call.number <= start:
                continue
            place = (comm, call.number, places[call.number])
            places[call.number] += 1
            known = first.setdefault(place, (source, rank, call))
            if known[1] != rank and known[2].what != call.what:
                found.append((call.number, [(*known, comm), (source, rank, call, comm)]))
                break
    return min(found, key=lambda each: each[0])[1] if found else None


def _of_one_communicator(
    logs: Sequence[tuple[str, Calls]],
) -> list[tuple[str, str, str, Sequence[Call], bool]]:
    """The calls of processes without an init where all of them have one communicator: then it is the same for all.

    Its name is an address of each process, so that of several communicators nobody knows which ones belong together.
    """
    ranks = [(source, calls, process, mine) for source, calls in logs for process, mine in calls.unplaced.items()]
    sizes = {each.nranks for _, _, _, mine in ranks for each in mine}
    names = [{each.comm for each in mine} for _, _, _, mine in ranks]
    if len(sizes) != 1 or any(len(each) != 1 for each in names) or any(calls.by_rank for _, calls in logs):
        return []
    size = next(iter(sizes))
    labels = [mine[0].who or " ".join(process) for _, _, process, mine in ranks]
    if len({process for _, _, process, _ in ranks}) < len(ranks) or len(set(labels)) < len(labels):
        return []  # one rank in two logs, or two jobs in one
    if size is not None and len(ranks) > size:
        return []
    # Several calls of one number are a group, of which the first ones may be missing in a log that was cut.
    grouped = any(len({each.call.number for each in mine}) < len(mine) for _, _, _, mine in ranks)
    named = f"their communicator of {size} ranks" if size else "their communicator"
    return [
        (source, label, named, [each.call for each in mine], not calls.whole or grouped)
        for label, (source, calls, _, mine) in zip(labels, ranks, strict=True)
    ]
