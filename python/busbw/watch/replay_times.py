"""The times of a replay for other programs, as `busbw replay --times FILE` writes them: one JSON object.

`calls` has a line for each communicator, collective, count and type, with the median of all ranks in microseconds.
`rank_us` is the time in all calls of the rank that waits least: medians times their number, and groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any, cast

from busbw.records import Collective
from busbw.records.bandwidth import GB, bus_factor
from busbw.watch.recording import COLLECTIVES, TYPES, Shape
from busbw.watch.replay import Plan
from busbw.watch.replay_rank import parts_of

SCHEMA = 1


def times_of(plan: Plan, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of a replay that has ended; `results` are what its ranks wrote, in their order."""
    sizes = [max(rank.communicators[place][0] for rank in plan.ranks) for place in range(_places(plan))]
    keys = dict.fromkeys(key for result in results for key in result["times"])
    return {
        "schema": SCHEMA,
        "ranks": len(plan.ranks),
        "wrong": sum(result["wrong"] for result in results),
        "rank_us": min(
            _of_rank(rank.steps, result) for rank, result in zip(plan.ranks, results, strict=True) if rank.steps
        ),
        "calls": [_line(key, sizes, plan, results) for key in keys],
    }


def _places(plan: Plan) -> int:
    return min(len(rank.communicators) for rank in plan.ranks)


def _of_rank(steps: Sequence[Any], result: Mapping[str, Any]) -> float:
    """Microseconds in all calls of one rank; the samples are bounded, the calls are not."""
    parts = parts_of(list(steps))
    single = Counter(f"{part[0][1]} {part[0][2]} {part[0][3]} {part[0][4]}" for part in parts if not part[0][7])
    groups = sum(bool(part[0][7]) for part in parts)
    alone = sum(median(result["times"][key]) * number for key, number in single.items() if result["times"].get(key))
    return float(alone + (fmean(result["groups"]) * groups if result["groups"] else 0.0)) / 1000


def _line(key: str, sizes: Sequence[int], plan: Plan, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    place, kind, count, type_ = key.split()
    number = (int(place), kind, int(count), int(type_))
    ranks = sizes[number[0]]
    size = Shape(kind, number[2], TYPES[number[3]], "sum", None).bytes(ranks)
    before = [ns for rank in plan.ranks for ns in rank.recorded_ns.get(number, ())]
    after_us = median([ns for result in results for ns in result["times"].get(key, ())]) / 1000
    factor = bus_factor(cast(Collective, kind), ranks) if kind in COLLECTIVES else 1.0
    return {
        "collective": kind, "count": number[2], "type": TYPES[number[3]], "communicator": number[0], "ranks": ranks,
        "bytes": size, "recorded_us": median(before) / 1000 if before else None, "replayed_us": after_us,
        "busbw_GBps": size * (factor or 0.0) / max(after_us, 1e-3) / GB * 1e6,
    }  # fmt: skip
