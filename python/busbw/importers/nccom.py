"""AWS' nccom-test for Trainium and Inferentia: its table, or the JSON that it reports to."""

from __future__ import annotations

import re

from busbw.base.secrets import shortened
from busbw.importers.collective import collective_of_file
from busbw.importers.draft import Draft, Sink
from busbw.importers.tool_table import OpenTable, op_of_collective
from busbw.importers.torch_names import torch_type
from busbw.importers.values import number, whole
from busbw.records import Case, Collective, Tool

FORMAT = "nccom-test"

_HEADER = re.compile(r"\s*size\(B\)\s+count\(elems\)\s+type\s")
_COMMAND = re.compile(r"\bnccom-test\b(.{0,2000})$")
_NAMES: dict[str, Collective] = {
    "allr": "all_reduce",
    "allreduce": "all_reduce",
    "allg": "all_gather",
    "allgather": "all_gather",
    "redsct": "reduce_scatter",
    "reducescatter": "reduce_scatter",
    "alltoall": "alltoall",
    "sendrecv": "sendrecv",
    "permute": "sendrecv",
}
_RANKS = re.compile(r"(?:-r|--nworkers)[ =]+(\d{1,7})")


class Parser:
    """Reads the command, where it is shown, and tables."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._table = OpenTable(sink)
        self._columns: list[str] = []
        self._collective: Collective | None = None
        self._ranks: int | None = None

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line belongs to this format."""
        if "nccom-test" in line:
            command = _COMMAND.search(line)
            if command:
                named = [_NAMES[word] for word in command[1].lower().split() if word in _NAMES]
                ranks = _RANKS.search(command[1])
                self._collective, self._ranks = named[-1] if named else None, int(ranks[1]) if ranks else None
            return False
        if _HEADER.match(line):
            self._open(line, number_)
            return True
        if self._table.draft is None:
            return False
        words = line.split()
        if words and words[0].isdecimal() and len(words) == len(self._columns):
            self._row(dict(zip(self._columns, words, strict=True)), line, number_)
            return True
        if line.startswith("Avg bus bandwidth"):
            self.close()
            return True
        return False

    def _open(self, line: str, number_: int) -> None:
        around = self._sink.sweep_starts()
        self._columns = [re.sub(r"\(.*", "", word) for word in line.split()]
        collective = self._collective or self._sink.collective or collective_of_file(around.file)
        draft = Draft(FORMAT, Tool("nccom-test"), number_, collective, size=self._ranks)
        self._table.open(draft, around)

    def _row(self, cells: dict[str, str], line: str, number_: int) -> None:
        draft = self._table.draft
        assert draft is not None
        size, time = whole(cells.get("size", "")), number(cells.get("time:avg", cells.get("time", "")))
        if size is None or time is None:
            self._sink.problem(number_, f"a row of the table that cannot be read: {shortened(line.strip(), 80)!r}")
            return
        collective = draft.collective or "all_reduce"
        self._table.add(
            Case(
                run="",
                case=0,
                collective=collective,
                bytes=size,
                placement=None,
                outcome="measured",
                time_us=time,
                algbw_GBps=number(cells.get("algbw", "")),
                busbw_GBps=number(cells.get("busbw", "")),
                type=torch_type(cells.get("type", "")),
                count=whole(cells.get("count", "")),
                op=op_of_collective(collective),
            ),
            line.strip(),
        )

    def close(self) -> None:
        """The table ends."""
        self._table.close()
