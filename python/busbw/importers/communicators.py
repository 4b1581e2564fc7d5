"""vLLM's benchmark of device communicators: a row for each shape of tensor, a column of times for each of them."""

from __future__ import annotations

import re
from math import prod

from busbw.base.secrets import shortened
from busbw.importers.context import Surroundings
from busbw.importers.draft import Draft, Sink
from busbw.importers.tool_table import MAX_ROWS, bandwidths
from busbw.importers.torch_names import torch_type
from busbw.importers.values import ELEMENT_BYTES, number, whole
from busbw.records import Case, Library, Tool

FORMAT = "vLLM device communicators"
START = "Device Communicator Benchmark Results"

_SETTINGS = re.compile(r"World Size: (\d{1,6}), Data Type: (\S{1,40}?)(?:,|$)")
_HEADER = re.compile(r"Tensor (?:Shape|Elements) +Tensor Size +(\S.{0,1000}?) +Best \(Speedup")
_ROW = re.compile(r"(?:\(([\d, ]{1,60})\)|(\d{1,15})) +(\d{1,9}\.\d\d) Mi?B +(.{1,1000})$")
MAX_LIBRARIES = 40


class Parser:
    """Reads its tables; every column is a run, of the same ranks and sizes."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._around: Surroundings | None = None
        self._ranks: int | None = None
        self._type: str | None = None
        self._drafts: list[Draft] = []

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line belongs to this format."""
        if START in line:
            self.close()
            self._around = self._sink.sweep_starts()
            return True
        if self._around is None:
            return False
        row = _ROW.match(line) if self._drafts else None
        if row is not None:
            self._row(row, line, number_)
        elif self._drafts and self._drafts[0].content and line.startswith("="):
            self.close()
        elif not self._settings(line, number_):
            return line.startswith(("=", "-"))
        return True

    def _settings(self, line: str, number_: int) -> bool:
        """Whether the line is one of those above the rows."""
        settings = _SETTINGS.match(line)
        if settings:
            self._ranks, self._type = whole(settings[1]), torch_type(settings[2])
            return True
        header = _HEADER.match(line)
        if header:
            self._drafts = [
                Draft(FORMAT, Tool("vllm"), number_, "all_reduce", size=self._ranks, library=Library(name[:40]))
                for name in header[1].split()[:MAX_LIBRARIES]
            ]
        return header is not None

    def _row(self, row: re.Match[str], line: str, number_: int) -> None:
        size, cells = self._bytes(row), row[4].split()
        if size is None or len(cells) < len(self._drafts):
            self._sink.problem(number_, f"a row of the table that cannot be read: {shortened(line.strip(), 80)!r}")
            return
        for draft, cell in zip(self._drafts, cells, strict=False):
            time = number(cell[:20])
            draft.content.append(line.strip())
            if time is None or time <= 0 or len(draft.cases) >= MAX_ROWS:
                continue
            algbw, busbw = bandwidths("all_reduce", size, time * 1000, self._ranks)
            draft.cases.append(
                Case(
                    run="", case=0, collective="all_reduce", bytes=size, placement=None, outcome="measured",
                    time_us=round(time * 1000, 3), algbw_GBps=algbw, busbw_GBps=busbw, op="sum", type=self._type,
                    conversion="time from milliseconds, bandwidth from size and time",
                )
            )  # fmt: skip
            draft.rows += 1

    def _bytes(self, row: re.Match[str]) -> int | None:
        """The tensor's elements times their bytes, where that is the size that is printed."""
        shape = [whole(each.strip()) for each in (row[1] or row[2]).split(",") if each.strip()]
        known = [each for each in shape if each is not None]
        size = prod(known) * ELEMENT_BYTES.get(self._type or "", 0)
        close = len(known) == len(shape) and abs(size / (1 << 20) - float(row[3])) <= 0.006
        return size if size and close else None

    def close(self) -> None:
        """The table ends."""
        drafts, around = self._drafts, self._around
        self._drafts, self._around, self._ranks, self._type = [], None, None, None
        for draft in drafts:
            if draft.cases and around is not None:
                self._sink.sweep_ends(draft, around)
