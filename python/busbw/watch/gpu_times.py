"""Times on the GPU of the same collective on all its ranks: how long the transfer took, and who waited for whom.

A collective that needs all ranks ends on all of them at nearly the same moment. So the rank that came last has the
shortest time, which is the transfer; what another rank has more is its wait. No clocks have to be compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import median

from busbw.base.text import columns
from busbw.watch.arrivals import NEEDS_ALL, Arrival, Meeting, who_of
from busbw.watch.recording import Recording, Shape
from busbw.watch.table import size_class, size_text

MAX_PENDING = 1 << 16
MAX_SAMPLES = 1 << 14
MAX_RANKS = 4
LIMIT = 1 << 14
"""Times of one process that one look reads."""


@dataclass(frozen=True)
class Timed:
    """One collective with the times of all its ranks, in ns."""

    shape: Shape
    ranks: int
    took_ns: dict[str, int]
    communicator: int = 0
    """Its identity."""
    sequence: int = 0
    by_rank: tuple[tuple[int, str, int], ...] = ()
    """Rank of the communicator, its process, and the time, by rank."""

    @property
    def transfer_ns(self) -> int:
        """From the last rank's begin to the end."""
        return min(self.took_ns.values())

    @property
    def waited_ns(self) -> int:
        """Of all ranks together."""
        return sum(self.took_ns.values()) - self.transfer_ns * len(self.took_ns)

    def meeting(self) -> Meeting | None:
        """Who came when, on a clock that ends with the collective; None where ranks of it are missing."""
        if len(self.by_rank) < self.ranks:
            return None
        longest = max(took for *_, took in self.by_rank)
        arrivals = tuple(Arrival(rank, who, longest - took, longest, None) for rank, who, took in self.by_rank)
        return Meeting(self.communicator, self.sequence, self.shape, arrivals, 0, is_synchronous=True)

    @property
    def last(self) -> str:
        """The rank that came last."""
        return min(self.took_ns, key=self.took_ns.__getitem__)


@dataclass
class _Pending:
    shape: Shape
    ranks: int
    took_ns: dict[int, tuple[str, int]] = field(default_factory=dict)


class GpuTimes:
    """Matches the times of all recordings; each look gives the collectives that are whole by it."""

    def __init__(self) -> None:
        self._next: dict[Path, int] = {}
        self._rows: dict[Path, dict[int, tuple[int, int, int]]] = {}
        self._pending: dict[tuple[int, int], _Pending] = {}

    @property
    def seen(self) -> int:
        """Times that were read."""
        return sum(self._next.values())

    def look(self, recordings: Iterable[Recording]) -> Iterator[Timed]:
        """What is new."""
        for recording in recordings:
            key = recording.path
            first = self._next.get(key, 0)
            if recording.gpu().times <= first:
                continue
            who = who_of(recording.header())
            self._rows[key] = {
                row.place: (row.identity, row.rank, row.ranks)
                for row in recording.communicators()
                if 0 <= row.rank < row.ranks <= 1 << 20
            }
            yield from self._read(recording, who, key, first)

    def _read(self, recording: Recording, who: str, key: Path, first: int) -> Iterator[Timed]:
        for place, time in islice(recording.times(first), LIMIT):
            self._next[key] = place + 1
            row, call = self._rows[key].get(time.communicator), recording.call(time.number)
            # Of a group there is only the time of the whole.
            if row is None or row[2] < 2 or call is None or time.in_group or call.shape.kind not in NEEDS_ALL:
                continue
            at = (row[0], call.sequence)
            pending = self._pending.get(at)
            if pending is None:
                if len(self._pending) >= MAX_PENDING:
                    self._pending.pop(next(iter(self._pending)))
                pending = self._pending[at] = _Pending(call.shape, row[2])
            pending.took_ns[row[1]] = (who, time.took_ns)
            if len(pending.took_ns) == pending.ranks:
                del self._pending[at]
                by_rank = tuple((rank, *rest) for rank, rest in sorted(pending.took_ns.items()))
                yield Timed(pending.shape, pending.ranks, dict(pending.took_ns.values()), *at, by_rank)


@dataclass
class _Line:
    transfers_ns: list[int] = field(default_factory=list)
    calls: int = 0
    wait_ns: int = 0


@dataclass
class GpuSums:
    """Over many collectives: by collective, size class and ranks."""

    lines: dict[tuple[str, int, int], _Line] = field(default_factory=dict)
    last: Counter[str] = field(default_factory=Counter)
    transfer_ns: int = 0
    wait_ns: int = 0

    def add(self, one: Timed) -> None:
        """One collective."""
        line = self.lines.setdefault((one.shape.kind, size_class(one.shape.bytes(one.ranks)), one.ranks), _Line())
        line.calls += 1
        line.wait_ns += one.waited_ns // one.ranks
        if len(line.transfers_ns) < MAX_SAMPLES:
            line.transfers_ns.append(one.transfer_ns)
        self.last[one.last] += 1
        self.transfer_ns += one.transfer_ns * one.ranks
        self.wait_ns += one.waited_ns

    def share(self) -> str:
        """In one line: what part was wait, and for whom; "" without times."""
        calls, together = self.last.total(), self.transfer_ns + self.wait_ns
        if not calls or not together:
            return ""
        who, times = self.last.most_common(1)[0]
        wait = 100 * self.wait_ns / together
        return (
            f"on the GPU, {calls:,} timed collectives: wait {wait:.0f} %, transfer {100 - wait:.0f} %; "
            f"last most often: {who}, in {times:,}"
        )

    def text(self) -> str:
        """As a table; "" without times."""
        if not self.last:
            return ""
        rows = [
            (
                kind, f"<= {size_text(size)}", str(ranks), f"{line.calls:,}", f"{median(line.transfers_ns) / 1000:.1f}",
                f"{line.wait_ns / line.calls / 1000:.1f}",
            )
            for (kind, size, ranks), line in sorted(self.lines.items())
        ]  # fmt: skip
        head = ("on the GPU", "size", "ranks", "timed", "transfer us", "wait us")
        lines = columns(head, rows, left=(0,))
        named = ", ".join(f"{who} {100 * times / self.last.total():.0f} %"
                          for who, times in self.last.most_common(MAX_RANKS))  # fmt: skip
        return "\n".join([*lines, self.share(), f"came last on the GPU: {named}"])


def sums_of(recordings: Iterable[Recording]) -> GpuSums:
    """Of all times that recordings hold."""
    sums, times, recordings = GpuSums(), GpuTimes(), list(recordings)
    before = -1
    while before != times.seen:
        before = times.seen
        for one in times.look(recordings):
            sums.add(one)
    return sums
