"""PyTorch's flight recorder as JSON: the last collectives of a process, with times where those were taken."""

from __future__ import annotations

import json
from math import prod
from typing import Any

from busbw.importers.draft import Draft, Sink
from busbw.importers.json_values import json_values, whole_number
from busbw.importers.samples_of_calls import Call, Calls
from busbw.importers.torch_names import ELEMENT, torch_collective, torch_type
from busbw.importers.values import number
from busbw.records import Library, Tool

FORMAT = "PyTorch flight recorder"
MAX_BYTES = 256 << 20
MAX_CONTENT = 20_000


def looks_like(head: str) -> bool:
    """Whether a text begins as a dump of the flight recorder."""
    return head.lstrip()[:1] == "{" and ('"pg_config"' in head or '"collective_seq_id"' in head)


class Dumps:
    """The entries of all processes that one import reads."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._calls = Calls()
        self._untimed = self._other = 0
        self._content: list[str] = []
        self._version: str | None = None

    def take(self, raw: dict[str, Any], who: str) -> None:
        """The dump of one process."""
        version = raw.get("nccl_version")
        self._version = version if isinstance(version, str) and len(version) < 40 else self._version
        groups = {name: size for name, size in map(_group, _items(raw.get("pg_config"))) if size}
        for entry in raw["entries"]:
            if not isinstance(entry, dict):
                continue
            call, time = _call(entry, groups), number(str(entry.get("duration_ms"))[:40])
            if call is None:
                self._other += 1
            elif time is None or time <= 0:
                self._untimed += 1
            else:
                self._calls.add(call, who, time * 1000)
                if len(self._content) < MAX_CONTENT:
                    self._content.append(f"{who} {call} {time}")

    def close(self) -> None:
        """All dumps are read."""
        if not len(self._calls):
            why = f"with {self._untimed} collectives, no times: set TORCH_NCCL_ENABLE_TIMING=1"
            self._sink.problem(None, f"PyTorch's flight recorder {why if self._untimed else 'without collectives'}")
            return
        notes = ["times are those of a running job: they hold the wait for ranks that came later"]
        notes += [f"{self._untimed} collectives without a time are left out"] if self._untimed else []
        notes += [f"{self._other} sends, receives and other entries are left out"] if self._other else []
        notes += self._calls.slow_ranks()
        around = self._sink.sweep_starts()
        for ranks, cases in self._calls.by_ranks():
            draft = Draft(FORMAT, Tool("PyTorch flight recorder"), 1, cases[0].collective, cases=cases, rows=len(cases))
            draft.size, draft.notes = ranks, list(notes)
            draft.library = Library("NCCL", version=self._version)
            draft.content = [f"{ranks}", *self._content]
            self._sink.sweep_ends(draft, around)


def parse(text: str, sink: Sink) -> None:
    """The entries of one process; the collector ends with the file or folder."""
    raw = next((value for _, value in json_values(text)), None)
    if not isinstance(raw, dict) or not isinstance(raw.get("entries"), list):
        sink.problem(1, "starts like a dump of PyTorch's flight recorder, but holds no entries")
        return
    sink.shared(Dumps).take(raw, sink.who or "this rank")


def _items(groups: Any) -> list[tuple[str, Any]]:
    return list(groups.items())[:100_000] if isinstance(groups, dict) else []


def _group(item: tuple[str, Any]) -> tuple[str, int | None]:
    """(name, how many ranks it has)."""
    name, config = item
    ranks = config.get("ranks") if isinstance(config, dict) else None
    if isinstance(ranks, str) and len(ranks) < 1 << 20:
        try:
            ranks = json.loads(ranks)
        except (ValueError, RecursionError):
            ranks = None
    return name, len(ranks) if isinstance(ranks, list) and ranks else None


def _call(entry: dict[str, Any], groups: dict[str, int]) -> Call | None:
    collective = torch_collective(str(entry.get("profiling_name"))[:80])
    types = entry.get("input_dtypes")
    dtype = torch_type(str(types[0])[:40]) if isinstance(types, list) and types else None
    sent, received = _elements(entry.get("input_sizes")), _elements(entry.get("output_sizes"))
    if collective is None or dtype is None or sent is None or entry.get("is_p2p") is True:
        return None
    group = entry.get("process_group")
    name = str(group[0]) if isinstance(group, list) and group else str(entry.get("pg_id"))
    ranks = groups.get(name)
    count = sent
    if collective in ("all_gather", "gather"):
        count = sent * ranks if ranks else max(sent, received or 0)
    return Call(collective, count * ELEMENT[dtype], dtype, ranks)


def _elements(shapes: Any) -> int | None:
    """Elements of all tensors; None where the shapes are not plain."""
    if not isinstance(shapes, list) or not shapes or len(shapes) > 100_000:
        return None
    total = 0
    for shape in shapes:
        if not isinstance(shape, list) or len(shape) > 20 or any(whole_number(each) is None for each in shape):
            return None
        total += prod(shape)
    return total if total < 1 << 50 else None
