"""A machine whose speeds are known: what an experiment finds can be compared with the truth."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from pathlib import Path

from busbw.experiment.factors import variable
from busbw.experiment.loop import Experiment, Result
from busbw.experiment.plan import Limits, Plan
from busbw.experiment.trial import Outcome, Point, Trial

POINT = Point("all_reduce", 1 << 20, "out_of_place", "float sum")
Noise = Callable[[random.Random], float]


def quiet(rng: random.Random) -> float:
    return rng.gauss(0, 0.02)


def spiky(rng: random.Random) -> float:
    """2 % of noise, and now and then a neighbour who takes a good part of the machine."""
    return rng.gauss(0, 0.02) + (rng.expovariate(2) if rng.random() < 0.1 else 0.0)


def plan(*vary: str, **limits: float) -> Plan:
    return Plan(tuple(variable(text) for text in vary), ("all_reduce",), limits=Limits(**limits))  # type: ignore[arg-type]


class Machine:
    """Takes 100 us times the product of what each variant's settings cost, with noise and a clock that drifts."""

    def __init__(self, costs: Mapping[str, float], seed: int, *, noise: Noise = quiet, drift: float = 0.0) -> None:
        self.costs = costs
        self.random = random.Random(seed)
        self.noise = noise
        self.drift = drift
        self.now = 0.0
        self.measured: list[tuple[int, int]] = []

    def measure(self, plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Trial:
        self.measured.append((number, variant))
        self.now += 1.0
        name = plan.variants[variant].name
        if self.costs.get(name) == math.inf:
            self.now += limit_s
            return Trial(number, variant, Outcome.HUNG, limit_s, reason=f"no result in {limit_s:g} s", limit_s=limit_s)
        if self.costs.get(name) == -math.inf:
            return Trial(number, variant, Outcome.CRASHED, 0.5, reason="exit code 3: no such algorithm")
        time_us = 100 * self.costs.get(name, 1.0) * math.exp(self.noise(self.random) + self.drift * self.now)
        return Trial(number, variant, Outcome.MEASURED, 1.0, {POINT: time_us}, {POINT: 1e3 / time_us})

    def run(self, chosen: Plan, folder: Path) -> Result:
        return Experiment(chosen, folder, self.measure, lambda: self.now).run()
