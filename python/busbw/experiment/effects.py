"""What the trials say: the effect of every variant, factor and pair of factors, with intervals that allow peeking."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from busbw.analysis.statistics import Interval, median
from busbw.analysis.units import format_bytes
from busbw.analysis.verdict import Judged, Judgement, Verdict, of_rounds
from busbw.experiment.factors import Variant
from busbw.experiment.plan import Plan
from busbw.experiment.trial import TOTAL, Outcome, Point, Trial

MAX_FAILURES = 2
"""A variant that crashed, hung or computed wrong results this often in a row is not measured any more."""


@dataclass(frozen=True)
class PointEffect(Judged):
    """One point of a variant against the same point of the baseline."""

    point: Point
    baseline_us: float
    variant_us: float
    baseline_GBps: float
    variant_GBps: float
    judgement: Judgement

    @property
    def sure(self) -> bool:
        """Whether the interval excludes equal, however small the difference."""
        return self.interval is not None and not self.interval.contains(1.0)


@dataclass(frozen=True)
class Effect:
    """A variant against the baseline over all points. Failures explain a missing ratio."""

    variant: int
    rounds: int
    judgement: Judgement
    points: tuple[PointEffect, ...] = ()
    failures: tuple[Trial, ...] = ()
    bound: float | None = None
    """Of a variant that hung: it is at most this fast relative to the baseline, had it ended just after its limit."""

    @property
    def ratio(self) -> float | None:
        """Of speeds, from the rounds that have both: above 1 is faster."""
        return self.judgement.ratio if self.rounds else None

    @property
    def interval(self) -> Interval | None:
        return self.judgement.interval

    @property
    def settled(self) -> bool:
        """Whether more rounds could not change what is said."""
        return self.judgement.sure or self.broken

    @property
    def telling(self) -> PointEffect | None:
        """The size at which the effect is largest among those where it is sure; else the largest size.

        Of several at the largest size, the one that the table of nccl-tests shows first.
        """
        sure = [each for each in self.points if each.sure]
        if sure:
            return max(sure, key=lambda each: abs(math.log(each.ratio)))
        return largest(self.points) if self.points else None

    @property
    def broken(self) -> bool:
        """It failed as often in a row as is tried."""
        return given_up(self.failures)


@dataclass(frozen=True)
class Contrast:
    """A main effect or an interaction: a ratio of speeds, and how far it is from what multiplying would give."""

    name: str
    judgement: Judgement


@dataclass(frozen=True)
class Findings:
    """Everything that an experiment found."""

    effects: tuple[Effect, ...]
    main: tuple[Contrast, ...]
    interactions: tuple[Contrast, ...]
    best: int
    rivals: tuple[int, ...]
    """Variants that cannot be told from the best."""
    baseline: tuple[Trial, ...]
    plan: Plan

    @property
    def settled(self) -> bool:
        return all(effect.settled for effect in self.effects)

    @property
    def alive(self) -> list[int]:
        """The baseline and whoever is not settled; of a factorial, everybody that works, as its effects need all."""
        alive = [0]
        for effect in self.effects:
            leading = effect.judgement.verdict is Verdict.FASTER and not self.plan.limits.any_point
            if not effect.broken and (not effect.settled or leading or len(self.plan.factors) > 1):
                alive.append(effect.variant)
        return alive


def given_up(trials: Sequence[Trial]) -> bool:
    """Whether the last of these trials of one variant say that it is not worth another.

    Hanging costs a whole limit, and wrong results get no second chance.
    """
    last = failures_of(trials)
    return len(last) >= MAX_FAILURES or any(trial.outcome in {Outcome.HUNG, Outcome.WRONG} for trial in last)


def failures_of(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """The failures since the last success."""
    return tuple(reversed(list(itertools.takewhile(lambda t: t.outcome is not Outcome.MEASURED, reversed(trials)))))


class Table:
    """Trials by round and variant, and log-ratios between variants of one round."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        self.trials = tuple(trials)
        self._by: dict[int, dict[int, Trial]] = {}
        for trial in trials:
            self._by.setdefault(trial.round, {})[trial.variant] = trial

    def of(self, variant: int) -> list[Trial]:
        """The trials of one variant, by round."""
        return [by[variant] for _, by in sorted(self._by.items()) if variant in by]

    def logs(self, weights: Mapping[int, float], points: Sequence[Point] = ()) -> list[float]:
        """Per round in which all were measured: the weighted sum of log speeds, averaged over these points, or all.

        Of a job whose calls were timed together that time alone: what is called often counts as often.
        """
        found = []
        for _, by in sorted(self._by.items()):
            chosen = [by.get(variant) for variant in weights]
            if any(trial is None or trial.outcome is not Outcome.MEASURED for trial in chosen):
                continue
            sets = [trial.times_us for trial in chosen if trial is not None]
            common = sorted(points or set(sets[0]).intersection(*sets[1:]))
            if not points and (total := [point for point in common if point.placement == TOTAL]):
                common = total
            if not common or any(each not in times for times in sets for each in common):
                continue
            rate = [
                math.fsum(-w * math.log(times[p]) for w, times in zip(weights.values(), sets, strict=True))
                for p in common
            ]
            found.append(math.fsum(rate) / len(rate))
        return found


def find(plan: Plan, trials: Sequence[Trial]) -> Findings:
    """All effects; every interval is corrected for the number of claims of its kind, so that alpha holds for all."""
    table = Table(trials)
    variants = plan.variants
    # Two ways to a verdict share the chance of a false one.
    alpha = plan.limits.alpha / max(1, len(variants) - 1) / (2 if plan.limits.any_point else 1)
    effects = tuple(_effect(plan, table, number, alpha) for number in range(1, len(variants)))
    best, rivals = _best(plan, table, effects)
    main = _main(plan, table, variants)
    return Findings(effects, main, _interactions(plan, table, variants), best, rivals, tuple(table.of(0)), plan)


def largest(points: Sequence[PointEffect]) -> PointEffect:
    """The point of the largest size; of several, the one that the table of nccl-tests shows first."""
    return max(points, key=lambda each: (each.point.bytes, each.point.placement))


def _effect(plan: Plan, table: Table, number: int, alpha: float) -> Effect:
    logs = table.logs({number: 1.0, 0: -1.0})
    failures = failures_of(table.of(number))
    judgement = _judged(logs, plan, alpha)
    if not logs:
        judgement = replace(judgement, reason=failures[-1].reason if failures else "not measured yet")
        return Effect(number, 0, judgement, failures=failures, bound=_bound(table, failures))
    effect = Effect(number, len(logs), judgement, _points(plan, table, number, alpha), failures)
    if plan.limits.any_point and judgement.verdict in {Verdict.UNDECIDED, Verdict.NO_DIFFERENCE}:
        return replace(effect, judgement=_by_point(effect, plan) or judgement)
    return effect


def _by_point(effect: Effect, plan: Plan) -> Judgement | None:
    """The verdict at the size with the largest sure effect, about all sizes together; None where no size has one."""
    most = effect.telling
    if most is None or not most.sure or effect.rounds < plan.limits.min_rounds:
        return None
    verdict = Verdict.FASTER if most.ratio > 1 else Verdict.SLOWER
    return replace(effect.judgement, verdict=verdict, reason=f"surely different at {format_bytes(most.point.bytes)}")


def _judged(logs: Sequence[float], plan: Plan, alpha: float) -> Judgement:
    return of_rounds(logs, alpha=alpha, margin=plan.limits.margin, min_rounds=plan.limits.min_rounds)


def _bound(table: Table, failures: Sequence[Trial]) -> float | None:
    """A hung trial took longer than its limit; the whole baseline trial, processes started and all, took less."""
    limits = [trial.limit_s for trial in failures if trial.outcome is Outcome.HUNG and trial.limit_s]
    took = [trial.seconds for trial in table.of(0) if trial.outcome is Outcome.MEASURED]
    return median(took) / max(limits) if limits and took else None


def _points(plan: Plan, table: Table, number: int, alpha: float) -> tuple[PointEffect, ...]:
    """The effect at every point; with `any_point` the placements of a size together, which makes fewer claims."""
    measured = [set(t.times_us) for n in (0, number) for t in table.of(n) if t.outcome is Outcome.MEASURED]
    groups: dict[Point, list[Point]] = {}
    for point in sorted(set.intersection(*measured)) if measured else []:
        groups.setdefault(replace(point, placement="") if plan.limits.any_point else point, []).append(point)
    found = []
    for points in groups.values():
        logs = table.logs({number: 1.0, 0: -1.0}, points)
        if logs:
            found.append(_point_effect(table, number, points[-1], _judged(logs, plan, alpha / len(groups))))
    return tuple(found)


def _point_effect(table: Table, number: int, point: Point, judgement: Judgement) -> PointEffect:
    one = [trial for trial in table.of(number) if point in trial.times_us]
    two = [trial for trial in table.of(0) if point in trial.times_us]
    return PointEffect(
        point,
        median([t.times_us[point] for t in two]), median([t.times_us[point] for t in one]),
        median([t.busbw_GBps[point] for t in two]), median([t.busbw_GBps[point] for t in one]),
        judgement,
    )  # fmt: skip


def _best(plan: Plan, table: Table, effects: Sequence[Effect]) -> tuple[int, tuple[int, ...]]:
    """The fastest variant that is surely faster than the baseline, else the baseline; and who may be as fast."""
    faster = [effect for effect in effects if effect.judgement.verdict is Verdict.FASTER and effect.ratio is not None]
    if not faster:
        return 0, ()
    best = max(faster, key=lambda effect: effect.ratio or 0.0).variant
    others = [effect.variant for effect in faster if effect.variant != best]
    pairs = len(effects) * (len(effects) - 1) / 2
    rivals = []
    for other in others:
        against = _judged(table.logs({best: 1.0, other: -1.0}), plan, plan.limits.alpha / max(pairs, 1))
        if against.interval is None or against.interval.low <= 1:
            rivals.append(other)
    # Of those that cannot be told apart, the one that changes least: nobody should carry a setting that does nothing.
    simplest = min([best, *rivals], key=lambda number: sum(map(bool, plan.variants[number].choice)))
    return simplest, tuple(number for number in (best, *rivals) if number != simplest)


def _main(plan: Plan, table: Table, variants: Sequence[Variant]) -> tuple[Contrast, ...]:
    """Each level against its factor's baseline, averaged over the levels of all other factors."""
    if len(plan.factors) < 2 or plan.one_at_a_time:
        return ()
    wanted: list[tuple[str, dict[int, float]]] = []
    for i, factor in enumerate(plan.factors):
        for level in range(1, len(factor.levels)):
            with_it = [n for n, variant in enumerate(variants) if variant.choice[i] == level]
            without = [n for n, variant in enumerate(variants) if variant.choice[i] == 0]
            weights = {n: 1 / len(with_it) for n in with_it} | {n: -1 / len(without) for n in without}
            wanted.append((f"{factor.name}={factor.levels[level].label}", weights))
    return _contrasts(plan, table, wanted)


def _interactions(plan: Plan, table: Table, variants: Sequence[Variant]) -> tuple[Contrast, ...]:
    """Whether two settings together do more or less than the product of what each does, others at their baseline."""
    if plan.one_at_a_time:
        return ()
    by_choice = {variant.choice: number for number, variant in enumerate(variants)}
    wanted: list[tuple[str, dict[int, float]]] = []
    for (i, one), (j, two) in itertools.combinations(enumerate(plan.factors), 2):
        for a, b in itertools.product(range(1, len(one.levels)), range(1, len(two.levels))):
            corner = {(0, 0): 1.0, (a, 0): -1.0, (0, b): -1.0, (a, b): 1.0}
            weights = {}
            for (x, y), weight in corner.items():
                choice = [0] * len(plan.factors)
                choice[i], choice[j] = x, y
                weights[by_choice[tuple(choice)]] = weight
            name = f"{one.name}={one.levels[a].label} with {two.name}={two.levels[b].label}"
            wanted.append((name, weights))
    return _contrasts(plan, table, wanted)


def _contrasts(plan: Plan, table: Table, wanted: Sequence[tuple[str, dict[int, float]]]) -> tuple[Contrast, ...]:
    found = []
    for name, weights in wanted:
        logs = table.logs(weights)
        if logs:
            found.append(Contrast(name, _judged(logs, plan, plan.limits.alpha / len(wanted))))
    return tuple(found)
