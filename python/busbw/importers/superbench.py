"""superbench's results: one object a node, whose keys name benchmark, collective, size and figure."""

from __future__ import annotations

import re
from typing import Any

from busbw.base.effort import EFFORT
from busbw.importers.draft import Draft, Sink, is_enough
from busbw.importers.json_values import json_values
from busbw.importers.values import collective_named, number
from busbw.importers.work_limit import PER_CELLS
from busbw.records import Case, Collective, Library, Tool

FORMAT = "superbench results"
MAX_BYTES = 256 << 20
_KEY = re.compile(
    r"(?P<bench>(?:nccl|rccl|mscclpp?|ib)-?(?:bw|allreduce)?[\w.:-]{0,80})/(?P<name>all_?reduce|all_?gather|reduce_?scatter|all_?to_?all"
    r"|broadcast|reduce)(?:_(?P<serial>\d{1,6}_\d{1,6}):)?_?(?P<size>\d{1,18})_(?P<figure>time|algbw|busbw)(?::(?P<rank>\d{1,7}))?"
)
_FIELDS = {"time": "time_us", "algbw": "algbw_GBps", "busbw": "busbw_GBps"}


def looks_like(head: str) -> bool:
    """Whether a text begins as superbench's results do."""
    return head.lstrip()[:1] in "{[" and re.search(r'"[nr]ccl-bw[\w.:-]*/', head) is not None


def parse(text: str, sink: Sink) -> None:
    """One run for each node, benchmark and collective."""
    found = 0
    for line, value in json_values(text):
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, dict):
                found += _node(node, sink, line)
            if is_enough(sink):
                return
    if not found:
        sink.problem(1, "superbench's results without figures of collectives")


def _node(node: dict[str, Any], sink: Sink, line: int) -> int:
    runs: dict[tuple[str, str, str], dict[int, dict[str, float]]] = {}
    values = node.get("raw_data") if isinstance(node.get("raw_data"), dict) else node
    assert isinstance(values, dict)
    for key, value in values.items():
        match = _KEY.fullmatch(key) if len(key) < 300 else None
        figure = number(str(value[0] if isinstance(value, list) and value else value)[:40]) if match else None
        if match is None or figure is None:
            continue
        run = runs.setdefault((match["bench"], match["name"], match["serial"] or ""), {})
        run.setdefault(int(match["size"]), {})[_FIELDS[match["figure"]]] = figure
    for (bench, name, serial), sizes in runs.items():
        collective = collective_named(name)
        if collective is not None and not is_enough(sink):
            _run(node, (bench, serial), collective, sizes, sink, line)
    return len(runs)


def _run(  # noqa: PLR0913, PLR0917 - what a run is made of
    node: dict[str, Any],
    named: tuple[str, str],
    collective: Collective,
    sizes: dict[int, dict[str, float]],
    sink: Sink,
    line: int,
) -> None:
    around = sink.sweep_starts()
    host = str(node.get("node", ""))[:200]
    draft = Draft(
        FORMAT, Tool("superbench"), line, collective, library=Library("RCCL" if "rccl" in named[0] else "NCCL")
    )
    draft.options = {
        "benchmark": named[0],
        **({"node": host} if host else {}),
        **({"group": named[1]} if named[1] else {}),
    }
    for size, figures in sorted(sizes.items()):
        if draft.cases and is_enough(sink):
            break
        EFFORT.left -= PER_CELLS
        draft.cases.append(
            Case(
                run="",
                case=0,
                collective=collective,
                bytes=size,
                placement=None,
                outcome="measured",
                time_us=figures.get("time_us"),
                algbw_GBps=figures.get("algbw_GBps"),
                busbw_GBps=figures.get("busbw_GBps"),
            )
        )
        draft.rows += 1
        draft.content.append(f"{host} {named} {collective} {size} {figures}")
    draft.tags = (host,) if host else ()
    sink.sweep_ends(draft, around)
