"""Forty regressions planted into made-up releases, each with its truth, and what a bisection made of them.

Half of them (odd numbers) were set aside when the search was looked at again; both halves are scored apart.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from busbw.base.errors import UserError
from busbw.experiment.bisect.search import Bisection, Change
from busbw.experiment.bisect.text import result_text, sure_of
from busbw.experiment.factors import Level
from busbw.experiment.plan import Limits, Plan
from busbw.experiment.trial import Outcome, Point, Trial

SIZES = (1 << 10, 1 << 20, 1 << 30)
SHAPES = (
    "one size", "comes back", "comes back and again", "noisy release", "crash at init", "hang at init",
    "missing wheel", "wrong hash", "two steps", "faster in the middle", "none", "crash at the step", "creep",
    "other size other step", "noisy machine", "clock drifts", "small step", "bimodal", "hang at the step", "all faster",
)  # fmt: skip


@dataclass
class Planted:
    """Times by size and release over those of the first, and what goes wrong."""

    shape: str
    seed: int
    times: Mapping[int, list[float]]
    truth: Mapping[int, set[int]]
    """By size the releases at which it got slower, any of which may be named; empty: nothing may be."""
    noise: Mapping[int, float] = field(default_factory=dict)
    crashing: frozenset[int] = frozenset()
    hanging: frozenset[int] = frozenset()
    missing: frozenset[int] = frozenset()
    usual_noise: float = 0.015
    drift: float = 0.0
    second_level: float = 1.0


def steps(count: int, *at: tuple[int, float]) -> list[float]:
    return [math.prod(factor for place, factor in at if number >= place) for number in range(count)]


def plant(number: int) -> Planted:
    """The scenario of that number; two of each shape, of which one is set aside."""
    shape = SHAPES[number // 2 % len(SHAPES)]
    chance = random.Random(f"planted {number}")
    count = chance.choice([9, 14, 18, 24])
    at = chance.randrange(2, count - 2)
    slow = chance.choice([1.06, 1.12, 1.3, 1.8])
    size = chance.choice(SIZES)
    near = frozenset({chance.choice([each for each in range(1, count - 1) if each not in (at - 1, at)])})
    later = chance.randrange(at + 1, count)
    first = chance.randrange(1, at)
    other = chance.choice([each for each in range(1, count) if each != at])
    creep = [(each, 1.02) for each in range(1, count)]
    # What happens at which release by what factor, and where it got slower.
    everywhere: dict[str, tuple[list[tuple[int, float]], set[int]]] = {
        "comes back": ([(at, slow), (later, 1 / slow)], set()),
        "comes back and again": ([(first, slow), (at, 1 / slow), (later, slow)], {first, later}),
        "two steps": ([(at, slow), (later, 1.2)], {at, later}),
        "faster in the middle": ([(at, 1.5), (later, 0.8)], {at}),
        "none": ([], set()), "creep": (creep, {each for each, _ in creep}), "small step": ([(at, 1.035)], {at}),
        "all faster": ([(at, 1 / slow)], set()),
    }  # fmt: skip
    of_size = {"one size": {size: ([(at, slow)], {at})}, "other size other step": {size: ([(other, slow)], {other})}}
    usual = ([], set[int]()) if shape == "one size" else ([(at, slow)], {at})
    said = {each: of_size.get(shape, {}).get(each, everywhere.get(shape, usual)) for each in SIZES}
    made = Planted(shape, number, {each: steps(count, *said[each][0]) for each in SIZES},
                   {each: said[each][1] for each in SIZES})  # fmt: skip
    made.noise = dict.fromkeys([*near, at], 0.15) if shape == "noisy release" else {}
    made.crashing = {"crash at init": near, "crash at the step": frozenset({at})}.get(shape, frozenset())
    made.hanging = {"hang at init": near, "hang at the step": frozenset({at})}.get(shape, frozenset())
    made.missing = near if shape in {"missing wheel", "wrong hash"} else frozenset()
    made.usual_noise = 0.05 if shape == "noisy machine" else made.usual_noise
    made.drift = 0.002 if shape == "clock drifts" else 0.0
    made.second_level = 1.2 if shape == "bimodal" else 1.0
    return made


class Machine:
    """Measures planted releases: a trial takes 3 s, one that hangs its limit."""

    def __init__(self, planted: Planted, seed: int) -> None:
        self.planted, self.now, self.trials = planted, 0.0, 0
        self.random = random.Random(seed)

    def level(self, number: int) -> Level:
        if number in self.planted.missing:
            why = "no wheel of it" if self.planted.shape == "missing wheel" else "its hash is not that of its list"
            raise UserError(why)
        return Level(str(number))

    def measure(self, plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Trial:
        del folder
        planted, value = self.planted, int(plan.factors[0].levels[variant].label)
        self.trials += 1
        if value in planted.hanging:
            self.now += limit_s
            return Trial(number, variant, Outcome.HUNG, limit_s, reason="nothing was heard of it")
        self.now += 3.0
        if value in planted.crashing:
            return Trial(number, variant, Outcome.CRASHED, 3.0, reason="exit code 3")
        noise = planted.noise.get(value, planted.usual_noise)
        run = self.random.gauss(0, noise) + planted.drift * self.trials
        level = planted.second_level if self.random.random() < 0.3 else 1.0
        found = {
            Point("all_reduce", size, placement):
                100 * times[value] * level * math.exp(run + self.random.gauss(0, 0.3 * noise))
            for size, times in planted.times.items() for placement in ("in_place", "out_of_place")
        }  # fmt: skip
        return Trial(number, variant, Outcome.MEASURED, 3.0, found, dict.fromkeys(found, 1.0))


def bisected(planted: Planted, folder: Path, seed: int = 0, seconds: float = 900.0) -> tuple[Bisection, list[Change]]:
    count = len(next(iter(planted.times.values())))
    machine = Machine(planted, seed + planted.seed)
    plan = Plan((), ("all_reduce",), limits=Limits(seconds=seconds))
    labels = [f"2.{number}" for number in range(count)]
    done = Bisection(labels, machine.level, plan, folder, machine.measure, lambda: machine.now)
    return done, done.run()


def wrong(planted: Planted, done: Bisection, changes: Sequence[Change]) -> list[str]:
    """What was claimed and is not so, or is so and was not found; "unsure" leads what was said without being sure."""
    said: list[str] = []
    by = {change.key[1]: change for change in changes}
    lost = planted.crashing | planted.hanging | planted.missing
    for size, truth in planted.truth.items():
        change = by.get(size)
        if not truth and change is not None:
            said.append(f"{size}: {change.before} to {change.at} is no step")
        if not truth:
            continue
        if change is None:
            end = done.ends.get(("all_reduce", size))
            said.append(f"{'' if end and end.sure else 'unsure '}{size}: the step at {sorted(truth)} was not found")
        elif change.at - change.before > 1:
            inside = any(change.before < each <= change.at for each in truth)
            if not inside or not set(change.between) <= lost:
                said.append(f"{'' if not done.over else 'unsure '}{size}: {change.before} to {change.at}, not {truth}")
        elif change.at not in truth:
            said.append(f"{'' if sure_of(change) else 'unsure '}{size}: {change.at} is none of {sorted(truth)}")
        elif not sure_of(change):
            said.append(f"unsure {size}: {change.at} is right")
    return said


def remarks(done: Bisection, changes: list[Change]) -> str:
    return result_text(done, changes, "release")
