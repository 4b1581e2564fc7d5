"""The bisection: the two ends against each other, then the middle of what is left of each size, then the step itself.

Every step is an experiment of the one engine: fresh processes in turns, until its verdict is sure. A value is beyond
the change where it is slower than half way (on the logarithm) from the first to the last.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from busbw.analysis.verdict import Judgement, Verdict, of_rounds
from busbw.base.errors import UserError
from busbw.experiment.clock import spent_s
from busbw.experiment.effects import Table, given_up
from busbw.experiment.factors import Factor, Level
from busbw.experiment.loop import Experiment, Measure, Stop, in_turns, read_trials
from busbw.experiment.plan import Plan
from busbw.experiment.runner import run_trial
from busbw.experiment.trial import Outcome, Point, Trial

Key = tuple[str, int]
"""Collective and size in bytes: both placements are judged together."""


SHARE = 1 / 3
"""Of the whole slowdown, on the logarithm: a step that surely explains more is the answer, however it was come upon."""


@dataclass(frozen=True)
class Probe:
    """One value against the first (or against the one before it): a judgement for each size, or why there is none."""

    before: int
    value: int
    judgements: Mapping[Key, Judgement]
    trials: int
    failed: str = ""


@dataclass
class Track:
    """One size: `good` is as fast as the first, `bad` is slow; the change lies between them."""

    key: Key
    good: int
    bad: int
    target: float
    """Logarithm of the ratio of speeds half way from the first to the last."""
    whole: Judgement
    sure: bool = True
    skipped: set[int] = field(default_factory=set)

    @property
    def share(self) -> float:
        """Logarithm of the ratio that a step must lie beyond to be the answer, however it was come upon."""
        return SHARE * 2 * self.target

    @property
    def inside(self) -> list[int]:
        """What may still be measured."""
        return [each for each in range(self.good + 1, self.bad) if each not in self.skipped]


@dataclass(frozen=True)
class Change:
    """Where a size got slower: `step` is the value beyond it against the one before it, measured afresh."""

    key: Key
    before: int
    at: int
    step: Judgement | None
    whole: Judgement
    sure: bool
    between: tuple[int, ...] = ()
    """Values between the two that could not be measured."""

    @property
    def rest(self) -> float | None:
        """Ratio of speeds that the step leaves unexplained; 1 is nothing."""
        if self.step is None or not self.step.ratio or not self.whole.ratio:
            return None
        return self.whole.ratio / self.step.ratio


@dataclass
class Bisection:
    """Bisects `values` in their order. `level` makes the level of a value when it is first measured (a download)."""

    labels: Sequence[str]
    level: Callable[[int], Level]
    plan: Plan
    """Words, ranks, launch, limits and seed of every step; its factors are those of the step."""
    folder: Path
    measure: Measure = run_trial
    clock: Callable[[], float] = time.monotonic
    tell: Callable[[str], None] = lambda _: None
    probes: list[Probe] = field(default_factory=list)
    tracks: list[Track] = field(default_factory=list)
    ends: dict[Key, Judgement] = field(default_factory=dict)
    stop: Stop = Stop.SURE
    _until: float = 0.0
    _begun: set[Path] = field(default_factory=set)
    """Folders of steps whose kept trials are counted as spent."""

    def run(self) -> list[Change]:
        """The changes, one for each size that is surely slower at the end than at the beginning."""
        self._until = self.clock() + self.plan.limits.seconds
        last = len(self.labels) - 1
        ends = self._probe(0, last, {})
        if not self.over and not any(found.verdict is Verdict.SLOWER for found in ends.judgements.values()):
            # Nothing else needs the time that is left: it goes to the sizes that are not sure.
            self.probes.pop()
            ends = self._probe(0, last, {}, self._until - self.clock())
        if ends.failed:
            raise UserError(f"{self.labels[-1]}, the last, cannot be measured: {ends.failed}")
        self.ends = dict(ends.judgements)
        for key, found in ends.judgements.items():
            if found.verdict is Verdict.SLOWER and found.ratio:
                self.tracks.append(Track(key, 0, last, math.log(found.ratio) / 2, found))
        while not self.over and (middle := self._next()) is not None:
            asked: dict[Key, float | None] = {
                track.key: track.target for track in self.tracks if track.good < middle < track.bad
            }
            self._take(self._probe(0, middle, asked))
        return [self._change(track) for track in self.tracks]

    @property
    def over(self) -> bool:
        """Whether time or a person ended it."""
        return self.stop is not Stop.SURE

    def _next(self) -> int | None:
        """The middle of the widest interval that is left; ties go to the one that most sizes share."""
        wanted = [tuple(track.inside) for track in self.tracks if track.inside]
        if not wanted:
            return None
        inside = max(wanted, key=lambda each: (len(each), wanted.count(each)))
        # Of what can be measured, the nearest to the middle of the whole interval.
        middle = (inside[0] + inside[-1]) / 2
        return min(inside, key=lambda each: abs(each - middle))

    def _take(self, probe: Probe) -> None:
        for track in self.tracks:
            if not track.good < probe.value < track.bad:
                continue
            found = probe.judgements.get(track.key)
            track.skipped.add(probe.value)  # never asked for again, whatever it says: a search ends
            if probe.failed or found is None or found.ratio is None:
                continue
            half_way = _shifted(found, track.target, self.plan.limits.margin)
            if self.over and half_way is None:
                continue
            # What lies half way itself holds one of two steps: it is looked for before it.
            slow = half_way is not Verdict.FASTER if half_way else math.log(found.ratio) < track.target
            track.sure &= half_way is not None
            if slow:
                track.bad = probe.value
            else:
                track.good = probe.value

    def _change(self, track: Track) -> Change:
        between = tuple(each for each in range(track.good + 1, track.bad))
        if (track.good, track.bad) == (0, len(self.labels) - 1):
            return Change(track.key, track.good, track.bad, track.whole, track.whole, track.sure, between)
        step = next((p for p in self.probes if (p.before, p.value) == (track.good, track.bad)), None)
        if step is None and not self.over:
            alike = [each for each in self.tracks if (each.good, each.bad) == (track.good, track.bad)]
            # After a step that was not sure, this one must explain a share of the whole by itself.
            step = self._probe(track.good, track.bad, {each.key: None if each.sure else each.share for each in alike})
        found = step.judgements.get(track.key) if step else None
        return Change(track.key, track.good, track.bad, found, track.whole, track.sure and not track.inside, between)

    def _probe(
        self, before: int, value: int, targets: Mapping[Key, float | None], seconds: float | None = None
    ) -> Probe:
        """One experiment of two values, until each size that is asked about is sure."""
        began = self.clock()
        try:
            pair = (self.level(before), self.level(value))
            # A wheel has 300 MB: to fetch and to unpack it is no measuring.
            self._until += self.clock() - began
        except UserError as problem:
            if not self.probes:
                raise  # an end: nothing can be said without it
            if self.clock() > self._until:
                self.stop = Stop.TIME
            probe = Probe(before, value, {}, 0, str(problem))
            self.probes.append(probe)
            self.tell(f"{self.labels[value]} is left out: {problem}")
            return probe
        plan = replace(self.plan, factors=(Factor("value", pair),), seed=self.plan.seed + len(self.probes))
        folder = self.folder / f"{before:03d}-{value:03d}"
        alpha = plan.limits.alpha / (2 + math.ceil(math.log2(max(2, len(self.labels)))))
        goal = _Goal(alpha, targets)
        experiment = Experiment(plan, folder, self.measure, self.clock, self.tell, goal=goal.standing,
                                name=f"{self.labels[before]} and {self.labels[value]}, ")  # fmt: skip
        stop = in_turns([experiment], self._seconds(folder, seconds))
        took = max((trial.seconds for trial in experiment.trials), default=0.0)
        if stop is Stop.INTERRUPTED or (stop is Stop.TIME and self._until - self.clock() <= took):
            self.stop = stop
        trials = experiment.trials
        if stop is Stop.BASELINE or (
            trials and all(t.outcome is not Outcome.MEASURED and not t.variant for t in trials)
        ):
            reason = next((t.reason for t in reversed(trials) if t.variant == 0), "nothing was measured")
            raise UserError(
                f"{self.labels[before]} cannot be measured: {reason}; {folder}/trials holds what it printed"
            )
        failed = [trial for trial in trials if trial.variant == 1]
        reason = failed[-1].reason if given_up(failed) else ""
        probe = Probe(before, value, {} if reason else judged(plan, trials, alpha), len(trials), reason)
        self.probes.append(probe)
        self.tell(f"{self.labels[value]} against {self.labels[before]}: {reason or 'measured'}")
        return probe

    def _seconds(self, folder: Path, more: float | None) -> float:
        """Of a step with all its processes: its share of the time, or `more` than was measured of it.

        What earlier processes measured is spent. A search that goes on has the shares that it had, so that it ends its
        steps where they ended.
        """
        share, kept = self._share(), spent_s(read_trials(folder))
        if folder not in self._begun:
            self._begun.add(folder)
            self._until -= kept
        return share if more is None else more + kept

    def _share(self) -> float:
        """Seconds of this step: a size that noise leaves undecided must not take the time of those that are slow."""
        left = max(0.0, self._until - self.clock())
        if not self.probes:
            return left / 3
        widest = max((len(track.inside) for track in self.tracks), default=0)
        return left / (math.ceil(math.log2(widest + 1)) + 1)


@dataclass(frozen=True)
class _Goal:
    """Settled when these sizes, or all, are sure to be different or not; with a target, on which side it lies."""

    alpha: float
    targets: Mapping[Key, float | None]

    def standing(self, plan: Plan, trials: Sequence[Trial]) -> _Standing:
        """For `loop.Experiment`."""
        second = [trial for trial in trials if trial.variant == 1]
        if given_up(second):
            return _Standing(True)
        found = judged(plan, trials, self.alpha)
        if not found:
            return _Standing(False)
        wanted = self.targets or dict.fromkeys(found)
        margin = plan.limits.margin
        sure = all(_decided(found[key], target, margin) for key, target in wanted.items() if key in found)
        return _Standing(sure)


@dataclass(frozen=True)
class _Standing:
    settled: bool
    alive: Sequence[int] = (0, 1)


def judged(plan: Plan, trials: Sequence[Trial], alpha: float) -> dict[Key, Judgement]:
    """The second value against the first, by size; the chance of any false claim among them is `alpha`."""
    table = Table(trials)
    sizes: dict[Key, set[Point]] = {}
    for trial in trials:
        for point in trial.times_us:
            sizes.setdefault((point.collective, point.bytes), set()).add(point)
    limits = plan.limits
    return {
        key: of_rounds(table.logs({1: 1.0, 0: -1.0}, sorted(points)), alpha=alpha / len(sizes), margin=limits.margin,
                       min_rounds=limits.min_rounds)
        for key, points in sorted(sizes.items())
    }  # fmt: skip


def _shifted(found: Judgement, target: float, margin: float) -> Verdict | None:
    """Slower, faster or no different from a ratio whose logarithm is `target`; None where that is not sure."""
    if found.interval is None or found.reason.endswith("are too few"):
        return None
    low, high = math.log(found.interval.low) - target, math.log(found.interval.high) - target
    if high < 0:
        return Verdict.SLOWER
    if low > 0:
        return Verdict.FASTER
    near = min(math.log1p(margin), abs(target) / 2)
    return Verdict.NO_DIFFERENCE if -near <= low and high <= near else None


def _decided(found: Judgement, target: float | None, margin: float) -> bool:
    if target is None:
        return found.sure
    # Something faster than the first is no part of one step down: that is worth being sure of.
    if found.ratio and found.interval and found.ratio > (1 + margin) ** 2 and found.interval.low <= 1 + margin:
        return False
    return _shifted(found, target, margin) is not None


def not_monotone(probes: Sequence[Probe], key: Key, margin: float) -> list[tuple[int, int]]:
    """Pairs of measured values of which the later is surely faster than the earlier: the order explains no such step.

    Each was compared with the first; only intervals that lie apart by more than the margin count.
    """
    ends = [(0, 1.0, 1.0)]
    for probe in sorted(probes, key=lambda each: each.value):
        found = probe.judgements.get(key)
        if probe.before == 0 and found is not None and found.interval is not None:
            ends.append((probe.value, found.interval.low, found.interval.high))
    return [
        (early, late) for index, (early, _, high) in enumerate(ends) for late, low, _ in ends[index + 1 :]
        if low > high * (1 + margin)
    ]  # fmt: skip
