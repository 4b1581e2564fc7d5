"""The torch all_reduce_bench of one size: a sentence with payload, trials and ranks, then both bandwidths in GBps."""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.importers.draft import Draft, Sink
from busbw.importers.torch_bench import FORMAT
from busbw.importers.values import number
from busbw.records import Case, Tool

_HEAD = re.compile(
    r"The average bandwidth of all_reduce with an? (\d{1,9}(?:\.\d{1,6})?) ?([KMGT]?)B payload "
    r"\((\d{1,7}) trials, (\d{1,7}) ranks\)"
)
# The script divides by powers of ten: 500000 x 2000 floats are its 4.0GB.
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_RATE = re.compile(r"\b(alg|bus)bw: (\d{1,15}(?:\.\d{1,10})?) GBps\b")


@dataclass
class _Head:
    line: int
    bytes: int
    trials: int
    ranks: int


class Average:
    """Rank 0 prints the sentence and a line for each bandwidth."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._head: _Head | None = None
        self._algbw: float | None = None

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line belongs to this format."""
        if head := _HEAD.search(line):
            self.close()
            size = round(float(head[1]) * _UNITS[head[2]])
            self._head = _Head(number_, size, int(head[3]), int(head[4])) if size else None
            return self._head is not None
        rate = _RATE.search(line) if self._head is not None else None
        if rate is None:
            return False
        if rate[1] == "alg":
            self._algbw = number(rate[2])
        else:
            self._end(number(rate[2]), line)
        return True

    def _end(self, busbw: float | None, line: str) -> None:
        head, algbw = self._head, self._algbw
        if head is None or not algbw or not busbw:
            self.close()
            return
        draft = Draft(
            FORMAT,
            Tool("all_reduce_bench"),
            head.line,
            "all_reduce",
            size=head.ranks,
            rows=1,
            content=[line.strip()],
        )
        draft.cases.append(
            Case(
                run="", case=0, collective="all_reduce", bytes=head.bytes, placement="in_place", outcome="measured",
                time_us=round(head.bytes / algbw / 1000, 3), algbw_GBps=algbw, busbw_GBps=busbw, op="sum",
                iterations=head.trials, average="mean", conversion="time from size over algorithm bandwidth",
            )
        )  # fmt: skip
        self._sink.sweep_ends(draft, self._sink.sweep_starts())
        self._head = self._algbw = None

    def close(self) -> None:
        """The sentence's bandwidths did not come."""
        if self._head is not None:
            self._sink.problem(self._head.line, "an average without its bandwidths below it")
        self._head = self._algbw = None
