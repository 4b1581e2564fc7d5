"""`busbw predict step FILE`: time per step and exposed communication, from layers and times of collectives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.base.errors import UsageError, UserError
from busbw.base.words import Args

if TYPE_CHECKING:
    from busbw.expect.fabric import Fabric
    from busbw.expect.step import Predicted, TimeOf
    from busbw.expect.terms import Terms


def run(args: Args, fabric_of: Callable[[], Fabric], terms_of: Callable[[Fabric], Terms]) -> int:
    """Read the layers, take times of collectives from a run or the model, print one line for each number of nodes."""
    from busbw.expect.step import predict
    from busbw.expect.step_file import read_step

    if len(args.collective) != 2:
        raise UsageError("say one file of layers, or a folder of recordings: busbw predict step FILE; "
                         "docs/reference/predict.md describes both")  # fmt: skip
    from busbw.cli.predict_recording import is_recorded
    from busbw.cli.predict_recording import run as run_recording

    if is_recorded(path := Path(args.collective[1])):
        return run_recording(path, args, fabric_of, terms_of)
    step, slowdown = read_step(path, args.parallel)
    found: list[tuple[str, Predicted]] = []
    try:
        if step.spread is not None:
            from busbw.cli.predict_mixed import predictions

            found = predictions(step, slowdown, args, fabric_of, terms_of)
        else:
            for label, time_of in _times(args, fabric_of, terms_of):
                found.append((label, predict(step, time_of, slowdown)))
    except KeyError as missing:
        raise UserError(f"--times {args.times} holds no {missing.args[0]}, which a step of {step.kind} calls") from None
    if args.json:
        print(
            json.dumps([{"ranks": label, "parallel": step.kind, **_as_json(each)} for label, each in found], indent=1)
        )
    else:
        print("\n".join(_lines(step.kind, found)))
    return 0


def _times(
    args: Args, fabric_of: Callable[[], Fabric], terms_of: Callable[[Fabric], Terms]
) -> list[tuple[str, TimeOf]]:
    from busbw.expect.step import table_times

    if args.times:
        from busbw.cli.sources import resolve

        points, ranks = [], 0
        for each in resolve([args.times], args.runs):
            ranks = max(ranks, len(each.record.run.ranks))
            points += [
                (case.collective, case.bytes, case.time_us) for case in each.record.cases
                if case.outcome == "measured" and case.time_us and case.placement != "in_place"
            ]  # fmt: skip
        return [(f"{ranks} ranks as measured", table_times(points))]
    fabric = fabric_of()
    terms = terms_of(fabric)
    gpus = fabric.gpus if args.gpus_per_node is None else args.gpus_per_node
    return [
        (f"{nodes} x {gpus}", _model(fabric, terms, gpus, nodes, multicast=not args.no_nvls)) for nodes in args.nodes
    ]


def _model(fabric: Fabric, terms: Terms, gpus: int, nodes: int, *, multicast: bool) -> TimeOf:
    from busbw.expect.model import predict
    from busbw.expect.question import Question

    def time_of(name: str, size: int) -> float:
        question = Question(name, size, gpus, nodes, multicast)  # type: ignore[arg-type]
        return predict(question, fabric, terms).time_us.value

    return time_of


def _as_json(each: Predicted) -> dict[str, float]:
    return {"step_us": each.step_us, "work_us": each.work_us, "calls_us": each.calls_us,
            "exposed_us": each.exposed_us, "bubble_us": each.bubble_us}  # fmt: skip


def _lines(kind: str, found: list[tuple[str, Predicted]]) -> list[str]:
    from busbw.analysis.units import format_us
    from busbw.base.text import columns

    rows = []
    for label, one in found:
        times = (one.step_us, one.work_us, one.calls_us, one.exposed_us, one.bubble_us)
        share = f"{one.exposed_us / one.step_us:.1%}" if one.step_us else "-"
        rows.append([label, kind, *map(format_us, times), share])
    heads = ["nodes x GPUs", "parallel", "step", "work", "calls", "exposed", "bubble", "exposed share"]
    return columns(heads, rows, left=(0, 1))
