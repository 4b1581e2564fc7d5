"""Traces of PyTorch's profiler (Kineto): NCCL's kernels with what their arguments say of the collective."""

from __future__ import annotations

import re
from typing import Any

from busbw.base.effort import EFFORT
from busbw.importers.context import Surroundings
from busbw.importers.draft import Draft, Sink
from busbw.importers.json_values import DECODER, whole_number
from busbw.importers.samples_of_calls import Call, Calls
from busbw.importers.torch_names import ELEMENT, torch_collective, torch_type
from busbw.importers.values import number
from busbw.importers.work_limit import PER_CELLS
from busbw.records import Collective, Library, Tool

FORMAT = "PyTorch profiler trace"
MAX_BYTES = 1 << 30
_KEY = '"Collective name"'
_NCCL_KERNEL = re.compile(r'"name"\s*:\s*"nccl(?:Dev)?Kernel')
_VERSION = re.compile(r'"nccl_version"\s*:\s*"([\d.]{1,20})')
_RANK = re.compile(r'"distributedInfo"\s*:\s*\{[^{}]{0,400}?"rank"\s*:\s*(\d{1,7})')
_GPU = re.compile(r'"deviceProperties"\s*:\s*\[\s*\{[^{}]{0,400}?"name"\s*:\s*"([^"]{1,100})"')


def looks_like(head: str) -> bool:
    """Whether a text begins as a trace does."""
    start = head.lstrip()[:1]
    known = '"traceEvents"' in head or '"deviceProperties"' in head or '"distributedInfo"' in head
    return start == "{" and known and '"entries"' not in head[:2000]


class Traces:
    """The kernels of all traces that one import reads."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._calls = Calls()
        self._around: Surroundings | None = None
        self._content: list[str] = []
        self._version: str | None = None
        self._sends = 0
        self._gpu: str | None = None

    def take(self, text: str) -> None:
        """One trace."""
        version, rank, gpu = _VERSION.search(text), _RANK.search(text), _GPU.search(text)
        self._version = version[1] if version else self._version
        self._gpu = gpu[1] if gpu else self._gpu
        who = f"rank {rank[1]}" if rank else f"trace {len(self._content)}"
        before = len(self._calls) + self._sends
        at = text.find(_KEY)
        while at >= 0:
            EFFORT.left -= PER_CELLS
            if EFFORT.is_spent:
                self._sink.stops_before(None)
                break
            event, end = _event_around(text, at)
            if event is not None and event.get("cat") == "kernel":
                self._kernel(event, who)
            at = text.find(_KEY, max(end, at + len(_KEY)))
        if before == len(self._calls) + self._sends and self._around is None:
            kernels = len(_NCCL_KERNEL.findall(text))
            why = (
                f"{kernels} kernels of NCCL without arguments: profile with PyTorch 2.4 or later"
                if kernels
                else ("no kernel of NCCL: profile with ProfilerActivity.CUDA on a GPU")
            )
            self._sink.problem(None, f"a trace of PyTorch's profiler with {why}")

    def _kernel(self, event: dict[str, Any], who: str) -> None:
        arguments = event["args"]
        name = str(arguments.get("Collective name"))[:80]
        collective = torch_collective(name)
        sizes = [whole_number(arguments.get(key)) for key in ("In msg nelems", "Out msg nelems")]
        ranks, time = whole_number(arguments.get("Group size")), number(str(event.get("dur"))[:40])
        dtype = torch_type(str(arguments.get("dtype"))[:40])
        if collective is None or dtype is None or None in sizes or not ranks or ranks > 1 << 24 or not time or time < 0:
            self._sends += name in ("send", "recv")
            return
        if self._around is None:
            self._around = self._sink.sweep_starts()
        count = _whole_count(collective, sizes[0] or 0, sizes[1] or 0)
        self._calls.add(Call(collective, count * ELEMENT[dtype], dtype, ranks), who, time)
        if len(self._content) < 20_000:
            self._content.append(f"{who} {name} {count} {dtype} {time}")

    def close(self) -> None:
        """All traces are read."""
        around = self._around
        if around is None:
            return
        notes = [
            "times are of NCCL's kernels in a running job: they hold the wait for later ranks and ran beside compute; "
            "how far they overlap is left out",
            *self._calls.slow_ranks(),
        ]
        if self._sends:
            notes.append(f"{self._sends} sends and receives are left out: busbw compares collectives")
        for ranks, cases in self._calls.by_ranks():
            draft = Draft(
                FORMAT,
                Tool("PyTorch profiler"),
                1,
                cases[0].collective,
                cases=cases,
                rows=len(cases),
                size=ranks,
                library=Library("NCCL", version=self._version),
                notes=list(notes),
            )
            draft.content = [f"{ranks}", *self._content]
            if self._gpu:
                draft.options = {"gpu": self._gpu}
            self._sink.sweep_ends(draft, around)
        self._around = None


def _whole_count(collective: Collective, sent: int, received: int) -> int:
    """Elements that nccl-tests' size counts: the larger side of a gather or scatter."""
    return (
        max(sent, received) if collective in ("all_gather", "reduce_scatter", "gather", "scatter") else sent or received
    )


def _event_around(text: str, at: int) -> tuple[dict[str, Any] | None, int]:
    """(the event whose arguments hold the key at `at`, where it ends)."""
    arguments = text.rfind("{", max(0, at - 20_000), at)
    start = text.rfind("{", max(0, arguments - 20_000), arguments) if arguments > 0 else -1
    if start < 0:
        return None, at
    try:
        event, end = DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None, at
    if not isinstance(event, dict) or not isinstance(event.get("args"), dict):
        return None, at
    return event, end


def parse(text: str, sink: Sink) -> None:
    """Hand the trace to the collector, which ends with the file or folder."""
    sink.shared(Traces).take(text)
