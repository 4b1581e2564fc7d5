"""The live table: what a job calls now, by collective and size class, and which rank comes last."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import cast

from busbw.base.text import columns
from busbw.records import Collective
from busbw.records.bandwidth import GB, bus_factor
from busbw.watch.arrivals import Meeting, Seen
from busbw.watch.late import Late
from busbw.watch.recording import COLLECTIVES

MAX_ROWS = 12
MAX_VERDICTS = 4
_LEAST_ROWS = 2
_MOST_LINES = 3
"""Of one sentence."""
_FIRST_TO_GO = (3, 4, 6)
"""Columns that a narrow terminal does without, one after the other."""


@dataclass
class _Row:
    calls: int = 0
    bytes: int = 0
    bus_bytes: float = 0.0
    timed_ns: int = 0
    host_ns: int = 0
    returned: int = 0


@dataclass
class Window:
    """What happened since the last time that the table was drawn."""

    rows: dict[tuple[str, int], _Row] = field(default_factory=dict)
    processes: set[str] = field(default_factory=set)
    calls: int = 0
    meetings: int = 0
    last: dict[str, int] = field(default_factory=dict)
    late_ns: dict[str, list[int]] = field(default_factory=dict)
    wait_ns: int = 0
    transfer_ns: int = 0
    is_synchronous: bool = False

    def see(self, seen: Seen) -> None:
        """One call of one rank."""
        call, shape = seen.call, seen.call.shape
        size = shape.bytes(max(seen.ranks, 1))
        row = self.rows.setdefault((shape.kind, size_class(size)), _Row())
        self.calls += 1
        self.processes.add(seen.who)
        row.calls += 1
        row.bytes += size
        if call.host_ns is None:
            return
        row.returned += 1
        row.host_ns += call.host_ns
        if seen.is_synchronous and not call.group and not call.captured and shape.kind in COLLECTIVES and seen.ranks:
            factor = bus_factor(cast(Collective, shape.kind), seen.ranks)
            row.bus_bytes += size * (factor or 0.0)
            row.timed_ns += call.host_ns

    def meet(self, meeting: Meeting) -> None:
        """One collective with all its ranks."""
        self.meetings += 1
        last = meeting.last
        self.last[last.who] = self.last.get(last.who, 0) + 1
        begins = sorted(arrival.begun_ns for arrival in meeting.arrivals)
        self.late_ns.setdefault(last.who, []).append(last.begun_ns - begins[(len(begins) - 1) // 2])
        self.is_synchronous = meeting.is_synchronous
        if meeting.is_synchronous:
            self.wait_ns += meeting.waited_ns
            self.transfer_ns += (meeting.transfer_ns or 0) * len(meeting.arrivals)


def draw(  # noqa: PLR0913 - what a picture shows
    window: Window,
    seconds: float,
    *,
    calls: int,
    total: int,
    lates: Iterable[Late] = (),
    width: int = 100,
    height: int = 100,
) -> list[str]:
    """The table as so many lines of at most `width` characters, with the busiest rows that there is room for.

    `calls` were made in the window, `total` since the start.
    """
    seconds = max(seconds, 1e-3)
    looked = min(1.0, window.calls / calls) if calls else 1.0
    part = "" if looked > 0.995 else f", {100 * looked:.0f} % of them looked at"
    lines = [f"busbw watch: {total:,} calls, {calls / seconds:,.0f}/s in {len(window.processes)} processes{part}"]
    said: list[str] = []
    for text in [*([_who(window)] if window.meetings else []), *(late.text for late in list(lates)[-MAX_VERDICTS:])]:
        said += textwrap.wrap(text, max(width - 1, 20), max_lines=_MOST_LINES, placeholder=" ...")
    if window.rows:
        # Besides this line and that of the columns there is one for the further classes.
        most = max(_LEAST_ROWS, min(MAX_ROWS, height - len(lines) - 2 - len(said)))
        lines += _rows(window, seconds * (looked or 1.0), width - 1, most)
    lines += said
    return [line[: max(width - 1, 20)] for line in lines]


def _rows(window: Window, seconds: float, width: int, most: int) -> list[str]:
    """Of the columns as many as there is room for."""
    head = ("collective", "size", "calls/s", "GB/s", "busbw", "share", "host us")
    everything = len(window.processes) * seconds * 1e9
    by_time = sorted(window.rows.items(), key=lambda each: -each[1].host_ns)
    cells = [
        (
            kind, f"<= {size_text(size)}", f"{row.calls / seconds:,.0f}",
            f"{row.bytes / seconds / GB / max(len(window.processes), 1):.3g}",
            f"{row.bus_bytes / row.timed_ns:.3g}" if row.timed_ns else "-",
            f"{100 * row.host_ns / everything:.1f} %",
            f"{row.host_ns / row.returned / 1000:.1f}" if row.returned else "-",
        )
        for (kind, size), row in by_time[:most]
    ]  # fmt: skip
    shown = list(range(len(head)))
    lines = columns(head, cells, left=(0,))
    for column in _FIRST_TO_GO:
        if max(map(len, lines)) <= width:
            break
        shown.remove(column)
        lines = columns([head[at] for at in shown], [[row[at] for at in shown] for row in cells], left=(0,))
    if len(by_time) > most:
        lines.append(f"and {len(by_time) - most} further classes")
    return lines


def _who(window: Window) -> str:
    who, times = max(window.last.items(), key=lambda each: each[1])
    late = median(window.late_ns[who]) / 1000
    text = f"last most often: {who}, in {times:,} of {window.meetings:,} collectives, {late:.0f} us after the median"
    if window.is_synchronous and window.wait_ns + window.transfer_ns:
        share = 100 * window.wait_ns / (window.wait_ns + window.transfer_ns)
        return f"{text}; wait {share:.0f} %, transfer {100 - share:.0f} %"
    return text + " (by the host's calls)"


def size_class(size: int) -> int:
    """The next power of two: the upper end of the class that a size belongs to."""
    return 1 << max(size - 1, 0).bit_length()


def size_text(value: float) -> str:
    """Bytes in units of 1024."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"
