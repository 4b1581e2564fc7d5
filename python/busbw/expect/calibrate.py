"""Fits the terms of one node to a sweep that was measured on it, so that more nodes of its kind can be predicted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from busbw.base.errors import UserError
from busbw.expect.bandwidth import algorithms, bus_bandwidth, channel_GBps
from busbw.expect.fabric import Fabric
from busbw.expect.links import LinkKind
from busbw.expect.model import channels_us, steps_of
from busbw.expect.question import Question
from busbw.expect.terms import Terms
from busbw.records import Case, Collective, Record
from busbw.records.bandwidth import bus_factor

MIN_POINTS = 8
Vector = tuple[float, ...]


@dataclass(frozen=True)
class Limits:
    """What NCCL does with short messages: none from transfers of `leave_us` on; one channel, `slower` than the table's
    bandwidth, until that takes `channel_us`, and no less from there on.
    """

    leave_us: float = math.inf
    slower: float = 1.0
    channel_us: float = 0.0


FREE = Limits()


@dataclass(frozen=True)
class Sweep:
    """Sizes and times of one collective on the GPUs of one node."""

    collective: Collective
    gpus: int
    points: tuple[tuple[int, float], ...]
    source: str


def sweep_of(record: Record, source: str, collective: Collective = "all_reduce") -> Sweep:
    """The sweep of that collective in a run of one node; UserError where it holds none that can be fitted."""
    cases = [case for case in record.cases if case.collective == collective and _usable(case)]
    ranks = {case.ranks for case in cases if case.ranks}
    if len(ranks) != 1:
        raise UserError(f"{source} holds no {collective} sweep on one number of ranks, so nothing can be fitted to it")
    if len({rank.host for rank in record.run.ranks}) > 1:
        raise UserError(
            f"{source} was measured on several hosts; a run on one node is what can be carried over to more"
        )
    points = tuple((case.bytes, case.time_us or 0.0) for case in cases)
    if len({size for size, _ in points}) < MIN_POINTS:
        raise UserError(
            f"{source} holds fewer than {MIN_POINTS} sizes; sweep from 8 bytes to 1 GiB or more: -b 8 -e 4G -f 2"
        )
    return Sweep(collective, ranks.pop(), points, source)


def _usable(case: Case) -> bool:
    return case.outcome == "measured" and bool(case.time_us) and case.bytes > 0


def calibrate(sweep: Sweep, fabric: Fabric, terms: Terms) -> Terms:
    """The terms with which the model follows the sweep best; what lies between nodes stays as it was.

    One number of GPUs cannot tell what is paid once from what is paid per hop: the part paid once is kept.
    """
    question = Question(sweep.collective, 1, sweep.gpus, multicast=False)
    (algorithm, *_) = algorithms(fabric, sweep.collective, sweep.gpus, 1, multicast=False)
    steps = steps_of(question, terms, algorithm).inside
    table = bus_bandwidth(fabric, sweep.collective, algorithm, sweep.gpus, 1).value
    factor = bus_factor(sweep.collective, sweep.gpus) or 1.0
    link = fabric.link(sweep.gpus)
    limits = FREE
    if link is LinkKind.NVLINK:
        limits = Limits(
            terms.inside[link].leave(steps) * fabric.counted_GBps() / table, table / channel_GBps(fabric),
            channels_us(replace(question, bytes=max(size for size, _ in sweep.points)), fabric, algorithm),
        )  # fmt: skip
    short, share, long, pipeline, scale = fit_curve(
        [(size * factor / (table * 1e3), time) for size, time in sweep.points], limits
    )
    base = min(terms.base_us, 0.7 * short)
    extra = min(terms.long_us, max(0.0, long - base))
    protocol = replace(
        terms.inside[link], hop_us=(short - base) / steps, share=share, pipeline=pipeline,
        long_hop_us=max(0.0, long - base - extra) / steps,
    )  # fmt: skip
    return replace(
        terms, base_us=base, long_us=extra, inside={**terms.inside, link: protocol}, bandwidth_scale=scale,
        spread=0.15, source=f"fitted to {sweep.source}", mid_share=0.0, chosen=False,
    )  # fmt: skip


def fit_curve(points: Sequence[tuple[float, float]], limits: Limits = FREE) -> Vector:
    """Latency and share of short messages, latency and pipeline of long ones, and the scale of the bandwidth.

    `points` are (transfer at the bandwidth of the table, measured time), both in microseconds; from transfers of
    `limits.leave_us` on there are long messages only.
    """
    ordered = sorted(points)
    least = min(time for _, time in points)
    transfer, time = ordered[-1]
    start = (math.log(least), math.log(0.3), math.log(2 * least), math.log(0.3), math.log(transfer / time))
    bounds = (
        (math.log(least / 2), math.log(least * 2)), (math.log(0.02), 0.0), (math.log(least), math.log(least * 50)),
        (math.log(0.01), math.log(1.2)), (math.log(transfer / time) - 0.1, math.log(transfer / time) + 0.15),
    )  # fmt: skip

    def loss(x: Vector) -> float:
        outside = sum(max(0.0, low - each, each - high) for each, (low, high) in zip(x, bounds, strict=True))
        errors = [abs(math.log(curve(x, transfer, limits) / time)) for transfer, time in points]
        # A sweep is followed as well as at its worst sizes: the sixth power; its root shows the simplex slopes.
        return math.pow(math.fsum(error**6 for error in errors) / len(errors), 1 / 6) + outside

    best = min((minimise(loss, _shifted(start, shift)) for shift in (0.0, 0.4, -0.4)), key=loss)
    clipped = (min(max(each, low), high) for each, (low, high) in zip(best, bounds, strict=True))
    return tuple(math.exp(each) for each in clipped)


def _shifted(start: Vector, by: float) -> Vector:
    return (start[0], start[1] + by, start[2] - by, start[3] + by, start[4])


def curve(x: Vector, transfer: float, limits: Limits = FREE) -> float:
    """The model's time for logarithms of its five terms."""
    short, share, long, pipeline, scale = (math.exp(each) for each in x)
    moved = transfer / scale
    simple = long + 2 * pipeline * math.sqrt(long * moved) + moved
    few = max(moved, min(transfer * limits.slower, limits.channel_us))
    return min(short + few / share, simple) if transfer <= limits.leave_us else simple


def minimise(function: Callable[[Vector], float], start: Vector, rounds: int = 1500) -> Vector:
    """Nelder and Mead's simplex: good enough for a handful of terms, and needs no numpy.

    Source: Nelder and Mead, "A simplex method for function minimization", The Computer Journal 1965.
    """
    size = len(start)
    corners = [start, *(tuple(v + 0.25 * (i == j) for j, v in enumerate(start)) for i in range(size))]
    simplex = sorted(((function(corner), corner) for corner in corners), key=lambda each: each[0])
    for _ in range(rounds):
        worst_value, worst = simplex[-1]
        if worst_value - simplex[0][0] < 1e-12:
            break
        centre = tuple(math.fsum(x[i] for _, x in simplex[:-1]) / size for i in range(size))

        def moved(by: float, centre: Vector = centre, worst: Vector = worst) -> tuple[float, Vector]:
            x = tuple(c + by * (c - w) for c, w in zip(centre, worst, strict=True))
            return function(x), x

        tried = moved(1.0)
        if tried[0] < simplex[0][0]:
            tried = min(tried, moved(2.0))
        elif tried[0] >= simplex[-2][0]:
            tried = moved(-0.5 if tried[0] >= worst_value else 0.5)
        if tried[0] < worst_value:
            simplex[-1] = tried
        else:
            best = simplex[0][1]
            simplex = [
                simplex[0],
                *((function(x), x) for x in (tuple((a + b) / 2 for a, b in zip(best, y, strict=True))
                                             for _, y in simplex[1:])),
            ]  # fmt: skip
        simplex.sort(key=lambda each: each[0])
    return simplex[0][1]
