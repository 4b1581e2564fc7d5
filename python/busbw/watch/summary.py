"""What a job called, by collective and size, and by rank, from its recordings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from busbw.base.text import columns
from busbw.watch.late import Late, Stragglers
from busbw.watch.recording import Recording, host_ns_of, shape_of
from busbw.watch.table import size_class, size_text

MAX_RANKS = 16
MAX_LATES = 20


@dataclass
class Line:
    """Calls of one collective in one class of sizes: up to `limit` bytes."""

    calls: int = 0
    bytes: int = 0
    host_ns: int = 0
    returned: int = 0
    captured: int = 0


@dataclass
class Summary:
    """Sums over all recordings that were read."""

    lines: dict[tuple[str, int], Line] = field(default_factory=dict)
    ranks: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    """Calls of each process: its name, pid and start. Ranks of two jobs have the same name, and so has one anew."""
    calls: int = 0
    read: int = 0
    lost: int = 0
    overtaken: int = 0
    """Calls whose place was another call's, which had not ended."""
    nameless: int = 0
    """Communicators that found no place in the table: their calls are counted, but not by communicator."""
    overwritten: int = 0
    communicators: int = 0
    unreturned: int = 0
    launches: int = 0
    unseen_graphs: int = 0
    missed_times: int = 0

    def text(self) -> str:
        """As a table, and what is missing from it."""
        if not self.calls and self.ranks:
            began, made = len(self.ranks), self.communicators
            return (
                f"no call was recorded: {began:,} process{'es' * (began != 1)} began to make a communicator, and "
                f"{made:,} rank{_s(made)} came to the end of that"
            )
        if not self.calls:
            return (
                "no call of NCCL was recorded: the program made none, or has an NCCL within another library, where "
                "nothing can stand in front of it. A command that changes the user or clears the environment, as sudo "
                "or env -i, also hides what it starts"
            )
        rows = [
            (
                kind,
                f"<= {size_text(limit)}",
                f"{line.calls:,}",
                size_text(line.bytes),
                f"{line.captured:,}",
                _mean_us(line),
            )
            for (kind, limit), line in sorted(self.lines.items())
        ]  # fmt: skip
        head = ("collective", "size", "calls", "bytes", "captured", "host us")
        lines = columns(head, rows, left=(0,))
        lines.append(
            f"{self.calls:,} call{_s(self.calls)} by {self.communicators:,} rank{_s(self.communicators)} of "
            f"communicators in {len(self.ranks):,} process{'es' * (len(self.ranks) != 1)}"
        )
        counts = sorted(self.ranks.values())
        if len(counts) > 1 and counts[0] != counts[-1]:
            few, many = min(self.ranks, key=self.ranks.__getitem__), max(self.ranks, key=self.ranks.__getitem__)
            lines.append(f"fewest calls: {self.ranks[few]:,} of {few[0]}; most: {self.ranks[many]:,} of {many[0]}")
        lines += self._not_read()
        if self.nameless:
            lines.append(
                f"{self.nameless:,} communicators found no place in the table: ranks were not compared in them"
            )
        if self.unreturned:
            lines.append(f"{self.unreturned:,} calls had not come back")
        if self.launches:
            lines.append(f"{self.launches:,} launches of graphs with calls in them, each counted")
        if self.unseen_graphs:
            lines.append(
                f"{self.unseen_graphs:,} processes captured calls into graphs whose launches could not be seen: "
                "their CUDA runtime is linked in, or BUSBW_RECORD_GRAPHS=0"
            )
        if self.missed_times:
            lines.append(f"{self.missed_times:,} calls of the sample have no time on the GPU")
        return "\n".join(lines)

    def _not_read(self) -> list[str]:
        """Calls that were made, and why they are not in the table."""
        lines = []
        if self.overwritten:
            lines.append(f"{self.overwritten:,} older calls were overwritten, as the ring had come round")
        if self.lost:
            lines.append(f"{self.lost:,} calls were lost, as there was no room for the file")
        if self.overtaken:
            lines.append(
                f"{self.overtaken:,} call{_s(self.overtaken)} had no place: the call there, a whole ring before, had "
                "not ended. A ring of more calls keeps them"
            )
        if (missing := self.calls - self.read - self.overwritten - self.lost - self.overtaken) > 0:
            lines.append(f"{missing:,} calls are not there: files were cut off, or copied without their end")
        return lines


def _s(number: int) -> str:
    return "s" * (number != 1)


def summarise(paths: Iterable[Path]) -> Summary:
    """Read every recording once."""
    summary = Summary()
    for path in paths:
        with Recording(path) as recording:
            _add(summary, recording)
    return summary


def _add(summary: Summary, recording: Recording) -> None:
    header = recording.header()
    ranks = {row.place: row.ranks for row in recording.communicators()}
    who = f"rank {header.launched_rank}" if header.launched_rank >= 0 else f"process {header.pid}"
    summary.calls += header.calls
    summary.lost += header.lost
    summary.overtaken += header.overtaken
    summary.nameless += header.communicators_lost
    summary.overwritten += recording.overwritten()
    summary.communicators += len(ranks)
    summary.ranks[f"{who} on {header.host}", header.pid, header.process_start] += header.calls
    gpu = recording.gpu()
    summary.launches += gpu.launches
    summary.missed_times += gpu.missed
    captured_before = sum(line.captured for line in summary.lines.values())
    calls: Counter[tuple[int, int]] = Counter()
    host_ns: Counter[tuple[int, int]] = Counter()
    unreturned: Counter[tuple[int, int]] = Counter()
    for _, (_, _, what, _, how) in recording.raw_calls():
        # All but the group and the duration.
        key = (what, how & 0xFFFFFFFFF)
        calls[key] += 1
        duration = host_ns_of(how)
        if duration is None:
            unreturned[key] += 1
        else:
            host_ns[key] += duration
    for key, number in calls.items():
        what, how = key
        shape = shape_of(what, how)
        size = shape.bytes(ranks.get(what >> 48, 1))
        line = summary.lines.setdefault((shape.kind, size_class(size)), Line())
        line.calls += number
        line.bytes += size * number
        line.captured += number if how >> 13 & 1 else 0
        line.returned += number - unreturned[key]
        line.host_ns += host_ns[key]
        summary.read += number
        summary.unreturned += unreturned[key]
    captured = sum(line.captured for line in summary.lines.values()) - captured_before
    summary.unseen_graphs += captured > 0 and not gpu.sees_launches


def _mean_us(line: Line) -> str:
    return f"{line.host_ns / line.returned / 1000:.1f}" if line.returned else "-"


def who_waits(stragglers: Stragglers, lates: Sequence[Late]) -> str:
    """Which ranks the others waited for, the worst first; "" where no collective was seen with all its ranks."""
    if not stragglers.meetings:
        return ""
    ranks = sorted(stragglers.ranks.items(), key=lambda item: -item[1].caused_ns)
    # A process has a row for each of its ranks: of several communicators, or one for each of its threads.
    is_told = len({rank.who for _, rank in ranks}) < len(ranks)
    cells = [
        (rank.who, *([f"{number} of {rank.of} ({identity:016x})"] * is_told), f"{100 * rank.last / rank.calls:.1f} %",
         f"{median(rank.late_ns) / 1000:.1f}", f"{rank.waited_ns / rank.calls / 1000:.1f}",
         f"{rank.caused_ns / 1e9:.3g} s")
        for (identity, number), rank in ranks[:MAX_RANKS]
    ]  # fmt: skip
    head = ("rank", *(["in communicator"] * is_told), "came last", "late us", "waits us", "made others wait")
    lines = columns(head, cells, left=(0, 1) if is_told else (0,))
    if len(ranks) > MAX_RANKS:
        lines.append(f"and {len(ranks) - MAX_RANKS:,} further ranks that made the others wait less")
    lines.append(_waits(stragglers))
    lines += [late.text for late in lates[:MAX_LATES]]
    if len(lates) > MAX_LATES:
        lines.append(f"and {len(lates) - MAX_LATES:,} further times that a rank became late")
    return "\n".join(lines)


def _waits(stragglers: Stragglers) -> str:
    text = f"{stragglers.meetings:,} collectives with all ranks"
    together = stragglers.wait_ns + stragglers.transfer_ns
    if stragglers.unjudged and stragglers.unjudged < stragglers.meetings:
        text += f" ({stragglers.unjudged:,} of them, as those in groups, told when they were called, and no more)"
    elif stragglers.unjudged:
        return text + ", by the host's calls: how long the transfer took and who was late on the GPU is not recorded"
    if together:
        share = 100 * stragglers.wait_ns / together
        text += f"; of the time in them, wait {share:.0f} %, transfer {100 - share:.0f} %"
    if stragglers.worst_error_ns:
        text += f"; clocks of hosts within {stragglers.worst_error_ns / 1000:.1f} us"
    return text
