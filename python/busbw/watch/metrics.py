"""What `busbw watch --prometheus FILE` writes each second: sums since the job's start, so that rates can be taken."""

from __future__ import annotations

from collections.abc import Iterable

from busbw.base.prometheus import Family
from busbw.watch.arrivals import Seen
from busbw.watch.late import Late, Stragglers
from busbw.watch.recording import Recording
from busbw.watch.table import size_class

MAX_CLASSES = 1000


class Sums:
    """Calls that were looked at, by process, collective and size class."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, str], list[float]] = {}

    def see(self, seen: Seen) -> None:
        """One call."""
        shape = seen.call.shape
        size = shape.bytes(max(seen.ranks, 1))
        key = (seen.who, shape.kind, str(size_class(size)))
        if key not in self._rows and len(self._rows) >= MAX_CLASSES:
            key = ("further", "further", "0")
        row = self._rows.setdefault(key, [0, 0, 0.0])
        row[0] += 1
        row[1] += size
        row[2] += (seen.call.host_ns or 0) / 1e9

    def families(
        self, recordings: Iterable[Recording], stragglers: Stragglers, lates: Iterable[Late], skipped: int
    ) -> list[Family]:
        """Everything, in base units."""
        labelled = [
            ({"process": who, "collective": kind, "up_to_bytes": size}, row)
            for (who, kind, size), row in self._rows.items()
        ]
        named: dict[str, int] = {}
        for late in lates:
            named[late.who] = named.get(late.who, 0) + 1
        # A process that called exec has several recordings, and one with a thread for each rank several ranks.
        calls: dict[tuple[str, int, int], tuple[int, int]] = {}
        for head in (recording.header() for recording in recordings):
            before = calls.get((head.host, head.pid, head.launched_rank), (0, 0))
            lost = before[1] + head.lost + head.overtaken
            calls[head.host, head.pid, head.launched_rank] = before[0] + head.calls, lost
        ranks = [({"process": rank.who, "communicator": f"{key[0]:016x}", "rank": str(key[1])}, rank)
                 for key, rank in list(stragglers.ranks.items())[:MAX_CLASSES]]  # fmt: skip
        processes = [
            ({"host": host, "pid": str(pid), "rank": str(rank)}, row) for (host, pid, rank), row in calls.items()
        ]
        return [
            Family("busbw_calls_total", "counter", "Calls that have begun, of each process.",
                   [(labels, row[0]) for labels, row in processes]),
            Family("busbw_calls_lost_total", "counter", "Calls that had no room or place in the recording.",
                   [(labels, row[1]) for labels, row in processes]),
            Family("busbw_calls_not_looked_at_total", "counter", "Calls that were too many for the watcher.",
                   [({}, skipped)]),
            Family("busbw_looked_at_calls_total", "counter", "Calls by collective and size class.",
                   [(labels, row[0]) for labels, row in labelled]),
            Family("busbw_looked_at_bytes_total", "counter", "Bytes of these calls, as nccl-tests counts sizes.",
                   [(labels, row[1]) for labels, row in labelled]),
            Family("busbw_looked_at_host_seconds_total", "counter", "Time of the host in these calls.",
                   [(labels, row[2]) for labels, row in labelled]),
            Family("busbw_came_last_total", "counter", "Collectives in which a rank came last.",
                   [(labels, rank.last) for labels, rank in ranks]),
            Family("busbw_made_others_wait_seconds_total", "counter", "How long the others waited for a rank.",
                   [(labels, rank.caused_ns / 1e9) for labels, rank in ranks]),
            Family("busbw_named_late_total", "counter", "Times that a rank became late again and again.",
                   [({"process": who}, times) for who, times in named.items()]),
        ]  # fmt: skip
