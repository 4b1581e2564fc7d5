"""Ranks of communicators, grouped to be compared, and how a verdict speaks of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from busbw.watch.processes import Process
from busbw.watch.recording import Communicator

PAIRS = frozenset({"send", "recv"})
"""Calls between two ranks."""
SHOWN = 8
"""Of many ranks a sentence names so many."""


@dataclass(frozen=True)
class Verdict:
    """What holds the job up: a code for programs, and a paragraph for people."""

    cause: str
    ranks: tuple[int, ...]
    text: str
    accused: tuple[tuple[str, int], ...] = ()
    """Host and pid of those ranks."""
    beside: str = ""
    """Where calls go on meanwhile, in words; "" where nothing does."""
    quiet_s: float = 0.0
    """How long nothing has moved but there."""


@dataclass(frozen=True)
class Member:
    process: Process
    row: Communicator

    @property
    def inside(self) -> bool:
        return self.row.entered > self.row.returned

    @property
    def waiting(self) -> bool:
        """Within a call, as far as the host knows: over NCCL calls come back at once, and the newest may wait yet."""
        return self.inside or (
            self.process.gpus and self.row.entered_ns == max(row.entered_ns for row in self.process.communicators) > 0
        )

    def __str__(self) -> str:
        gpu = f", GPU {self.row.device}" if self.process.gpus and self.row.device >= 0 else ""
        job = in_the_job(self.process, self.row.rank, self.row.ranks)
        return f"rank {self.row.rank} ({self.process.host}, pid {self.process.pid}{gpu}{job})"


def in_the_job(process: Process, rank: int, ranks: int) -> str:
    """By which other number people know it: the launcher's, else that in its largest communicator."""
    if process.name.isdecimal():
        return f", rank {process.name} of the job" if int(process.name) != rank else ""
    largest = max((row.ranks for row in process.communicators), default=0)
    numbers = {row.rank for row in process.communicators if row.ranks == largest}
    # With several ranks in a process it is not known which of them this is.
    if largest <= ranks or len(numbers) != 1 or rank in numbers:
        return ""
    return f", rank {numbers.pop()} of {largest} in its largest communicator"


def by_communicator(processes: Iterable[Process]) -> dict[int, list[Member]]:
    groups: dict[int, list[Member]] = defaultdict(list)
    for process in processes:
        for row in process.communicators:
            groups[row.identity].append(Member(process, row))
    for members in groups.values():
        members.sort(key=lambda member: member.row.rank)
    return dict(sorted(groups.items(), key=lambda item: min(member.row.made_ns for member in item[1])))


def behind_of(members: Sequence[Member]) -> list[Member]:
    most = max(member.row.collectives for member in members)
    return [member for member in members if member.row.collectives < most]


def elsewhere(groups: Mapping[int, Sequence[Member]], member: Member, *, newest_too: bool = False) -> list[Member]:
    """Calls on other communicators in which this rank is; `newest_too`: or may be, as its newest call is there.

    A process may drive several ranks of a communicator, with a thread for each: then a rank is where its GPU is.
    """
    beside = [each for each in groups.get(member.row.identity, ()) if each.process is member.process]
    return [
        each
        for key, members in groups.items()
        for each in members
        if key != member.row.identity and each.process is member.process
        and (each.inside or (newest_too and each.waiting))
        and (len(beside) < 2 or each.row.device == member.row.device)
    ]  # fmt: skip


def is_waited_for(member: Member, members: Sequence[Member]) -> bool:
    """Whether it may hold the others up: of messages alone only the peer does."""
    waiting = [each for each in members if each.inside]
    peers = {
        each.row.last.root if each.row.last.kind in PAIRS and each.process.grouped.get(each.row.place, 0) < 2 else None
        for each in waiting
    }
    return not waiting or None in peers or member.row.rank in peers


def newest(members: Sequence[Member]) -> Member:
    return max(members, key=lambda member: (member.row.collectives, -member.row.rank))


def name_of(members: Sequence[Member]) -> str:
    first = members[0].row
    return f"the communicator of {first.ranks} ranks that was made as {first.made} ({first.identity:016x})"


def ranks_of(members: Sequence[Member]) -> str:
    return ", ".join(str(each.row.rank) for each in members[:SHOWN])


def ago(now_ns: int, then_ns: int) -> str:
    return f"{max(0, now_ns - then_ns) / 1e9:.1f} s ago" if then_ns else "never"


def last_of(member: Member, now_ns: int) -> str:
    row = member.row
    if not row.entered:
        return "it has called nothing there"
    back = "has not come back" if member.inside else "came back"
    silent = member.process.silent_s
    since = f"; its host's watcher has written nothing for {silent:.0f} s" if silent else ""
    return f"its last call there was #{row.collectives:,}, {row.last}, {ago(now_ns, row.entered_ns)}, and {back}{since}"


def accused(members: Iterable[Member]) -> tuple[tuple[str, int], ...]:
    return tuple((member.process.host, member.process.pid) for member in members)


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
