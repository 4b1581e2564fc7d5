"""The search: rounds of trials that leave out half of the ways each, then a table that is proven against plain NCCL.

Successive halving (Karnin, Koren, Somekh, "Almost optimal exploration in multi-armed bandits", ICML 2013): after each
round, a way stays if it is among the better half at any size. Every trial measures all sizes, and is kept at once, so
that a search that was cut off goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from busbw.analysis.verdict import ALPHA, Judgement, Verdict, of_rounds
from busbw.base.errors import UserError
from busbw.base.files import replace_text
from busbw.experiment.clock import Clock
from busbw.experiment.runner import run_trial
from busbw.experiment.tune_nccl.known import (
    ALIKE,
    Known,
    between,
    choose,
    fastest,
    is_clear,
    leading,
    may_help,
    survivors,
    waves_of,
)
from busbw.experiment.tune_nccl.rules import Place, Rule, Way, table_text
from busbw.experiment.tune_nccl.stage import Measure, Stage, Times, unused, with_kept
from busbw.experiment.tune_nccl.ways import Asked, first_ways, plan_of, plan_to_prove, with_channels, with_chunks

LATE_ROUNDS = 3
"""The few ways that are left at the end differ by little: they are measured so much more often."""

MORE_ROUNDS = 18
"""So many more where noise leaves the ways that are left unclear, as long as the budget has time for them."""

SMALLEST_GAIN = 1.0
FINEST = 2
"""Sizes are whole multiples of each other."""
PROOFS = 3
"""Of tables, each with other ways at sizes that were slower in the one before."""


@dataclass(frozen=True)
class Proven:
    """One size of the final table: what was tried there, and how it stands against things as they are."""

    size: int
    way: Way
    judgement: Judgement
    hurts: bool = False
    """Whether one placement is slower for it, by medians."""

    @property
    def is_slower(self) -> bool:
        """Whether it is surely slower, or one placement is by medians."""
        return self.hurts or self.judgement.verdict is Verdict.SLOWER

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
        known = Known()
        known.add(*self._halve(name, "ways", first_ways(name, nodes, multicast=self.asked.multicast), self.rounds,
                               begin + 0.35 * width))  # fmt: skip
        leaders = leading(known)
        more = [Way(), *leaders, *with_channels(leaders)]
        known.add(*self._halve(name, "channels", more, self.rounds + LATE_ROUNDS, begin + 0.6 * width))
        best = fastest(known)
        if chunks := with_chunks(best, self.facts["nccl"]):
            ways = [Way(), *best, *chunks]
            known.add(*self._halve(name, "chunks", ways, self.rounds + LATE_ROUNDS, begin + 0.75 * width))
        chosen = choose(known, loosened=bool(self.asked.loosened))
        if not any(chosen.values()):
            return [], []
        return self._prove(name, between(chosen, known) if self.asked.step > FINEST else chosen, known, end)

    def _halve(
        self, name: str, stage: str, ways: Sequence[Way], rounds: int, share: float
    ) -> tuple[dict[int, Times], list[Way]]:
        folder = self.folder / name / stage
        ways = with_kept(ways, folder)
        run = Stage(plan_of(self.asked, name, ways, self.facts, folder), folder, self.measure, self.clock, self.tell)
        for number in range(rounds + (MORE_ROUNDS if stage != "ways" else 0)):
            # 0 is things as they are, 1 is NCCL's own choice without what hinders it.
            so_far = run.times(number)
            tried = sum(1 for variant in so_far if variant)
            alive = {0, 1, *survivors(so_far, tried, number)} - run.failed(number)
            if number and (len(alive) <= 2 or (number >= rounds and is_clear(so_far, alive))):
                break
            if not (run.round(number, alive, share) if number else self._first_round(run, ways, share)):
                break
        times = run.times()
        if 0 not in times:
            reason = next((trial.reason for trial in run.trials if trial.variant == 0), "the budget is too short")
            raise UserError(f"{name} cannot be measured as things are: {reason}")
        return times, ways

    @staticmethod
    def _first_round(run: Stage, ways: Sequence[Way], share: float) -> bool:
        """Each way once. Ways with NCCL's own channels come first, then fewer and fewer where that may help."""
        if any(way.chunk for way in ways):
            return run.round(0, range(len(ways) + 1), share)
        if not run.round(0, {0, *(number for number, way in enumerate(ways, 1) if not way.channels)}, share):
            return False
        asked: set[int] = set()
        for wave in waves_of(ways):
            # What a wave needs is told by those before it alone: a search that goes on decides as it did.
            times = {v: by for v, by in run.times(1).items() if v in asked or not (v and ways[v - 1].channels)}
            now = {number for number in wave if may_help(ways[number - 1], times, ways)}
            asked |= now
            if now and not run.round(0, now, share):
                return False
        return True

    def _prove(
        self, name: str, chosen: Mapping[int, Way | None], known: Known, share: float
    ) -> tuple[list[Rule], list[Proven]]:
        """The rules that hold, and the proof of them.

        What hinders NCCL is taken away at all sizes or at none. Where it is, a size that got slower needs another way,
        and the table with it another proof.
        """
        loosened = bool(self.asked.loosened)
        tried: dict[int, tuple[Way, ...]] = dict.fromkeys(chosen, ())
        for _ in range(PROOFS):
            proven = self._proof(name, chosen, share)
            slower = {each.size: each.way for each in proven if each.judgement.verdict is Verdict.SLOWER}
            if not (loosened and slower):
                return self._kept(name, chosen, proven), proven
            for size, way in slower.items():
                tried[size] = (*tried[size], way)
            chosen = {
                size: known.best(size, but=tried[size]) if size in slower else way for size, way in chosen.items()
            }
        return [], proven

    def _kept(self, name: str, chosen: Mapping[int, Way | None], proven: Sequence[Proven]) -> list[Rule]:
        gains = {each.size: each for each in proven if each.holds}
        # Without what hindered NCCL, a way that is as good as things were is kept: NCCL's own choice may not be.
        as_good = {each.size for each in proven if self.asked.loosened and gains and not each.is_slower}
        kept = {size: way if size in gains or size in as_good else None for size, way in chosen.items()}
        return rules_of(name, kept, {size: _ends(each.judgement) for size, each in gains.items()})

    def _proof(self, name: str, chosen: Mapping[int, Way | None], share: float) -> list[Proven]:
        rules = rules_of(name, chosen)
        text = table_text([Place(self.facts, tuple(rules))])
        folder = unused(self.folder / name / "proof", text)
        path = folder / "table.txt"
        replace_text(path, text)
        stage = Stage(
            plan_to_prove(finer_of(self.asked), name, path, seed=2), folder, self.measure, self.clock, self.tell
        )
        return prove(name, chosen, stage, self.proving_rounds, share, until_slower=bool(self.asked.loosened))


def sizes_of(asked: Asked) -> list[int]:
    """The sizes in bytes that a trial measures."""
    sizes = [asked.first]
    while sizes[-1] * asked.step <= asked.last:
        sizes.append(sizes[-1] * asked.step)
    return sizes


def finer_of(asked: Asked) -> Asked:
    """With a size between each two that lie far apart, which is where rules meet: a table is proven there too."""
    return replace(asked, step=max(FINEST, math.isqrt(asked.step)))


def prove(  # noqa: PLR0913 - what a proof is made of
    name: str,
    chosen: Mapping[int, Way | None],
    stage: Stage,
    rounds: int,
    share: float,
    *,
    until_slower: bool = False,
) -> list[Proven]:
    """The whole table beside things as they are, in fresh rounds, until every size is sure or the rounds are done.

    `until_slower`: or one size is surely slower, where the table as a whole is worth nothing then.
    """
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
        if number >= 2 and until_slower and any(each.judgement.verdict is Verdict.SLOWER for each in found):
            break
    return found


_OVER = frozenset({Verdict.SLOWER, Verdict.NO_DIFFERENCE})


def rules_of(
    name: str, chosen: Mapping[int, Way | None], gains: Mapping[int, tuple[float, float]] | None = None
) -> list[Rule]:
    """Neighbouring sizes with one way become a rule, which ends half way (geometrically) to the next rule.

    Next to a size without a rule it ends at the last size that was measured: nobody knows what pays between them.
    NCCL's own choice needs no rule. A rule says the gain of sizes at which it was shown, and of no other.
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
        joined = rules and rules[-1].way == way and rules[-1].last == first - 1
        if joined and (gains is None or (rules[-1].gain is None) == (gain is None)):
            joins = rules.pop()
            both = [each for each in (joins.gain, gain) if each]
            gain = (min(low for low, _ in both), max(high for _, high in both)) if both else None
            first = joins.first
        rules.append(Rule(name, first, last, way, gain))
    return rules


def _ends(judgement: Judgement) -> tuple[float, float]:
    assert judgement.interval is not None
    return judgement.interval.low, judgement.interval.high
