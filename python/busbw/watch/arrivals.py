"""Calls of one number on all ranks side by side: who came when, on one clock, with the clock's error stated.

Processes of one boot of one host share the monotonic clock. Clocks of hosts are aligned by the collectives themselves:
no rank leaves one that needs all ranks before the last rank has come. Each such call bounds the difference of two
clocks from both sides; the narrowest bounds of a window are taken, their middle is the difference, half their width the
error. Where calls come back before they have run (NCCL on GPUs) there is no such bound, and the realtime clocks stand.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

from busbw.watch.grown import two_names
from busbw.watch.recording import COLLECTIVES, Call, Header, Recording, Shape

NEEDS_ALL = frozenset({"all_reduce", "all_gather", "reduce_scatter", "alltoall"})
"""Collectives that no rank leaves before all have come."""
WINDOW = 128
"""Calls whose bounds on a clock are kept: clocks drift apart by up to some tens of us a second."""
CHUNK = 1 << 13
"""Calls of one process that one look reads, so that no rank is far ahead of the others."""
LEAST = 16
"""Newest calls of each process that a look reads, however many processes there are."""
MAX_PENDING = 1 << 16
"""Calls that wait for further ranks; older ones are given up and counted."""
_YOUNG = 64


@dataclass(frozen=True)
class Arrival:
    """One rank's part of a call, in ns on the common clock; `ended_ns` None where the call did not return when done."""

    rank: int
    who: str
    begun_ns: int
    ended_ns: int | None
    own_ns: int | None
    """From the end of the process's last call to the begin of this one."""
    place: int = 0
    """The communicator's row in the process."""
    host_ns: int = 0
    """`begun_ns` by the clock of the rank's host."""


@dataclass(frozen=True)
class Meeting:
    """A collective with all its ranks."""

    communicator: int
    sequence: int
    shape: Shape
    arrivals: tuple[Arrival, ...]
    error_ns: int | None
    """How far the clocks may be apart; 0 on one host, None where nothing bounds it."""
    is_synchronous: bool

    @cached_property
    def last(self) -> Arrival:
        """The rank for which the others waited."""
        return max(self.arrivals, key=lambda arrival: arrival.begun_ns)

    @cached_property
    def waited_ns(self) -> int:
        """How long all ranks together waited for the last one."""
        return self.last.begun_ns * len(self.arrivals) - sum([arrival.begun_ns for arrival in self.arrivals])

    @property
    def transfer_ns(self) -> int | None:
        """From the last arrival to the end of the first rank that left; None without ends."""
        ends = [arrival.ended_ns for arrival in self.arrivals if arrival.ended_ns is not None]
        return max(0, min(ends) - self.last.begun_ns) if len(ends) == len(self.arrivals) else None


@dataclass(frozen=True)
class Seen:
    """One call of one process; `ranks` are those of its communicator, 0 where that is not known."""

    who: str
    call: Call
    ranks: int
    is_synchronous: bool


class Tail:
    """Reads what is new in one recording, each call once it has come back."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._next = 1
        self.skipped = 0

    def new(self, header: Header, newest: int | None) -> list[Call]:
        """Calls since the last look: the next ones, or only the newest where those were asked for.

        `header` is how far the process was when the look began: what all have done by then is read of all.
        """
        held = min(header.call_capacity, newest or header.call_capacity)
        first = max(self._next, header.calls - held + 1)
        self.skipped += first - self._next
        self._next = first
        found = list(islice(self.recording.calls(first), newest or CHUNK))
        # What is in progress is read next time, unless it is old: then it may stay so for ever.
        for at, call in enumerate(found):
            if call.host_ns is None and call.number > header.calls - _YOUNG and not header.ended:
                self._next = call.number
                return found[:at]
        if found:
            self._next = found[-1].number + 1
        return found


@dataclass
class _Process:
    who: str
    boot: int
    start_ns: int
    realtime_minus_monotonic_ns: int
    is_synchronous: bool
    rows: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """By place: identity, rank and ranks."""
    last_end_ns: int | None = None


@dataclass
class _Pending:
    shape: Shape
    ranks: int
    parts: dict[int, tuple[_Process, Arrival]] = field(default_factory=dict)


@dataclass
class _Clock:
    """How far another boot's clock is ahead of the first one's: bounds of the newest calls."""

    bounds: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=WINDOW))

    def best(self) -> tuple[int, int] | None:
        """Difference and error; with bounds that contradict each other only the newer ones count."""
        low, high = None, None
        for each_low, each_high in reversed(self.bounds):
            next_low = each_low if low is None else max(low, each_low)
            next_high = each_high if high is None else min(high, each_high)
            if next_low > next_high:
                break
            low, high = next_low, next_high
        if low is None or high is None:
            return None
        return (low + high) // 2, (high - low + 1) // 2


class Arrivals:
    """Matches the calls of all recordings; `look` gives every collective once, when all its ranks were read.

    Each look reads the next calls of every process. With `newest` it reads so many of the newest ones, of all processes
    together, for those who have to keep up; older ones are skipped and counted.
    """

    def __init__(self, newest: int | None = None) -> None:
        self._newest = newest
        self._tails: dict[int, Tail] = {}
        self._processes: dict[int, _Process] = {}
        self._pending: dict[tuple[int, int], _Pending] = {}
        self._clocks: dict[int, _Clock] = {}
        self._first_boot: int | None = None
        self._high: dict[int, int] = {}
        self.given_up = 0
        self._names: dict[int, int] = {}

    @property
    def skipped(self) -> int:
        """Calls that were not looked at, as there were too many at once."""
        return sum(tail.skipped for tail in self._tails.values())

    def look(self, recordings: Iterable[Recording]) -> Iterator[Seen | Meeting]:
        """Everything new: each call, and each collective that is whole by it."""
        heads = [(recording, recording.header()) for recording in recordings]
        newest = self._newest and max(LEAST, self._newest // max(len(heads), 1))
        for recording, head in heads:
            key = id(recording)
            if key not in self._tails:
                self._tails[key] = Tail(recording)
                self._processes[key] = _process(recording)
            process, tail = self._processes[key], self._tails[key]
            before = tail.skipped
            calls = tail.new(head, newest)
            if tail.skipped != before:
                process.last_end_ns = None
            if any(call.communicator not in process.rows for call in calls):
                names = two_names(row for each, _ in heads for row in each.communicators())
                if names.keys() - self._names.keys():
                    self._names |= names
                    for each in self._processes.values():
                        each.rows = {}
                process.rows = {
                    row.place: (self._names.get(row.identity, row.identity), row.rank, row.ranks)
                    for row in recording.communicators()
                    if 0 <= row.rank < row.ranks <= 1 << 20
                }
            for call in calls:
                yield Seen(process.who, call, process.rows.get(call.communicator, (0, 0, 0))[2], process.is_synchronous)
                whole = self._take(process, call)
                if whole:
                    yield whole

    def _take(self, process: _Process, call: Call) -> Meeting | None:
        begun = process.start_ns + call.begun_ns
        ended = begun + call.host_ns if call.host_ns is not None else None
        own = begun - process.last_end_ns if process.last_end_ns is not None else None
        process.last_end_ns = ended if ended is not None else begun
        row = process.rows.get(call.communicator)
        if row is None or row[2] < 2 or call.shape.kind not in COLLECTIVES or call.failed or call.captured:
            return None
        key = (row[0], self._whole_number(row[0], call.sequence))
        pending = self._pending.get(key)
        if pending is None:
            if len(self._pending) >= MAX_PENDING:
                self._pending.pop(next(iter(self._pending)))
                self.given_up += 1
            pending = self._pending[key] = _Pending(call.shape, row[2])
        done = ended if process.is_synchronous and not call.group else None
        pending.parts[row[1]] = (process, Arrival(row[1], process.who, begun, done, own, call.communicator, begun))
        if len(pending.parts) < pending.ranks:
            return None
        del self._pending[key]
        return self._meeting(key, pending)

    def _whole_number(self, communicator: int, low: int) -> int:
        """The recording has the low 32 bits of a call's number; the newest seen tells the rest."""
        high = self._high.get(communicator, low)
        whole = high - (high & 0xFFFFFFFF) + low
        if whole < high - (1 << 31):
            whole += 1 << 32
        elif whole > high + (1 << 31) and whole >= 1 << 32:
            whole -= 1 << 32
        self._high[communicator] = max(high, whole)
        return whole

    def _meeting(self, key: tuple[int, int], pending: _Pending) -> Meeting:
        if self._first_boot is None:
            self._first_boot = min(pending.parts.items())[1][0].boot
        is_synchronous = all(arrival.ended_ns is not None for _, arrival in pending.parts.values())
        boots = {process.boot for process, _ in pending.parts.values()}
        if is_synchronous and len(boots) > 1 and pending.shape.kind in NEEDS_ALL:
            self._learn(pending)
        if len(boots) == 1:
            ordered = tuple(arrival for _, (_, arrival) in sorted(pending.parts.items()))
            return Meeting(key[0], key[1], pending.shape, ordered, 0, is_synchronous)
        arrivals = []
        wrong: list[int | None] = []
        for _, (process, arrival) in sorted(pending.parts.items()):
            shift, error = self._shift(process)
            wrong.append(error)
            ended = None if arrival.ended_ns is None else arrival.ended_ns - shift
            arrivals.append(replace(arrival, begun_ns=arrival.begun_ns - shift, ended_ns=ended))
        known = sorted(each for each in wrong if each is not None)
        # Two ranks may be apart by the errors of both their clocks.
        together = sum(known[-2:]) if len(known) == len(wrong) else None
        return Meeting(key[0], key[1], pending.shape, tuple(arrivals), together, is_synchronous)

    def _shift(self, process: _Process) -> tuple[int, int | None]:
        """What to take off a process's clock for the common one, and how wrong that may be."""
        if process.boot == self._first_boot:
            return 0, 0
        best = self._clocks[process.boot].best() if process.boot in self._clocks else None
        if best is not None:
            return best
        first = next((each for each in self._processes.values() if each.boot == self._first_boot), process)
        return first.realtime_minus_monotonic_ns - process.realtime_minus_monotonic_ns, None

    def _learn(self, pending: _Pending) -> None:
        by_boot: dict[int, list[Arrival]] = {}
        for process, arrival in pending.parts.values():
            by_boot.setdefault(process.boot, []).append(arrival)
        here = by_boot.get(self._first_boot or 0)
        if not here:
            return
        last_here = max(arrival.begun_ns for arrival in here)
        first_end_here = min(arrival.ended_ns or 0 for arrival in here)
        for boot, there in by_boot.items():
            if boot != self._first_boot:
                low = max(arrival.begun_ns for arrival in there) - first_end_here
                high = min(arrival.ended_ns or 0 for arrival in there) - last_here
                if low <= high:
                    self._clocks.setdefault(boot, _Clock()).bounds.append((low, high))


def who_of(header: Header) -> str:
    """A process in a few words."""
    if header.launched_rank < 0:
        return f"pid {header.pid} ({header.host})"
    return f"rank {header.launched_rank} ({header.host}, pid {header.pid})"


def _process(recording: Recording) -> _Process:
    header = recording.header()
    return _Process(
        who_of(header),
        header.boot_id,
        header.monotonic_ns,
        header.realtime_ns - header.monotonic_ns,
        header.synchronous,
    )
