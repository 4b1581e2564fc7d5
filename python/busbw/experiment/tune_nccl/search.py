"""The search: rounds of trials that leave out half of the ways each, then a table that is proven against plain NCCL.

Successive halving (Karnin, Koren, Somekh, "Almost optimal exploration in multi-armed bandits", ICML 2013): after each
round, a way stays if it is among the better half at any size. Every trial measures all sizes, and is kept at once, so
that a search that was cut off goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median, stdev

from busbw.analysis.verdict import ALPHA, Judgement, Verdict, of_rounds
from busbw.base.errors import UserError
from busbw.base.files import replace_text
from busbw.experiment.clock import Clock
from busbw.experiment.runner import run_trial
from busbw.experiment.tune_nccl.rules import Place, Rule, Way, table_text
from busbw.experiment.tune_nccl.stage import Measure, Stage, Times, unused, with_kept
from busbw.experiment.tune_nccl.ways import Asked, first_ways, plan_of, plan_to_prove, with_channels, with_chunks

FEWEST = 2
"""So many ways stay at each size whatever the rounds."""
PROMISING = 1.01
"""A way goes into the table to be proven only if it is this much faster than things as they are, by medians."""
ALIKE = 1.005
"""Ways within this of the best are alike: then the neighbour's choice, or the simplest, is taken."""
CLOSE = 1.1
LATE_ROUNDS = 3
"""The few ways that are left at the end differ by little: they are measured so much more often."""

CLEAR = 0.01
MORE_ROUNDS = 18
"""So many more where noise leaves the ways that are left unclear, as long as the budget has time for them."""

SMALLEST_GAIN = 1.0


@dataclass(frozen=True)
class Proven:
    """One size of the final table: what was tried there, and how it stands against things as they are."""

    size: int
    way: Way
    judgement: Judgement
    hurts: bool = False
    """Whether one placement is slower for it, by medians."""

    @property
    def holds(self) -> bool:
        """Whether its interval excludes zero gain, and no placement pays for it."""
        interval = self.judgement.interval
        return not self.hurts and interval is not None and interval.low > SMALLEST_GAIN


def _proven(size: int, way: Way, logs: Mapping[str, Sequence[float]], alpha: float) -> Proven:
    """What counts is the mean of the placements of a round."""
    means = [math.fsum(each) / len(each) for each in zip(*logs.values(), strict=False)]
    hurts = any(median(each) < -math.log(ALIKE) for each in logs.values())
    return Proven(size, way, of_rounds(means, alpha=alpha), hurts)


@dataclass
class Search:
    """Searches one collective after the other, and proves what it found."""

    asked: Asked
    facts: Mapping[str, str]
    folder: Path
    rounds: int
    clock: Clock
    measure: Measure = run_trial
    tell: Callable[[str], None] = lambda _: None
    proving_rounds: int = 12

    def collective(self, name: str, begin: float = 0.0, end: float = 1.0) -> tuple[list[Rule], list[Proven]]:
        """The rules that hold for a collective, measured between two shares of the budget."""
        nodes, width = int(self.facts["nodes"]), end - begin
        looked = self._halve(
            name, "ways", first_ways(name, nodes, multicast=self.asked.multicast), self.rounds, begin + 0.35 * width
        )
        leaders = leading(*looked)
        more = [Way(), *leaders, *with_channels(leaders)]
        finer = self._halve(name, "channels", more, self.rounds + LATE_ROUNDS, begin + 0.6 * width)
        best = fastest(*finer)
        if chunks := with_chunks(best, self.facts["nccl"]):
            ways = [Way(), *best, *chunks]
            finer = self._halve(name, "chunks", ways, self.rounds + LATE_ROUNDS, begin + 0.75 * width)
        chosen = choose(*finer, loosened=bool(self.asked.loosened))
        if not any(chosen.values()):
            return [], []
        return self._prove(name, between(chosen, *finer), end)

    def _halve(
        self, name: str, stage: str, ways: Sequence[Way], rounds: int, share: float
    ) -> tuple[dict[int, Times], list[Way]]:
        folder = self.folder / name / stage
        ways = with_kept(ways, folder)
        run = Stage(plan_of(self.asked, name, ways, self.facts, folder), folder, self.measure, self.clock, self.tell)
        for number in range(rounds + (MORE_ROUNDS if stage != "ways" else 0)):
            # 0 is things as they are, 1 is NCCL's own choice without what hinders it.
            so_far = run.times(number)
            alive = {0, 1, *survivors(so_far, len(ways), number)} - run.failed(number)
            if number and (len(alive) <= 2 or (number >= rounds and is_clear(so_far, alive))):
                break
            if not run.round(number, alive if number else range(len(ways) + 1), share):
                break
        times = run.times()
        if 0 not in times:
            reason = next((trial.reason for trial in run.trials if trial.variant == 0), "the budget is too short")
            raise UserError(f"{name} cannot be measured as things are: {reason}")
        return times, ways

    def _prove(self, name: str, chosen: Mapping[int, Way | None], share: float) -> tuple[list[Rule], list[Proven]]:
        rules = rules_of(name, chosen)
        text = table_text([Place(self.facts, tuple(rules))])
        folder = unused(self.folder / name / "proof", text)
        path = folder / "table.txt"
        replace_text(path, text)
        stage = Stage(
            plan_to_prove(finer_of(self.asked), name, path, seed=2), folder, self.measure, self.clock, self.tell
        )
        proven = prove(name, chosen, stage, self.proving_rounds, share)
        gains = {each.size: each for each in proven if each.holds}
        # Without what hindered NCCL, a way that is as good as things were is kept: NCCL's own choice may not be.
        loosened = bool(self.asked.loosened)
        as_good = {e.size for e in proven if loosened and e.judgement.verdict is not Verdict.SLOWER and not e.hurts}
        kept = {size: way if size in gains or (gains and size in as_good) else None for size, way in chosen.items()}
        return rules_of(name, kept, {size: _ends(each.judgement) for size, each in gains.items()}), proven


def sizes_of(asked: Asked) -> list[int]:
    """The sizes in bytes that a trial measures."""
    sizes = [asked.first]
    while sizes[-1] * asked.step <= asked.last:
        sizes.append(sizes[-1] * asked.step)
    return sizes


def finer_of(asked: Asked) -> Asked:
    """The same with a size between each two, which is where rules meet: a table is proven there too."""
    return replace(asked, step=math.isqrt(asked.step))


def between(chosen: Mapping[int, Way | None], times: Mapping[int, Times], ways: Sequence[Way]) -> dict[int, Way | None]:
    """With the sizes half way (geometrically): the neighbours' way that should be faster there; None for things as
    they are."""
    found: dict[int, Way | None] = {}
    sizes = sorted(chosen)
    variants: dict[Way | None, int] = {None: 0}
    variants.update({way: number for number, way in enumerate(ways, start=1)})

    def about(way: Way | None, size: int, after: int) -> float:
        by = times.get(variants[way], {})
        return median(by[size]) * median(by[after]) if size in by and after in by else math.inf

    for size, after in pairwise(sizes):
        found[size] = chosen[size]
        found[math.isqrt(size * after)] = min((chosen[size], chosen[after]), key=lambda way: about(way, size, after))
    return {**found, sizes[-1]: chosen[sizes[-1]]}


def prove(name: str, chosen: Mapping[int, Way | None], stage: Stage, rounds: int, share: float) -> list[Proven]:
    """The whole table beside things as they are, in fresh rounds, until every size is sure or the rounds are done."""
    sizes = [size for size, way in chosen.items() if way is not None]
    found: list[Proven] = []
    for number in range(rounds):
        if not stage.round(number, (0, 1), share):
            break
        logs = stage.pairs(number + 1)
        # The chance of one false claim in the whole table.
        alpha = ALPHA / max(1, len(sizes))
        found = [_proven(size, chosen[size] or Way(), logs.get(size, {}), alpha) for size in sizes]
        stage.tell(f"{name}: {sum(each.holds for each in found)} of {len(found)} sizes are sure to gain")
        if number >= 2 and all(each.holds or each.judgement.verdict in _OVER for each in found):
            break
    return found


_OVER = frozenset({Verdict.SLOWER, Verdict.NO_DIFFERENCE})


def is_clear(times: Mapping[int, Times], alive: Iterable[int]) -> bool:
    """Whether noise lets the ways that are left be told apart: the usual standard error of their times is small."""
    errors = [
        stdev(map(math.log, values)) / math.sqrt(len(values))
        for variant in alive if variant for values in times.get(variant, {}).values() if len(values) > 1
    ]  # fmt: skip
    return not errors or median(errors) <= CLEAR


def survivors(times: Mapping[int, Times], ways: int, number: int) -> set[int]:
    """Variants that stay for a round: at any size among the best `ways` / 2^round, and never fewer than two."""
    if number == 0:
        return set(range(1, ways + 1))
    room = max(FEWEST, math.ceil(ways / 2**number))
    kept: set[int] = set()
    for size in {size for by in times.values() for size in by}:
        ranked = sorted((median(by[size]), variant) for variant, by in times.items() if size in by and variant)
        kept |= {variant for _, variant in ranked[:room]}
    return kept


def leading(times: Mapping[int, Times], ways: Sequence[Way]) -> list[Way]:
    """The fastest named way at each size by medians, and all that are about as fast there: channels may part them."""
    found: dict[Way, None] = {}
    for size in sorted({size for by in times.values() for size in by}):
        values = {
            ways[v - 1]: median(by[size]) for v, by in times.items() if v and size in by and not ways[v - 1].is_own
        }
        best = min(values.values(), default=0.0)
        found.update(dict.fromkeys(way for way, value in values.items() if value <= CLOSE * best))
    return list(found)


def fastest(times: Mapping[int, Times], ways: Sequence[Way]) -> list[Way]:
    """The named way that is the fastest of each size by medians."""
    found: dict[Way, None] = {}
    for size in sorted({size for by in times.values() for size in by}):
        ranked = [(median(by[size]), v) for v, by in times.items() if v and size in by and not ways[v - 1].is_own]
        if ranked:
            found[ways[min(ranked)[1] - 1]] = None
    return list(found)


def choose(times: Mapping[int, Times], ways: Sequence[Way], *, loosened: bool = False) -> dict[int, Way | None]:
    """By size: the way that is worth proving; None where things as they are are as good.

    What hinders NCCL is taken away at all sizes or at none: where it is, each size needs its best way.
    """
    chosen: dict[int, Way | None] = {}
    before: Way | None = None
    for size in sorted(times[0]):
        values = {ways[variant - 1]: median(by[size]) for variant, by in times.items() if variant and size in by}
        own, best = median(times[0][size]), min(values.values(), default=math.inf)
        if not values or (best * PROMISING >= own and not loosened):
            chosen[size] = None
            continue
        alike = [way for way, value in values.items() if value <= best * ALIKE]
        before = (
            before if before in alike else min(alike, key=lambda way: (way.channels != 0, way.chunk != 0, values[way]))
        )
        chosen[size] = before
    return chosen


def rules_of(
    name: str, chosen: Mapping[int, Way | None], gains: Mapping[int, tuple[float, float]] | None = None
) -> list[Rule]:
    """Neighbouring sizes with one way become a rule, which ends half way (geometrically) to the next rule.

    Next to a size without a rule it ends at the last size that was measured: nobody knows what pays between them.
    NCCL's own choice needs no rule.
    """
    sizes = sorted(chosen)
    rules: list[Rule] = []
    for index, size in enumerate(sizes):
        way = chosen[size]
        if way is None or way.is_own:
            continue
        before, after = (chosen.get(sizes[at]) if 0 <= at < len(sizes) else None for at in (index - 1, index + 1))
        first = math.isqrt(sizes[index - 1] * size) + 1 if before and not before.is_own else size
        last = math.isqrt(size * sizes[index + 1]) if after and not after.is_own else size
        gain = (gains or {}).get(size)
        if rules and rules[-1].way == way and rules[-1].last == first - 1:
            joins = rules.pop()
            joined = [each for each in (joins.gain, gain) if each]
            gain = (min(low for low, _ in joined), max(high for _, high in joined)) if joined else None
            first = joins.first
        rules.append(Rule(name, first, last, way, gain))
    return rules


def _ends(judgement: Judgement) -> tuple[float, float]:
    assert judgement.interval is not None
    return judgement.interval.low, judgement.interval.high
