"""Steps that are spread in several ways at once: the times of each group's calls, from a run or from the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from busbw.base.errors import UsageError, UserError
from busbw.base.words import Args

if TYPE_CHECKING:
    from busbw.expect.fabric import Fabric
    from busbw.expect.schedule import Slowdown
    from busbw.expect.spread import Spread
    from busbw.expect.step import Predicted, Step, TimeOf
    from busbw.expect.terms import Terms


def tables(args: Args) -> Callable[[int], TimeOf]:
    """The times of --times by number of ranks; a message goes between two, however many there are."""
    from busbw.cli.sources import resolve
    from busbw.expect.step import table_times

    points: dict[int, list[tuple[str, int, float]]] = {}
    for each in resolve([args.times], args.runs):
        for case in each.record.cases:
            if case.outcome == "measured" and case.time_us and case.placement != "in_place":
                ranks = case.ranks or len(each.record.run.ranks)
                points.setdefault(ranks, []).append((case.collective, case.bytes, case.time_us))
    known: dict[int, TimeOf] = {ranks: table_times(some) for ranks, some in points.items()}

    def of(ranks: int) -> TimeOf:
        def time_of(name: str, size: int) -> float:
            for each in (2, *sorted(known)) if name == "sendrecv" else (ranks,):
                if each in known and name in {called for called, _, _ in points[each]}:
                    return known[each](name, size)
            raise KeyError(f"{name} on {ranks} ranks")

        return time_of

    return of


def predictions(
    step: Step, slowdown: Slowdown, args: Args, fabric_of: Callable[[], Fabric], terms_of: Callable[[Fabric], Terms]
) -> list[tuple[str, Predicted]]:
    """One for each number of nodes, or one with the times of a run."""
    from busbw.expect.mixed import predict
    from busbw.expect.spread import groups_of

    spread = step.spread
    assert spread is not None
    if args.times:
        if spread.dp is None:
            raise UserError("the step says no dp, and --times no number of nodes: write dp = 1 or more into [step]")
        whole = spread.tp * spread.pp * spread.dp
        measured = tables(args)
        times = {group: measured(spread.ranks_of(group)) for group in groups_of(_on(spread, whole))}
        return [(f"{whole} ranks as measured", predict(step, spread, times, slowdown))]
    fabric = fabric_of()
    terms = terms_of(fabric)
    gpus = fabric.gpus if args.gpus_per_node is None else args.gpus_per_node
    found = []
    for nodes in args.nodes:
        there = _on(spread, nodes * gpus)
        times = {group: _model(fabric, terms, there.shape_of(group, gpus), multicast=not args.no_nvls)
                 for group in groups_of(there)}  # fmt: skip
        found.append((f"{nodes} x {gpus}", predict(step, there, times, slowdown)))
    return found


def _on(spread: Spread, ranks: int) -> Spread:
    try:
        return spread.on(ranks)
    except ValueError as problem:
        raise UsageError(f"{problem}; docs/reference/predict.md describes the file of a step") from None


def _model(fabric: Fabric, terms: Terms, shape: tuple[int, int], *, multicast: bool) -> TimeOf:
    from busbw.expect.model import predict
    from busbw.expect.question import Question

    def time_of(name: str, size: int) -> float:
        question = Question(name, size, *shape, multicast)  # type: ignore[arg-type]
        return predict(question, fabric, terms).time_us.value

    return time_of
