"""Calls of collectives as NCCL prints them (NCCL_DEBUG_SUBSYS=COLL): the last of a log, and where ranks part."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

MAX_CALLS = 512
MAX_COMMS = 4096
MAX_LOOK = 600
_WHO = rb"(?P<host>[\w.-]{0,255}):(?P<pid>\d{1,10}):\d{1,10} \[-?\d{1,4}\] NCCL INFO "
_INIT = re.compile(
    _WHO + rb".{0,60}?comm (?P<comm>0x[0-9a-f]{1,16}) rank (?P<rank>\d{1,7}) nranks \d{1,7}.{0,120}?"
    rb"commId (?P<id>0x[0-9a-f]{1,16})"
)
_CALL = re.compile(
    _WHO + rb"(?P<op>AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|AlltoAll|Gather|Scatter): "
    rb"opCount (?P<number>[0-9a-f]{1,16}) .{0,120}?count (?P<count>\d{1,19}) datatype (?P<type>\d{1,3}) "
    rb"op (?P<redop>\d{1,3}) root (?P<root>-?\d{1,7}) comm (?P<comm>0x[0-9a-f]{1,16})"
)
Key = tuple[str, str, str]


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
    """The last calls of a log by communicator and rank; `whole` says that none was dropped before them."""

    by_rank: Mapping[tuple[str, int], Sequence[Call]]
    whole: bool = True


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
        for line, raw in self.recent:
            found = _CALL.search(raw[:MAX_LOOK])
            place = self._comms.get(_key(found)) if found else None
            if found is None or place is None:
                continue
            numbers = (int(found[name]) for name in ("count", "type", "redop", "root"))
            count, kind, redop, root = numbers
            what = (found["op"].decode(), count, kind, redop, root)
            by_rank[place].append(Call(what, int(found["number"], 16), line))
        return Calls(by_rank, len(self.recent) < MAX_CALLS)


def _key(found: re.Match[bytes]) -> Key:
    return found["host"].decode(), found["pid"].decode(), found["comm"].decode()


def parted(logs: Iterable[tuple[str, Calls]]) -> list[tuple[str, int, Call, str]] | None:
    """The first place where ranks of one communicator call different things: (log, rank, call, communicator) of two."""
    first: dict[tuple[str, int, int], tuple[str, int, Call]] = {}
    found: list[tuple[int, list[tuple[str, int, Call, str]]]] = []
    for source, calls in logs:
        for (comm, rank), mine in calls.by_rank.items():
            # Calls of one group have one number: its first ones may have been dropped.
            start = mine[0].number if mine and not calls.whole else -1
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
