"""Starts that stand at one of two levels as a whole, by chance: what several starts of one group say then.

The law is read from all groups of a class: how far the levels are apart, and how often a start is at the lower one. A
fault shifts both levels. So one start at the upper level shows that a group is good, one between them that it is not,
and of starts at the lower one many are needed. What they say is written as a loss with an error of which the normal
likelihood has the same ratio.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from busbw.fleet.samples import OF_MEDIAN
from busbw.fleet.trial import MANY_PEERS, Beside, Deviation, Key, Peers, reference

LEAST = 0.03
"""Levels that are nearer are noise."""
WINDOW = 0.03
FEWEST = 4
BETWEEN, MOSTLY = 0.2, 0.85
"""Starts that lie between the levels at most, of those at the lower one; and those at either of all, at least."""
UNSURE = 0.004
"""Standard error of the upper level of a round."""
OUTLIER = 1e-4
SETTLED = 4.6  # of the logarithm of the likelihood: one to a hundred
NEVER = 20.0  # of the logarithm of a likelihood


class Law(NamedTuple):
    """Of a class of groups: the lower level lies so far below the upper one, and so many starts are there."""

    gap: float
    share: float


def law_of(losses: Sequence[float]) -> Law | None:
    """From the losses of single starts, most of which are of good groups."""
    ordered = sorted(loss for loss in losses if loss > LEAST)
    best, first = (0, 0), 0
    for at, loss in enumerate(ordered):
        while loss - ordered[first] > WINDOW:
            first += 1
        if at + 1 - first > best[1] - best[0]:
            best = (first, at + 1)
    low = ordered[best[0] : best[1]]
    if len(low) < FEWEST:
        return None
    gap = low[len(low) // 2]
    between = sum(0.3 * gap < loss < 0.7 * gap for loss in losses)
    near = sum(abs(loss) < 0.3 * gap or abs(loss - gap) < 0.3 * gap for loss in losses)
    if between > BETWEEN * len(low) or near < MOSTLY * len(losses):
        return None  # they scatter, and stand at no two levels
    return Law(gap, min(0.95, (len(low) + 1) / (len(losses) + 2)))


def by_law(starts: Sequence[Deviation], law: Law, threshold: float) -> Deviation:
    """What these starts of one group say together."""
    sigma = 1 / math.sqrt(sum(1 / one.error**2 for one in starts))
    tried = [loss for one in starts for loss in (one.loss, 1 - (1 - one.loss) / (1 - law.gap)) if loss > threshold]
    good = _likelihood(starts, law, 0.0)
    ranked = sorted((_likelihood(starts, law, loss), -loss) for loss in tried)
    if not ranked:
        return Deviation(sum(one.loss for one in starts) / len(starts), sigma)
    best, loss = ranked[-1][0], -ranked[-1][1]
    if good - best > SETTLED:
        return Deviation(0.0, sigma)
    ratio = min(NEVER * len(starts), abs(best - good))
    error = min(1.0, max(sigma, loss / math.sqrt(2 * max(ratio, 1e-6))))
    return Deviation(loss if best > good else 0.0, error)


def _likelihood(starts: Sequence[Deviation], law: Law, loss: float) -> float:
    levels = ((1 - law.share, loss), (law.share, 1 - (1 - loss) * (1 - law.gap)))
    found = 0.0
    for one in starts:
        sigma = max(one.error, 0.003)
        density = sum(share * math.exp(-0.5 * ((one.loss - level) / sigma) ** 2) for share, level in levels)
        found += math.log(density + OUTLIER)
    return found


class Starts(NamedTuple):
    """All starts of a kind and channel, judged by the law that they show."""

    law: Law
    found: Mapping[Key, Deviation]


def judge_starts(every: Sequence[Beside], threshold: float) -> Starts | None:
    """Every group of these rounds by its starts; None where no law is to be seen."""
    levels: dict[Peers, float] = {}
    for peers in sorted(every, key=lambda each: len(each.levels)):
        if peers.levels:
            levels[peers.of] = reference(peers.levels, [], peers.own)
    first = [1 - level / levels[peers.of] for peers in every for level in peers.levels if len(peers.levels) >= FEWEST]
    law = law_of(first)
    if law is None:
        return None
    starts: dict[Peers, dict[Key, list[Deviation]]] = {}
    for peers in every:
        for key, one in _beside_law(peers, levels.get(peers.of, 0.0), law):
            starts.setdefault(peers.of, {}).setdefault(key, []).append(one)
    found: dict[Key, Deviation] = {}
    for mine in starts.values():
        own = law_of([one.loss for ones in mine.values() for one in ones]) if len(mine) >= MANY_PEERS else None
        mean = Law(law.gap, own.share if own else law.share)
        found.update((key, by_law(ones, mean, threshold)) for key, ones in mine.items())
    return Starts(law, found)


def _beside_law(peers: Beside, level: float, law: Law) -> Iterator[tuple[Key, Deviation]]:
    """Each start beside the upper level; of few peers all may be at the lower one."""
    usual = level
    if len(peers.levels) >= MANY_PEERS:
        usual = reference(peers.levels, [], peers.own)
    if abs(usual / level - 1) > 0.5 * law.gap or len(peers.levels) < MANY_PEERS:
        upper = [each for each in peers.levels if abs(each / level - 1) < 0.35 * law.gap]
        lower = [
            each / (1 - law.gap) for each in peers.levels if abs(each / level / (1 - law.gap) - 1) < 0.35 * law.gap
        ]
        usual = statistics.median(upper or lower or [level])
    for outcome, median in zip(peers.group, peers.medians, strict=True):
        if median > 0:
            error = OF_MEDIAN * peers.spread / math.sqrt(len(outcome.samples))
            yield outcome.trial.key, Deviation(1 - median / usual, math.hypot(error, UNSURE))
