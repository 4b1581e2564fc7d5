"""The lines of JSON that mscclpp-test writes with -o: one object per size, one file for several tests."""

from __future__ import annotations

import json
import re
from typing import Any

from busbw.base.effort import EFFORT
from busbw.base.secrets import shortened
from busbw.importers.context import Surroundings
from busbw.importers.draft import Draft, Sink
from busbw.importers.values import collective_named, number
from busbw.importers.work_limit import PER_CELLS
from busbw.records import Case, Library, Tool

FORMAT = "mscclpp-test JSON lines"

_LINE = re.compile(r'\s*\{.{0,2000}"busBw".{0,2000}\}\s*$')


class Parser:
    """Reads lines; a change of test, kernel or ranks starts the next sweep."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._draft: Draft | None = None
        self._around: Surroundings | None = None
        self._key: tuple[Any, ...] | None = None

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line belongs to this format."""
        if '"busBw"' not in line or '"kernel"' not in line or not _LINE.match(line):
            return False
        EFFORT.left -= PER_CELLS
        try:
            raw = json.loads(line)
        except (ValueError, RecursionError):
            raw = None
        if not isinstance(raw, dict) or not self._take(raw, line, number_):
            self._sink.problem(
                number_, f"a line of mscclpp-test's JSON that cannot be read: {shortened(line.strip(), 80)!r}"
            )
        return True

    def _take(self, raw: dict[str, Any], line: str, number_: int) -> bool:
        collective = collective_named(str(raw.get("name"))[:40])
        size, ranks, kernel = raw.get("size"), raw.get("ranks"), raw.get("kernel")
        if collective is None or not all(type(each) is int and 0 <= each < 1 << 63 for each in (size, ranks, kernel)):
            return False
        assert isinstance(size, int) and isinstance(ranks, int)
        figures = [number(str(raw.get(name))) for name in ("time", "algBw", "busBw")]
        key = (collective, kernel, ranks, raw.get("ranksPerNode"))
        if key != self._key:
            self.close()
            self._around = self._sink.sweep_starts()
            self._key = key
            self._draft = Draft(
                FORMAT, Tool("mscclpp-test"), number_, collective, size=ranks, library=Library("MSCCL++")
            )
        assert self._draft is not None
        self._draft.cases.append(Case(
            run="", case=0, collective=collective, bytes=size, placement=None, outcome="measured",
            time_us=figures[0], algbw_GBps=figures[1], busbw_GBps=figures[2], type="int32",
            op="sum" if collective == "all_reduce" else None, variant=f"kernel {kernel}",
        ))  # fmt: skip
        self._draft.rows += 1
        self._draft.content.append(line)
        if self._draft.rows >= 20_000:
            self.close()
        return True

    def close(self) -> None:
        """The last sweep ends."""
        if self._draft is not None and self._around is not None:
            self._sink.sweep_ends(self._draft, self._around)
        self._draft = self._around = self._key = None
