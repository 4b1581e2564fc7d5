"""A step of several ranks that wait for each other in their calls: what it takes, repeated until it is steady."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

CYCLES = 6


@dataclass(frozen=True)
class Meeting:
    """Work of a rank, and the call behind it, which begins when all `parties` have come and then takes `us`.

    The nth meeting of a channel is the nth of each of its ranks.
    """

    work_us: float
    us: float
    channel: Hashable
    parties: int = 1


def steady_us(ranks: Sequence[Sequence[Meeting]], cycles: int = CYCLES) -> float:
    """Microseconds from one step to the next. ValueError where ranks wait for each other for ever."""
    now = [0.0] * len(ranks)
    place = [0] * len(ranks)
    ends: list[list[float]] = [[] for _ in ranks]
    met: list[dict[Hashable, int]] = [{} for _ in ranks]
    waiting: dict[tuple[Hashable, int], list[tuple[int, float]]] = {}
    runs = [number for number, ops in enumerate(ranks) if ops]
    left = list(runs)
    while left:
        number = left.pop()
        while place[number] < cycles * len(ranks[number]):
            op = ranks[number][place[number] % len(ranks[number])]
            came = now[number] + op.work_us
            turn = met[number][op.channel] = met[number].get(op.channel, 0) + 1
            here = waiting.setdefault((op.channel, turn), [])
            here.append((number, came))
            if len(here) < op.parties:
                break
            end = max(when for _, when in waiting.pop((op.channel, turn))) + op.us
            for other, _ in here:
                now[other] = end
                place[other] += 1
                if place[other] % len(ranks[other]) == 0:
                    ends[other].append(end)
                if other != number:
                    left.append(other)
    if any(len(ends[number]) < cycles for number in runs):
        raise ValueError("ranks wait for each other for ever")
    half = cycles // 2
    steps = [max(ends[number][at] for number in runs) for at in (half - 1, cycles - 1)] if runs else [0.0, 0.0]
    return (steps[1] - steps[0]) / (cycles - half)
