"""Recordings as a timeline: the JSON of Chrome's trace viewer, which Perfetto opens too.

The format is the Trace Event Format's: complete events ("ph": "X") with `ts` and `dur` in microseconds, metadata ("M")
for names. A process is a rank, a thread one of its communicators; waits for a later rank lie within the calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from busbw.base.errors import UserError
from busbw.base.files import whole
from busbw.watch.arrivals import Arrivals, Meeting, Seen, who_of
from busbw.watch.recording import Header, Recording

MAX_EVENTS = 1_000_000
"""Of 200 bytes and more: chrome://tracing takes a file as one string, which may have 512 MiB at most."""
_LEAST_NS = 1000
"""Shorter waits are left out."""


def write_trace(recordings: Sequence[Recording], path: Path) -> tuple[int, int]:
    """Write the timeline; how many calls are in it, and how many were left out beyond MAX_EVENTS."""
    try:
        with whole(path) as part, part.open("w", encoding="utf-8") as file:
            file.write('{"displayTimeUnit": "ns", "traceEvents": [\n')
            written = left_out = 0
            comma = ""
            for event in _events(recordings):
                if written >= MAX_EVENTS:
                    left_out += event["ph"] == "X"
                    continue
                file.write(comma + json.dumps(event, separators=(",", ":")))
                comma = ",\n"
                written += event["ph"] == "X"
            file.write("\n]}\n")
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error
    return written, left_out


def _events(recordings: Sequence[Recording]) -> Iterator[dict[str, Any]]:
    heads = [recording.header() for recording in recordings]
    # Of one host the monotonic clock; hosts stand side by side by their realtime clocks.
    shift: dict[int, int] = {}
    for head in heads:
        shift.setdefault(head.boot_id, head.realtime_ns - head.monotonic_ns)
    first = min((head.monotonic_ns + shift[head.boot_id] for head in heads), default=0)
    lanes = {who_of(head): _Lane(number, head, shift[head.boot_id] - first) for number, head in enumerate(heads)}
    for who, lane in lanes.items():
        yield {"ph": "M", "name": "process_name", "pid": lane.number, "tid": 0, "args": {"name": who}}
        yield {"ph": "M", "name": "process_sort_index", "pid": lane.number, "tid": 0,
               "args": {"sort_index": lane.number}}  # fmt: skip
    arrivals = Arrivals()
    while found := list(arrivals.look(recordings)):
        for each in found:
            if isinstance(each, Meeting):
                yield from _waits(each, lanes)
            else:
                yield _call(each, lanes[each.who])


@dataclass(frozen=True)
class _Lane:
    number: int
    header: Header
    shift_ns: int

    def us(self, monotonic_ns: int) -> float:
        """On the timeline, of a moment by the clock of the process's host."""
        return (monotonic_ns + self.shift_ns) / 1000


def _call(seen: Seen, lane: _Lane) -> dict[str, Any]:
    call = seen.call
    return {
        "ph": "X", "name": call.shape.kind, "cat": "collective" if seen.is_synchronous and not call.group else "host",
        "pid": lane.number, "tid": call.communicator, "ts": lane.us(lane.header.monotonic_ns + call.begun_ns),
        "dur": (call.host_ns or 0) / 1000,
        "args": {
            "number": call.sequence, "what": str(call.shape), "bytes": call.shape.bytes(max(seen.ranks, 1)),
            "stream": call.stream, "group": call.group, "captured": call.captured, "failed": call.failed,
            "returned": call.host_ns is not None,
        },
    }  # fmt: skip


def _waits(meeting: Meeting, lanes: dict[str, _Lane]) -> Iterator[dict[str, Any]]:
    """Within the calls of the ranks that waited: for whom, and how long."""
    if not meeting.is_synchronous or meeting.error_ns is None:
        return
    last = meeting.last
    for arrival in meeting.arrivals:
        wait_ns = last.begun_ns - arrival.begun_ns
        if wait_ns > max(_LEAST_NS, meeting.error_ns) and arrival.who in lanes:
            lane = lanes[arrival.who]
            yield {"ph": "X", "name": f"wait for {last.who}", "cat": "wait", "pid": lane.number, "tid": arrival.place,
                   "ts": lane.us(arrival.host_ns), "dur": wait_ns / 1000,
                   "args": {"number": meeting.sequence, "clocks_us": meeting.error_ns / 1000}}  # fmt: skip
