"""The levels of a fleet as records, so that they stand among the kept runs and `busbw history` has them over time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from busbw import __version__
from busbw.base.secrets import hide_variable
from busbw.base.text import clean
from busbw.fleet.fabric import Fabric
from busbw.fleet.level import levels
from busbw.fleet.results import Results
from busbw.fleet.trial import ACROSS, INSIDE, WITHIN
from busbw.fleet.verdict import Verdict
from busbw.fleet.words import Launching, compressed
from busbw.records import Case, End, Record, Run, Tool

TOOL = "busbw fleet"
MOST_NAME = 100
MOST_NOTES = 100
_WHERE = {INSIDE: "inside", WITHIN: "within racks", ACROSS: "across racks"}


def records(fabric: Fabric, results: Results, verdicts: Sequence[Verdict], how: Launching, run_id: str) -> list[Record]:
    """One for each kind of group: what is usual among peers, as the time of an all-reduce of that size.

    Bandwidths are bus bandwidths; an all-reduce over n ranks takes 2 (n - 1) / n of its size over that.
    """
    by: dict[str, dict[int, float]] = {}
    for (kind, channel, size), level in levels(results).items():
        if channel == "latency":
            continue  # messages a second are no bandwidths
        ranks = how.gpus_per_node if kind == INSIDE else 2**size
        by.setdefault(f"{channel} {_WHERE[kind]}", {})[max(2, ranks)] = level.gbps
    shown = {name: hide_variable(name, value) for name, value in how.environment.items()}
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    notes = tuple(clean(f"{v.name} slow by {100 * v.loss:.1f} %") for v in verdicts[:MOST_NOTES])
    found = []
    for what, of_ranks in sorted(by.items()):
        name = f"{run_id}-{what.replace(' ', '-')}"
        run = Run(name, now, Tool(TOOL, __version__), None, environment=shown, launcher=how.launcher,
                  machine=f"{name_of(fabric)}, {what}", tags=("fleet",), notes=notes)  # fmt: skip
        cases = tuple(
            _case(name, number, ranks, gbps, how.size) for number, (ranks, gbps) in enumerate(sorted(of_ranks.items()))
        )
        found.append(Record(run, cases, End(name, "completed", len(cases), finished=now)))
    return found


def name_of(fabric: Fabric) -> str:
    """The nodes, in short: the same for the same fleet."""
    short = compressed(fabric.nodes)
    if len(short) <= MOST_NAME:
        return clean(short)
    return clean(f"{fabric.nodes[0][:40]} to {fabric.nodes[-1][:40]}, {len(fabric.nodes)} nodes")


def _case(name: str, number: int, ranks: int, gbps: float, size: int) -> Case:
    alone = gbps * ranks / (2 * (ranks - 1))
    return Case(name, number, "all_reduce", size, "out_of_place", "measured", size / alone / 1e3, alone, gbps,
                ranks=ranks)  # fmt: skip
