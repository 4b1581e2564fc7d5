"""How far groups that are alike scatter beyond what their own samples say.

Samples of one start depend on each other: clocks, paths and processors are another start's again. So the spread of
repeats alone would call a good group slow. What shows it are the peers: those above the reference, which faults do not
make, stand apart as the order statistics of a normal sample do (Blom 1958), times the scatter.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

Named = tuple[str, tuple[str, ...], str]  # kind, nodes and channel of a group
CHANGE = 0.1
FAR = 4.0
"""Errors of a step from start to start that samples alone hardly make."""
OFTEN_FAR = 0.12
FEWEST_FAR = 3
"""Steps so far, and from groups that do not share one node: starts stand at two levels, which no median shows."""
FEWEST_AGAIN = 3
AGAIN = 1.5
"""Who is measured again had like results before: their starts show a little less than all would."""


class Spacing(NamedTuple):
    """How far the peers of a round stand apart, and how many of them say so."""

    size: float  # as one standard deviation, a share of the level
    groups: int


class Seen(NamedTuple):
    """What a round shows: a standard deviation, that which samples alone say, and how many groups say so."""

    shown: float
    own: float
    groups: int


def spacing(levels: Sequence[float], usual: float, *, median: bool) -> Spacing | None:
    """Of the peers above what is usual, which is their upper quarter or the median of the good ones."""
    above = sorted(level / usual - 1 for level in levels if level > usual)
    if len(above) < 2:
        return None
    expected = _expected(len(above), 2 * len(above) + 1 if median else len(levels))
    shown = sorted(one / normal for one, normal in zip(above, expected, strict=True))
    # The lower one of two in the middle: a group that is much too fast shall not hide all that are slow.
    return Spacing(shown[(len(shown) - 1) // 2], len(shown))


@dataclass
class Scatter:
    """Of one kind of channel, pooled over rounds."""

    seen: list[Seen] = field(default_factory=list)
    again: list[Seen] = field(default_factory=list)
    """How far starts of the same groups lie apart: faults that differ set groups apart, but no starts of one group."""
    between: float = 0.0
    """The standard deviation from start to start, where there surely is one."""
    _before: dict[Named, tuple[float, float]] = field(default_factory=dict)
    _steps: list[float] = field(default_factory=list)
    """Of groups that were measured again, as a share, without what all of their round lost."""
    _far: list[tuple[str, ...]] = field(default_factory=list)
    """The nodes of those that went much farther than their samples say."""

    def compare(self, levels: Mapping[Named, float], own: float, controls: Set[Named] = frozenset()) -> None:
        """The groups of a round by name, with those that were measured before: what all lost is drift."""
        again = [key for key in levels if key in self._before]
        steps = [(math.log(levels[key] / self._before[key][0]), self._before[key][1]) for key in again]
        if len(steps) >= FEWEST_AGAIN:
            middle = statistics.median(step for step, _ in steps)
            # Others are measured again since their first start was odd: they step back further than any start would.
            plain = [step for key, step in zip(again, steps, strict=True) if key in controls]
            told = plain if len(plain) >= FEWEST_AGAIN else steps
            size = 1.4826 * statistics.median(abs(step - middle) for step, _ in told) / math.sqrt(2)
            size *= len(told) / (len(told) - 0.8)  # of few (Croux and Rousseeuw 1992)
            before = statistics.median(error for _, error in told)
            for key, (step, error) in zip(again, steps, strict=True):
                self._steps.append(step - middle)
                if abs(step - middle) > FAR * math.hypot(own, error):
                    self._far.append(key[1])
            self.again.append(Seen(size, math.sqrt((own**2 + before**2) / 2), len(told)))
        self._before.update((key, (level, own)) for key, level in levels.items())

    def changed(self) -> bool:
        """Whether what is known of starts has changed by now so much that results are to be judged anew."""
        found = max(self._between(), self.two_levels())
        if abs(found - self.between) <= CHANGE * max(found, self.between):
            return False
        self.between = found
        return True

    def two_levels(self) -> float:
        """Standard deviation of starts at two levels; 0 where one node alone makes them, or too few show them."""
        shared = Counter(node for nodes in self._far for node in nodes)
        others = len(self._far) - max(shared.values(), default=0)
        if others < FEWEST_FAR or len(self._far) < OFTEN_FAR * len(self._steps):
            return 0.0
        return math.sqrt(statistics.fmean(step**2 for step in self._steps) / 2)

    def _between(self) -> float:
        every = [*self.seen, *self.again]
        count = sum(one.groups for one in every)
        if not count:
            return 0.0
        shown = sum(one.shown**2 * one.groups for one in every) / count
        own = sum(one.own**2 * one.groups for one in every) / count
        if self.again:
            again = sum(one.shown**2 * one.groups for one in self.again) / sum(one.groups for one in self.again)
            shown = min(shown, AGAIN**2 * again)
        return math.sqrt(shown - own) if shown > own * (1 + 3 * math.sqrt(2 / count)) else 0.0


@functools.lru_cache(maxsize=4096)
def _expected(above: int, count: int) -> tuple[float, ...]:
    """How far each of the highest of a normal sample lies above the one before them, which is the reference."""
    normal = statistics.NormalDist()
    at = [normal.inv_cdf((rank - 0.375) / (count + 0.25)) for rank in range(count - above, count + 1)]
    return tuple(one - at[0] for one in at[1:])
