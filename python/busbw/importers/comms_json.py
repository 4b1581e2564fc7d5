"""DeepSpeed's communication statistics in JSON, as its log_all returns them: exact sizes, and the ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from busbw.base.effort import EFFORT
from busbw.base.secrets import shortened
from busbw.importers.draft import Draft, Sink, is_enough
from busbw.importers.json_values import json_values, whole_number
from busbw.importers.tool_table import OpenTable, bandwidths, op_of_collective
from busbw.importers.torch_names import torch_collective
from busbw.importers.values import number
from busbw.importers.work_limit import PER_CELLS
from busbw.records import Case, Collective, Tool
from busbw.records.bandwidth import GBps_from_Gbps, bus_factor

FORMAT = "DeepSpeed communication statistics (JSON)"
MAX_BYTES = 64 << 20
_TIMES_RANKS = frozenset({"all_gather", "reduce_scatter"})
"""DeepSpeed counts one rank's part of these."""


def looks_like(head: str) -> bool:
    """Whether a text begins as such a dictionary."""
    return head.lstrip()[:1] == "{" and '"tput_avg_gbps"' in head and '"avg_latency_ms"' in head


def parse(text: str, sink: Sink) -> None:
    """One run for each operation."""
    for line, value in json_values(text):
        summary = value.get("summary") if isinstance(value, dict) else None
        if not isinstance(summary, dict):
            sink.problem(line, "starts like DeepSpeed's communication statistics, but holds no summary")
            continue
        about = value.get("metadata")
        ranks = whole_number(about.get("world_size")) if isinstance(about, dict) else None
        for name, sizes in summary.items():
            collective = torch_collective(str(name)[:60])
            if collective is None or not isinstance(sizes, dict):
                sink.problem(line, f"DeepSpeed's {str(name)[:60]}, which busbw has no collective for")
                continue
            _run(sink, line, collective, sizes, ranks if ranks and ranks < 1 << 24 else None)
            if is_enough(sink):
                return


def _run(sink: Sink, line: int, collective: Collective, sizes: Mapping[str, Any], ranks: int | None) -> None:
    table = OpenTable(sink)
    table.open(Draft(FORMAT, Tool("DeepSpeed communication logger"), line, collective, size=ranks), sink.sweep_starts())
    for at, raw in enumerate(list(sizes.values())[:20_000]):
        if at and is_enough(sink):
            break
        EFFORT.left -= PER_CELLS
        if not isinstance(raw, dict):
            continue
        size, milliseconds = whole_number(raw.get("msg_size_bytes")), number(str(raw.get("avg_latency_ms"))[:40])
        if size is None or milliseconds is None or milliseconds <= 0:
            sink.problem(line, f"an entry of DeepSpeed's statistics that cannot be read: {shortened(str(raw), 80)!r}")
            continue
        size *= (ranks or 1) if collective in _TIMES_RANKS else 1
        algbw, busbw = bandwidths(collective, size, milliseconds * 1000, ranks)
        printed, factor = number(str(raw.get("busbw_avg_gbps"))[:40]), bus_factor(collective, ranks) if ranks else None
        if printed is not None and factor:
            # The mean of each call's bandwidth, without outliers; the mean time gives another figure.
            busbw = round(GBps_from_Gbps(printed), 6)
            algbw = round(busbw / factor, 6)
        table.add(
            Case(
                run="", case=0, collective=collective, bytes=size, placement=None, outcome="measured",
                time_us=milliseconds * 1000, algbw_GBps=algbw, busbw_GBps=busbw, op=op_of_collective(collective),
                iterations=whole_number(raw.get("count")), average="rank0", conversion="Gbps by 8",
            ),
            str(raw)[:300],
        )  # fmt: skip
    table.close()
