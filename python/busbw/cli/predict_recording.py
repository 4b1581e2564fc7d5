"""`busbw predict step FOLDER`: the step of a recorded job, as it was and over other libraries, settings or machines."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.base.errors import UsageError, UserError
from busbw.base.words import Args

if TYPE_CHECKING:
    from busbw.expect.fabric import Fabric
    from busbw.expect.terms import Terms
    from busbw.watch.steps import Op, RecordedStep

MOST_RANKS = 1024
_EXPLAINED = 0.8
Row = dict[str, float | str]
UsOf = Callable[["Op"], "float | None"]
"""What a call takes there; None where nothing is known of it."""


def is_recorded(path: Path) -> bool:
    """Whether the word names recordings rather than a file of layers."""
    return path.is_dir() or path.suffix == ".busbwrec"


def run(path: Path, args: Args, fabric_of: Callable[[], Fabric], terms_of: Callable[[Fabric], Terms]) -> int:
    """Find the step, then print a line for it as recorded and one for each other place."""
    from busbw.watch.recording import Recording, find
    from busbw.watch.steps import step_of

    if args.parallel:
        raise UsageError("--parallel is for a file of layers; a recording says itself what was called")
    paths = find(path) if path.is_dir() else [path]
    if not paths:
        raise UserError(f"{path} holds no recording (*.busbwrec); `busbw watch --output {path}` makes them")
    if len(paths) > MOST_RANKS:
        raise UserError(f"{path} holds {len(paths):,} recordings; {MOST_RANKS:,} ranks can be predicted together")
    with ExitStack() as opened:
        step = step_of([opened.enter_context(Recording(each)) for each in paths])
    rows, notes = [_row(step, "as recorded", None)], list(step.notes)
    explained = _steady(step, lambda op: op.us) / step.step_us if step.step_us else 1.0
    if explained < _EXPLAINED:
        notes.append(f"work and calls explain {explained:.0%} of the recorded step; the rest stays, as where ranks "
                     "wait for a processor")  # fmt: skip
    for label, us_of in _places(step, args, fabric_of, terms_of):
        kept = {f"{op.kind} on {op.ranks} ranks" for ops in step.ranks for op in ops
                if op.kind != "group" and us_of(op) is None}  # fmt: skip
        if kept:
            notes.append(f"{label}: {', '.join(sorted(kept))} stay as recorded, since nothing is known of them there")
        rows.append(_row(step, label, us_of))
    if args.json:
        print(json.dumps({"ranks": len(step.ranks), "calls": len(step.ranks[0]), "steps": step.steps,
                          "step_us": step.step_us, "rows": rows, "notes": notes}, indent=1))  # fmt: skip
    else:
        print("\n".join(_lines(step, rows)))
        for note in notes:
            print(f"note: {note}")
    return 0


def _places(
    step: RecordedStep, args: Args, fabric_of: Callable[[], Fabric], terms_of: Callable[[Fabric], Terms]
) -> list[tuple[str, UsOf]]:
    if args.times:
        return [(f"with the times of {args.times}", _measured(args))]
    if not (args.machine or args.topology):
        return []
    fabric = fabric_of()
    terms = terms_of(fabric)
    found = []
    ranks = len(step.ranks)
    for nodes in args.nodes:
        most = args.gpus_per_node or fabric.gpus
        gpus = min(most, ranks) if nodes == 1 else -(-ranks // nodes)
        if gpus > most:
            raise UsageError(f"{ranks} ranks do not fit on {nodes} x {most} GPUs; say more --nodes")
        found.append((f"{-(-ranks // gpus)} x {gpus}", _modelled(fabric, terms, gpus, multicast=not args.no_nvls)))
    return found


def _measured(args: Args) -> UsOf:
    """Times of a kept run: for each collective and number of ranks a straight line between sizes."""
    from busbw.cli.predict_mixed import tables

    measured = tables(args)

    def us_of(op: Op) -> float | None:
        with suppress(KeyError):
            return measured(op.ranks)(op.kind, op.bytes)
        return None

    return us_of


def _modelled(fabric: Fabric, terms: Terms, gpus: int, *, multicast: bool) -> UsOf:
    """The model's times; ranks lie on nodes in their order."""
    from typing import get_args

    from busbw.expect.model import predict
    from busbw.expect.question import Question
    from busbw.records import Collective

    def us_of(op: Op) -> float | None:
        if op.kind not in get_args(Collective):
            return None
        nodes = len({member // gpus for member in op.members})
        ranks = 2 if op.kind == "sendrecv" else op.ranks
        if ranks < 2:
            return None
        question = Question(op.kind, max(op.bytes, 1), -(-ranks // nodes), nodes, multicast)  # type: ignore[arg-type]
        return predict(question, fabric, terms).time_us.value

    return us_of


def _row(step: RecordedStep, label: str, us_of: UsOf | None) -> Row:
    """The recorded step; of others what the model says, and what it does not explain of the recorded one."""
    recorded = _steady(step, lambda op: op.us)
    known = us_of or (lambda op: op.us)
    rest = step.step_us - recorded

    def new(op: Op) -> float:
        us = known(op)
        return op.us if us is None or op.kind == "group" else us

    whole = max(0.0, _steady(step, new) + rest)
    count = len(step.ranks)
    work = sum(op.work_us for ops in step.ranks for op in ops) / count
    calls = sum(new(op) for ops in step.ranks for op in ops) / count
    row: Row = {
        "label": label,
        "step_us": whole,
        "work_us": work,
        "calls_us": calls,
        "exposed_us": max(0.0, whole - work),
    }
    if not step.is_exact and us_of is not None:
        # Nobody recorded the work beside a call: as much of it as the call took may have been there.
        row["most_us"] = _steady(step, lambda op: max(op.us, new(op))) + rest
    return row


def _steady(step: RecordedStep, us_of: Callable[[Op], float]) -> float:
    from busbw.expect.together import Meeting, steady_us

    try:
        return steady_us([
            [Meeting(op.work_us, us_of(op), (number, at) if op.kind == "group" else op.channel,
                     1 if op.kind == "group" else len(op.members)) for at, op in enumerate(ops)]
            for number, ops in enumerate(step.ranks)
        ])  # fmt: skip
    except ValueError:
        raise UserError("the recorded ranks do not meet in their calls: is the recording of a whole job?") from None


def _lines(step: RecordedStep, rows: list[Row]) -> list[str]:
    from busbw.analysis.units import format_us
    from busbw.base.text import columns

    head = (f"{len(step.ranks)} ranks repeat a step of {len(step.ranks[0])} calls; {step.steps} of them count, "
            f"{format_us(step.step_us)} each")  # fmt: skip
    cells = []
    for row in rows:
        times = [float(row[name]) for name in ("step_us", "work_us", "calls_us", "exposed_us")]
        most = f"at most {format_us(float(row['most_us']))}" if "most_us" in row else ""
        cells.append(
            [str(row["label"]), *map(format_us, times), f"{times[3] / times[0]:.1%}" if times[0] else "-", most]
        )
    heads = ["place", "step", "work", "calls", "exposed", "exposed share", ""]
    return [head, "", *columns(heads, cells, left=(0,))]
