"""et_replay's calls (PARAM): what its comm_replay writes for each rank, every replayed collective with its latency."""

from __future__ import annotations

import re
from typing import Any

from busbw.base.effort import EFFORT
from busbw.importers.context import Surroundings
from busbw.importers.draft import Draft, Sink, is_enough
from busbw.importers.json_values import json_values, whole_number
from busbw.importers.samples_of_calls import Call, Calls
from busbw.importers.torch_names import torch_collective, torch_type
from busbw.importers.values import number
from busbw.importers.work_limit import PER_CELLS
from busbw.records import Tool

FORMAT = "et_replay calls"
MAX_BYTES = 256 << 20
MAX_CONTENT = 20_000
_NO_TRANSFER = frozenset({"init", "wait", "barrier", "batch_isend_irecv"})


def looks_like(head: str) -> bool:
    """Whether a text begins as a list of replayed calls."""
    return head.lstrip()[:1] == "[" and '"latency_us"' in head and ('"comms"' in head or '"marker_stack"' in head)


class Replays:
    """The calls of all ranks that one import reads."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._calls = Calls()
        self._around: Surroundings | None = None
        self._content: list[str] = []
        self._compute = self._other = 0

    def take(self, calls: list[Any], rank: str, around: Surroundings) -> None:
        """The calls of one rank."""
        self._around = self._around or around
        for raw in calls:
            EFFORT.left -= PER_CELLS
            if is_enough(self._sink):
                break
            if not isinstance(raw, dict) or raw.get("comms") in _NO_TRANSFER:
                continue
            call, time = _call(raw), number(str(raw.get("latency_us"))[:40])
            if call is None or time is None or time <= 0:
                self._compute += "compute" in raw
                self._other += "compute" not in raw
                continue
            self._calls.add(call, rank, time)
            if len(self._content) < MAX_CONTENT:
                self._content.append(f"{rank} {call} {time}")

    def close(self) -> None:
        """All files are read."""
        if not len(self._calls) or self._around is None:
            self._sink.problem(None, "et_replay's calls without a collective that has a size and a time")
            return
        notes = [
            "times are the replay's host clock: where it does not block, they hold the launch and not the transfer"
        ]
        notes += [f"{self._compute} kernels of compute are left out"] if self._compute else []
        notes += [f"{self._other} sends, receives and other calls are left out"] if self._other else []
        notes += self._calls.slow_ranks()
        for ranks, cases in self._calls.by_ranks():
            draft = Draft(FORMAT, Tool("et_replay"), 1, cases[0].collective, cases=cases, rows=len(cases), size=ranks)
            draft.notes = list(notes)
            draft.content = [f"{ranks}", *self._content]
            self._sink.sweep_ends(draft, self._around)


def _call(raw: dict[str, Any]) -> Call | None:
    """The call; sizes are in elements, of what the rank sends and receives."""
    collective, ranks = torch_collective(str(raw.get("comms"))[:60]), whole_number(raw.get("world_size"))
    sent, received = whole_number(raw.get("in_msg_size")), whole_number(raw.get("out_msg_size"))
    element = whole_number(raw.get("dtype_size"))
    if collective is None or sent is None or not element or element > 16 or (ranks is not None and ranks > 1 << 24):
        return None
    count = sent
    if collective == "all_gather" and received:
        count = received
    elif collective == "gather":
        count = sent * (ranks or 1)
    elif collective == "scatter" and received:
        count = received * (ranks or 1)
    return Call(collective, count * element, torch_type(str(raw.get("dtype"))[:40]), ranks or None) if count else None


def parse(text: str, sink: Sink) -> None:
    """The calls of one rank; the collector ends with the file or folder."""
    around = sink.sweep_starts()
    named = re.search(r"rank-(\d{1,7})\.json", around.file)
    for _, value in json_values(text):
        if isinstance(value, list):
            sink.shared(Replays).take(value, f"rank {named[1]}" if named else sink.who or "this rank", around)
