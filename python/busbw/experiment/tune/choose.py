"""From times to rules: the best candidate of each size, the simplest of those that noise cannot tell apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw.experiment.trial import Point
from busbw.experiment.tune.candidates import COPY, NCCL
from busbw.experiment.tune.measure import Collected
from busbw.experiment.tune.table import Rule


@dataclass(frozen=True)
class Crossing:
    """One algorithm for neighbouring sizes: by size, its time and NCCL's in microseconds.

    `unsure` are the sizes at which another may be better, for all that is known.
    """

    use: str
    times: Mapping[int, tuple[float, float]]
    unsure: frozenset[int] = frozenset()

    @property
    def gains(self) -> tuple[float, float]:
        """Least and largest speed over NCCL's."""
        ratios = [nccl / own for own, nccl in self.times.values()]
        return min(ratios), max(ratios)


def crossings(collected: Collected) -> list[Crossing]:
    """Neighbouring sizes with one choice are one crossing.

    Of the candidates that any call can take; `copies` says from which size on calls into windows go another way. The
    choice of the next smaller size goes on where it is as good as the best, else the simplest that is: fewer and
    plainer rules.
    """
    found: list[Crossing] = []
    board, uses = collected.board, collected.uses
    for point in board.points:
        among = [variant for variant in board.at(point) if uses[variant] != COPY]
        good = [uses[variant] for variant in board.good(point, among)]
        use = found[-1].use if found and found[-1].use in good else good[0]
        times = {point.bytes: (collected.us(use, point), collected.us(NCCL, point))}
        unsure = frozenset({point.bytes} if set(board.open(point)) & set(among) else ())
        if found and found[-1].use == use:
            found[-1] = Crossing(use, {**found[-1].times, **times}, found[-1].unsure | unsure)
        else:
            found.append(Crossing(use, times, unsure))
    return found


def copies(collected: Collected, found: Sequence[Crossing]) -> Crossing | None:
    """The sizes, up to the largest, at which copy engines are faster than the choice without a window."""
    if COPY not in collected.uses:
        return None
    chosen = {size: each.use for each in found for size in each.times}
    faster: dict[int, tuple[float, float]] = {}
    for point in sorted(collected.board.points, reverse=True):
        if not _faster(collected, COPY, chosen[point.bytes], point):
            break
        faster[point.bytes] = (collected.us(COPY, point), collected.us(NCCL, point))
    return Crossing(COPY, faster) if faster else None


def _faster(collected: Collected, one: str, other: str, point: Point) -> bool:
    board, variant, against = collected.board, collected.uses.index(one), collected.uses.index(other)
    return variant in board.at(point) and against not in board.good(point, [against, variant])


def copies_begin(into_windows: Crossing, found: Sequence[Crossing]) -> int:
    """The geometric mean of the first size that copy engines get and the one measured below it."""
    least = min(into_windows.times)
    return math.isqrt(least * max((size for each in found for size in each.times if size < least), default=0))


def rules_of(collective: str, found: Sequence[Crossing], ranks: int, types: tuple[str, ...], gpu: str) -> list[Rule]:
    """A rule per crossing; between two measured sizes the geometric mean divides, beyond the largest there is none."""
    rules = []
    first = 0
    for i, each in enumerate(found):
        largest = max(each.times)
        last = math.isqrt(largest * min(found[i + 1].times)) if i + 1 < len(found) else largest
        rules.append(Rule(collective, each.use, ranks, types, first, last, gpu))
        first = last + 1
    return rules
