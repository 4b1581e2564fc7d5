"""Twenty more kinds of planted regressions beside those of planted.py: where steps lie, what fails, what noise does."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from planted import SIZES, Planted, steps

Steps = list[tuple[int, float]]


class Drawn:
    """What a kind may use: how many releases, where, by how much."""

    def __init__(self, kind: str, seed: int) -> None:
        chance = random.Random(f"{kind} {seed}")
        self.count = chance.choice([8, 12, 16, 20, 32])
        self.at = chance.randrange(2, self.count - 2)
        self.slow = chance.choice([1.08, 1.15, 1.4, 2.5])
        self.other = chance.choice([each for each in range(2, self.count - 1) if abs(each - self.at) > 1])
        self.size = chance.choice(SIZES)
        self.some = chance.sample(range(1, self.count), 3)
        self.made = Planted(kind, seed, {}, {})

    def of(self, *at: tuple[int, float], truth: set[int] | None = None) -> Planted:
        """All sizes alike; the truth is where something happens, unless it is said."""
        true = {place for place, _ in at} if truth is None else truth
        times = {size: steps(self.count, *at) for size in SIZES}
        return replace(self.made, times=times, truth=dict.fromkeys(SIZES, true))

    def levels(self, times: list[float], truth: set[int]) -> Planted:
        return replace(self.made, times={size: list(times) for size in SIZES}, truth=dict.fromkeys(SIZES, truth))

    @property
    def usual(self) -> Planted:
        return self.of((self.at, self.slow))

    @property
    def near(self) -> set[int]:
        """The step and the release before it, which must be measured."""
        return {self.at, self.at - 1}

    def sizes_apart(self) -> Planted:
        pairs = list(zip(SIZES, self.some, strict=True))
        return replace(self.made, times={size: steps(self.count, (at, self.slow)) for size, at in pairs},
                       truth={size: {at} for size, at in pairs})  # fmt: skip

    def a_size_faster(self) -> Planted:
        faster, usual = steps(self.count, (self.at, 1 / self.slow)), self.usual
        return replace(usual, times={**usual.times, self.size: faster}, truth={**usual.truth, self.size: set()})

    def slow_releases(self) -> Planted:
        times = steps(self.count, (self.at, self.slow))
        times[self.other] *= 1.3
        return self.levels(times, {self.at} | ({self.other} if self.other < self.at else set()))


def one_slow(one: Drawn) -> list[float]:
    return [one.slow if at == one.at else 1.0 for at in range(one.count)]


def sawtooth(one: Drawn) -> list[float]:
    return [1.1 if at % 2 and at < one.count - 1 else 1.0 for at in range(one.count)]


def creep(one: Drawn) -> Steps:
    return [(each, 1.004) for each in range(1, one.count)]


OF: dict[str, Callable[[Drawn], Planted]] = {
    "first step": lambda one: one.of((1, one.slow)),
    "last step": lambda one: one.of((one.count - 1, one.slow)),
    "huge": lambda one: one.of((one.at, 12.0)),
    "three steps": lambda one: one.of(*((each, 1.15) for each in one.some)),
    "equal halves": lambda one: one.of(*((each, 1.25) for each in one.some[:2])),
    "sizes apart": Drawn.sizes_apart,
    "size faster": Drawn.a_size_faster,
    "every other crashes": lambda one: replace(
        one.usual, crashing=frozenset(range(1, one.count - 1, 2)) - one.near),
    "block missing": lambda one: replace(
        one.usual, missing=frozenset(range(one.other, min(one.count - 1, one.other + 4))) - one.near),
    "neighbour crashes": lambda one: replace(one.usual, crashing=frozenset({one.at - 1})),
    "one slow release": lambda one: one.levels(one_slow(one), set()),
    "a slow release and a step": Drawn.slow_releases,
    "sawtooth": lambda one: one.levels(sawtooth(one), set()),
    "creep then step": lambda one: one.of(*creep(one), (one.at, 1.3), truth={one.at}),
    "faster then slower": lambda one: one.of((1, 1 / 1.3), (one.at, 1.3 * one.slow), truth={one.at}),
    "noise 3%": lambda one: replace(one.usual, usual_noise=0.03),
    "noise 8%": lambda one: replace(one.of((one.at, max(one.slow, 1.4))), usual_noise=0.08),
    "noisy after": lambda one: replace(one.usual, noise=dict.fromkeys(range(one.at, one.count), 0.08)),
    "strong drift": lambda one: replace(one.usual, drift=0.006),
    "levels 1.5": lambda one: replace(one.usual, second_level=1.5),
}  # fmt: skip
KINDS = tuple(OF)


def make(kind: str, seed: int) -> Planted:
    return OF[kind](Drawn(kind, seed))
