"""Gloo's own benchmark: microseconds by elements or bytes, with its algorithm and processes above the table."""

from __future__ import annotations

import re

from busbw.importers.draft import Draft, Sink
from busbw.importers.tool_table import OpenTable, bandwidths, op_of_collective
from busbw.importers.values import collective_named, number, whole
from busbw.records import Case, Collective, Library, Tool

FORMAT = "gloo benchmark"
FLOAT_BYTES = 4
"""Its elements are floats unless --halfprecision is given, which its output does not say."""

_HEADER = re.compile(r"\s*(size \(B\)\s+)?elements\s+min \(us\)\s+p50 \(us\)\s+p99 \(us\)")
_ALGORITHM = re.compile(r"\s*Algorithm:\s+(\w{3,60})\s*$")
_TITLE = re.compile(r"[A-Z]{3,20}(?:_[A-Z_]{1,60})?$")
_PROCESSES = re.compile(r"\s*Options:\s+processes=(\d{1,6})\b")
_ROW = re.compile(r"\s*\d{1,18}(?:\s+[\d.]{1,20}){4,10}\s*$")


class Parser:
    """Reads the table; the median is the time of a case."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._table = OpenTable(sink)
        self._algorithm: str | None = None
        self._processes: int | None = None
        self._sized = False

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line belongs to this format."""
        header = _HEADER.match(line)
        if header:
            self._sized = header[1] is not None
            return self._open(number_)
        if self._table.draft is not None:
            if _ROW.match(line):
                self._row(line)
                return True
            if line.strip():
                self._table.close()
                self._algorithm = self._processes = None
        algorithm, processes = _ALGORITHM.match(line), _PROCESSES.match(line)
        self._algorithm = algorithm[1] if algorithm else self._algorithm
        self._processes = whole(processes[1]) if processes else self._processes
        return algorithm is not None or processes is not None

    def _open(self, number_: int) -> bool:
        titles = [line for line in self._sink.above() if _TITLE.fullmatch(line)]
        name = self._algorithm or (titles[-1].lower() if titles else "")
        collective = _collective(name) or self._sink.collective
        asking = None if collective else f"gloo's benchmark of {name or 'an unnamed algorithm'}, which is no collective"
        draft = Draft(
            FORMAT, Tool("gloo-benchmark"), number_, collective, library=Library("Gloo"), size=self._processes,
            options={"algorithm": name} if name else {}, asking=asking,
        )  # fmt: skip
        self._table.open(draft, self._sink.sweep_starts())
        return True

    def _row(self, line: str) -> None:
        draft = self._table.draft
        assert draft is not None
        cells = line.split()
        size = whole(cells[0])
        times = [number(cell) for cell in cells[2 if self._sized else 1 :][:4]]
        if len(times) < 4:  # the line was cut
            return
        low, middle, _, high = times
        if size is None or middle is None or low is None or high is None:
            return
        collective = draft.collective or "all_reduce"
        size = size if self._sized else size * FLOAT_BYTES
        algbw, busbw = bandwidths(collective, size, middle, draft.size)
        self._table.add(
            Case(
                run="", case=0, collective=collective, bytes=size, placement=None, outcome="measured", time_us=middle,
                algbw_GBps=algbw, busbw_GBps=busbw, type="float", op=op_of_collective(collective),
                range={"time_us": (low, high)}, conversion="bandwidths from the median of the times",
            ),
            line.strip(),
        )  # fmt: skip

    def close(self) -> None:
        """The output ends."""
        self._table.close()


def _collective(algorithm: str) -> Collective | None:
    """The collective of allreduce_ring_chunked, new_allreduce_ring or broadcast_one_to_all."""
    words = re.sub(r"^new_", "", algorithm).split("_")
    pair = collective_named("".join(words[:2]))
    return pair if words[0] == "reduce" and pair else collective_named(words[0])
