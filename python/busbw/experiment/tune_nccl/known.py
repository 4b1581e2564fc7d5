"""What all stages of a search found together, and what follows from it: who leads, what is tried next, the choice."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median, variance

from busbw.experiment.tune_nccl.rules import Way
from busbw.experiment.tune_nccl.stage import Times
from busbw.experiment.tune_nccl.ways import CHANNELS

PROMISING = 1.01
"""A way goes into the table to be proven only if it is this much faster than things as they are, by medians."""
ALIKE = 1.005
"""Ways within this of the best are alike: then the neighbour's choice, or the simplest, is taken."""
CLOSE = 1.1
"""Ways within this of the best are tried with other numbers of channels."""
WITHIN = 1.05
"""A number of channels that comes this close to the best of all is worth going on from."""
OF_MEDIAN = 1.4826
"""A normal deviation over the median of what values are off by."""
USUAL_NOISE = 0.02
"""Of a trial, where nothing was measured twice."""


@dataclass
class Known:
    """Microseconds of every trial by way and size; None are things as they are.

    A way that several stages measured has the times of all: what one stage had no time for is not forgotten.
    """

    times: dict[Way | None, Times] = field(default_factory=dict)

    def add(self, times: Mapping[int, Times], ways: Sequence[Way]) -> None:
        """The times of a stage, whose variant 0 are things as they are, and the others its ways in their order."""
        for variant, by in times.items():
            mine = self.times.setdefault(ways[variant - 1] if variant else None, {})
            for size, values in by.items():
                mine.setdefault(size, []).extend(values)

    @property
    def sizes(self) -> list[int]:
        return sorted(self.times.get(None, {}))

    def at(self, size: int) -> dict[Way, float]:
        """The median of each way."""
        return {way: median(by[size]) for way, by in self.times.items() if way is not None and size in by}

    def best(self, size: int, but: Sequence[Way] = ()) -> Way | None:
        """The fastest, but for those; None where no other is left."""
        left = {way: value for way, value in self.at(size).items() if way not in but}
        return min(left, key=lambda way: left[way], default=None)

    def error(self, size: int, one: Way, other: Way) -> float:
        """The usual error of the logarithm of how often one is as fast as the other."""
        # One wild trial of a few must not hide what all others agree on: the median of what they are off by.
        off = [
            abs(math.log(each / median(values))) * math.sqrt(len(values) / (len(values) - 1))
            for by in self.times.values() if len(values := by.get(size, ())) > 1 for each in values
        ]  # fmt: skip
        off = [each for each in off if each]
        noise = OF_MEDIAN * median(off) if off else USUAL_NOISE
        return noise * math.sqrt(sum(1 / len(self.times[way][size]) for way in (one, other)))


def leading(known: Known) -> list[Way]:
    """The fastest named way at each size by medians, and all that are about as fast there: channels may part them."""
    found: dict[Way, None] = {}
    for size in known.sizes:
        values = {way: value for way, value in known.at(size).items() if not way.is_own}
        best = min(values.values(), default=0.0)
        found.update(dict.fromkeys(way for way, value in values.items() if value <= CLOSE * best))
    return list(found)


def fastest(known: Known) -> list[Way]:
    """The named way that is the fastest of each size by medians."""
    best = (known.best(size, but=(Way(),)) for size in known.sizes)
    return list(dict.fromkeys(way for way in best if way is not None))


def waves_of(ways: Sequence[Way]) -> list[set[int]]:
    """Variants that set channels, in the order of trials; the two largest numbers tell in which direction it goes."""
    groups = (CHANNELS[:2], *((channels,) for channels in CHANNELS[2:]))
    waves = [{number for number, way in enumerate(ways, 1) if way.channels in group} for group in groups]
    return [wave for wave in waves if wave]


def may_help(way: Way, times: Mapping[int, Times], ways: Sequence[Way]) -> bool:
    """Whether fewer channels are worth a trial: with the fewest so far, a size was as good as any and near the best."""
    if way.channels in CHANNELS[:2]:
        return True
    mine = {ways[v - 1]: by for v, by in times.items() if v and ways[v - 1].name == way.name}
    fewest = min((each for each in mine if each.channels), key=lambda each: each.channels, default=None)
    if fewest is None:
        return False
    for size, values in mine[fewest].items():
        others = [median(by[size]) for each, by in mine.items() if each != fewest and size in by]
        best = min(median(by[size]) for v, by in times.items() if v and size in by)
        now = median(values)
        if now <= ALIKE * min(others, default=math.inf) and now <= WITHIN * best:
            return True
    return False


def choose(known: Known, *, loosened: bool = False) -> dict[int, Way | None]:
    """By size: the way that is worth proving; None where things as they are are as good.

    What hinders NCCL is taken away at all sizes or at none: where it is, each size needs its best way. That is NCCL's
    own choice, which needs no rule, unless another is faster by more than the trials scatter.
    """
    chosen: dict[int, Way | None] = {}
    before: Way | None = None
    for size in known.sizes:
        values = known.at(size)
        as_it_is = median(known.times[None][size])
        first = min(values, key=lambda way: values[way], default=None)
        if first is None or (values[first] * PROMISING >= as_it_is and not loosened):
            chosen[size] = None
            continue
        best, own = values[first], values.get(Way(), math.inf)
        alike = [way for way, value in values.items() if value <= best * ALIKE]
        if loosened and Way() in values and own / best <= max(ALIKE, math.exp(known.error(size, first, Way()))):
            before = Way()
        elif before not in alike:
            before = min(alike, key=lambda way: (way.channels != 0, way.chunk != 0, values[way]))
        chosen[size] = before
    return chosen


def between(chosen: Mapping[int, Way | None], known: Known) -> dict[int, Way | None]:
    """With the sizes half way (geometrically): the neighbours' way that should be faster there; None for things as
    they are."""
    found: dict[int, Way | None] = {}
    sizes = sorted(chosen)

    def about(way: Way | None, size: int, after: int) -> float:
        by = known.times.get(way, {})
        return median(by[size]) * median(by[after]) if size in by and after in by else math.inf

    for size, after in pairwise(sizes):
        found[size] = chosen[size]
        found[math.isqrt(size * after)] = min((chosen[size], chosen[after]), key=lambda way: about(way, size, after))
    return {**found, sizes[-1]: chosen[sizes[-1]]}


def survivors(times: Mapping[int, Times], ways: int, number: int) -> set[int]:
    """Variants that stay for a round: at any size among the best `ways` / 2^round and not far from the best of all.

    Never fewer than two of a size.
    """
    if number == 0:
        return set(range(1, ways + 1))
    room, far = max(FEWEST, math.ceil(ways / 2**number)), FAR ** (2 / number)
    kept: set[int] = set()
    for size in {size for by in times.values() for size in by}:
        ranked = sorted((median(by[size]), variant) for variant, by in times.items() if size in by and variant)
        kept |= {variant for value, variant in ranked[:room] if value <= far * ranked[0][0]} | {
            variant for _, variant in ranked[:FEWEST]
        }
    return kept


FEWEST = 2
"""So many ways stay at each size whatever the rounds."""
FAR = 1.25
"""What takes so much longer by the medians of two rounds is no better in truth; noise hides more after one."""


def is_clear(times: Mapping[int, Times], alive: Iterable[int]) -> bool:
    """Whether noise lets the ways that are left be told apart: the usual standard error of their times is small."""
    errors = [
        math.sqrt(variance(map(math.log, values)) / len(values))
        for each in alive if each for values in times.get(each, {}).values() if len(values) > 1
    ]  # fmt: skip
    return not errors or median(errors) <= CLEAR


CLEAR = 0.01
