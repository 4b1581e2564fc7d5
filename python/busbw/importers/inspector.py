"""NCCL Inspector's JSON: every collective of a real job, one object a call, one file a process."""

from __future__ import annotations

import json
from typing import Any

from busbw.base.effort import EFFORT
from busbw.base.secrets import shortened
from busbw.importers.context import Surroundings
from busbw.importers.draft import Draft, Sink, is_enough
from busbw.importers.json_values import json_values, whole_number
from busbw.importers.samples_of_calls import Call, Calls
from busbw.importers.torch_names import torch_collective
from busbw.importers.values import number
from busbw.importers.work_limit import PER_CELLS
from busbw.records import Library, Tool

FORMAT = "NCCL Inspector JSON"
MAX_BYTES = 64 << 20


class Jobs:
    """The calls of all processes that one import reads."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._calls = Calls()
        self._around: Surroundings | None = None
        self._line = 0
        self._sends = 0
        self._content: list[str] = []
        self._untimed = 0

    def take(self, raw: dict[str, Any], line: int) -> bool:
        """One object; whether it is one of the Inspector's."""
        EFFORT.left -= PER_CELLS
        header, calls = raw.get("header"), raw.get("coll_perf")
        if not isinstance(header, dict):
            return False
        if not isinstance(calls, dict):
            self._sends += 1
            return isinstance(raw.get("p2p_perf"), dict)
        collective = torch_collective(str(calls.get("coll"))[:60])
        size, ranks = whole_number(calls.get("coll_msg_size_bytes")), whole_number(header.get("n_ranks"))
        time = number(str(calls.get("coll_exec_time_us"))[:40])
        if collective is None or size is None or not ranks or ranks > 1 << 24 or time is None or time <= 0:
            return False
        if self._around is None:
            self._around, self._line = self._sink.sweep_starts(), line
        if calls.get("coll_timing_source") not in (None, "kernel_gpu"):
            self._untimed += 1
        self._calls.add(Call(collective, size, None, ranks), f"rank {str(header.get('rank'))[:12]}", time)
        if len(self._content) < 20_000:
            self._content.append(f"{header.get('rank')} {collective} {size} {time}")
        return True

    def close(self) -> None:
        """All files are read."""
        around = self._around
        if around is None:
            if self._sends:
                self._sink.problem(None, f"{self._sends} sends and receives, no collective: nothing to compare")
            return
        notes = ["times are of NCCL's kernels in a running job: they hold the wait for ranks that came later"]
        if self._sends:
            notes.append(f"{self._sends} sends and receives are left out: busbw compares collectives")
        if self._untimed:
            notes.append(f"{self._untimed} calls were timed by the processor, not by the GPU")
        notes += self._calls.slow_ranks()
        for ranks, cases in self._calls.by_ranks():
            draft = Draft(
                FORMAT,
                Tool("NCCL Inspector"),
                self._line,
                cases[0].collective,
                cases=cases,
                rows=len(cases),
                size=ranks,
                library=Library("NCCL"),
                notes=list(notes),
            )
            draft.content = [f"{ranks}", *self._content]
            self._sink.sweep_ends(draft, around)
        self._around = None


class Parser:
    """Reads lines of one object each."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._jobs = sink.shared(Jobs)

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line belongs to this format."""
        if '"coll_perf"' not in line and '"p2p_perf"' not in line:
            return False
        at = line.find("{")
        try:
            raw = json.loads(line[at:]) if at >= 0 else None
        except (ValueError, RecursionError):
            raw = None
        if not isinstance(raw, dict) or not self._jobs.take(raw, number_):
            self._sink.problem(
                number_, f"a line of NCCL Inspector's JSON that cannot be read: {shortened(line.strip(), 80)!r}"
            )
        return True

    def close(self) -> None:
        """The collector outlives the lines of one file."""


def looks_like(head: str) -> bool:
    """Whether a text begins as one object over several lines."""
    return head.lstrip()[:2] in ("{\n", "[{", "[\n") and '"coll_perf"' in head and '"n_ranks"' in head


def parse(text: str, sink: Sink) -> None:
    """Objects over several lines, alone, behind each other or in a list."""
    jobs = sink.shared(Jobs)
    for line, value in json_values(text):
        for raw in value if isinstance(value, list) else [value]:
            if is_enough(sink, line):
                return
            if not isinstance(raw, dict) or not jobs.take(raw, line):
                sink.problem(line, "an object that is none of NCCL Inspector's")
