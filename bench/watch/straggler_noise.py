"""Power and false alarms of the test for late ranks, by made arrivals with drawn noise: no job is run.

    python3 bench/watch/straggler_noise.py [--noise all] [--seeds 200] [--steps 1500] [--ranks 4] [--late-us 200]

Each seed is a job whose ranks arrive with that noise. From step 300 on, each 150 steps, one rank is later by --late-us
for ten steps. A line says of each kind of noise: the smallest straggler that the tool says it can name within three
steps (median of its words just before each spell); how many spells were named within three and within ten steps, those
apart of which the tool had said that it can; and whom it named in steps and ranks that nobody had slowed.
The kinds in TUNED were looked at while the test was made; those in KEPT once, before its last change; those in LATER
were written after that. Those in TAILS have the quantiles of one machine, and differ in how late arrivals follow each
other; the second test (steady.py) was made with other seeds of them.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from busbw.watch.arrivals import Arrival, Meeting  # noqa: E402
from busbw.watch.late import Stragglers  # noqa: E402
from busbw.watch.recording import Shape  # noqa: E402

SHAPE = Shape("all_reduce", 64, "float32", "sum", None)
FIRST, EVERY, SPELL, SOON = 300, 150, 10, 3
Noise = Callable[[random.Random, int], Iterator[list[float]]]
"""Of how many ranks: how late each of them is by itself, in us, step after step."""


def gaussian(chance: random.Random, ranks: int) -> Iterator[list[float]]:
    while True:
        yield [abs(chance.gauss(0, 20)) for _ in range(ranks)]


def sleeps(chance: random.Random, ranks: int) -> Iterator[list[float]]:
    """Sleeps end up to 60 us late, and once in 5,000 a rank loses its processor for milliseconds."""
    while True:
        yield [
            chance.uniform(0, 60) + (chance.uniform(500, 9000) if chance.random() < 2e-4 else 0) for _ in range(ranks)
        ]


def few_outliers(chance: random.Random, ranks: int) -> Iterator[list[float]]:
    """As a quiet machine has them: one arrival in 100 is later by 50 us to 1 ms."""
    while True:
        yield [
            chance.expovariate(1 / 12) + (50 * 20 ** chance.random() if chance.random() < 0.01 else 0)
            for _ in range(ranks)
        ]


def lognormal(chance: random.Random, ranks: int) -> Iterator[list[float]]:
    """One arrival in ten is more than 100 us late."""
    while True:
        yield [chance.lognormvariate(3.1, 1.2) for _ in range(ranks)]


def periodic(chance: random.Random, ranks: int) -> Iterator[list[float]]:
    """Each rank's processor does something else for 300 us in each 64th step."""
    phase = [chance.randrange(64) for _ in range(ranks)]
    step = 0
    while True:
        step += 1
        yield [chance.expovariate(1 / 12) + (300 if step % 64 == each else 0) for each in phase]


def bursts(chance: random.Random, ranks: int) -> Iterator[list[float]]:
    """Now and then the machine is busy for some hundred steps."""
    is_busy = False
    while True:
        is_busy = chance.random() < 0.99 if is_busy else chance.random() < 0.001
        yield [
            chance.expovariate(1 / 12) + (100 * 50 ** chance.random() if is_busy and chance.random() < 0.2 else 0)
            for _ in range(ranks)
        ]


def student(chance: random.Random, ranks: int) -> Iterator[list[float]]:
    """Student's t with three degrees of freedom."""
    while True:
        yield [abs(15 * chance.gauss(0, 1) / (chance.gammavariate(1.5, 2.0) / 3) ** 0.5) for _ in range(ranks)]


def pareto(chance: random.Random, ranks: int) -> Iterator[list[float]]:
    while True:
        yield [5 * chance.paretovariate(1.3) for _ in range(ranks)]


def wandering(chance: random.Random, ranks: int) -> Iterator[list[float]]:
    """Each rank's lateness is near its last one, as the clock of its processor wanders."""
    now = [0.0] * ranks
    while True:
        now = [0.95 * each + chance.gauss(0, 10) for each in now]
        yield [80 + each for each in now]


def ticks(chance: random.Random, ranks: int) -> Iterator[list[float]]:
    """Processors' ticks of 4 ms: steps of 1.1 ms meet each fourth one, at which a twentieth of them takes 150 us."""
    phase = [chance.uniform(0, 4000) for _ in range(ranks)]
    now = 0.0
    while True:
        now += 1100 + chance.uniform(0, 20)
        yield [
            chance.expovariate(1 / 10)
            + (chance.gauss(150, 10) if (now + each) % 4000 < 1100 and chance.random() < 0.05 else 0)
            for each in phase
        ]


def one_busy_core(chance: random.Random, ranks: int) -> Iterator[list[float]]:
    """One rank shares its processor with somebody: late in 3 % of its calls by any amount, the others hardly ever."""
    who = chance.randrange(ranks)
    while True:
        yield [
            chance.expovariate(1 / 12)
            + (100 * 40 ** chance.random() if chance.random() < (0.03 if rank == who else 1e-3) else 0)
            for rank in range(ranks)
        ]


def two_levels(chance: random.Random, ranks: int) -> Iterator[list[float]]:
    """Sleeps from which a processor wakes in 5 or in 90 us, and one in 300 in 400 us."""
    while True:
        yield [
            chance.gauss(*chance.choice(((5, 1), (90, 8)))) + (chance.gauss(310, 15) if chance.random() < 3e-3 else 0)
            for _ in range(ranks)
        ]


def weibull(chance: random.Random, ranks: int) -> Iterator[list[float]]:
    while True:
        yield [chance.weibullvariate(10, 0.6) for _ in range(ranks)]


def collector(chance: random.Random, ranks: int) -> Iterator[list[float]]:
    """Each rank stops for 2 to 4 ms about each 70th step."""
    while True:
        yield [
            chance.gammavariate(2, 6) + (chance.uniform(2000, 4000) if chance.random() < 1 / 70 else 0)
            for _ in range(ranks)
        ]


def frequencies(chance: random.Random, ranks: int) -> Iterator[list[float]]:
    """Each rank's processor has one of some clocks, for about 40 steps."""
    level = [0.0] * ranks
    while True:
        level = [chance.choice((0.0, 15.0, 40.0, 70.0)) if chance.random() < 1 / 40 else each for each in level]
        yield [each + chance.expovariate(1 / 8) for each in level]


def throttled(chance: random.Random, ranks: int) -> Iterator[list[float]]:
    """A control group's share is used up now and then: all its ranks stop for the rest of 100 ms, in some phases."""
    while True:
        is_over = chance.random() < 0.005
        yield [
            chance.expovariate(1 / 12) + (chance.uniform(10_000, 90_000) if is_over and rank % 2 else 0)
            for rank in range(ranks)
        ]


def siblings(chance: random.Random, ranks: int) -> Iterator[list[float]]:
    """Two ranks share a core: both are late together, by 110 to 170 us, in each 40th step or so."""
    while True:
        both = chance.uniform(110, 170) if chance.random() < 1 / 40 else 0.0
        yield [chance.expovariate(1 / 12) + (both if rank < 2 else 0) for rank in range(ranks)]


def backup(chance: random.Random, ranks: int) -> Iterator[list[float]]:
    """A job of 200 steps each 700 takes the processor of one rank after the other, for 50 us to 1 ms."""
    step = 0
    while True:
        step += 1
        yield [
            chance.expovariate(1 / 12)
            + (50 * 20 ** chance.random() if step % 700 < 200 and rank == step % ranks and chance.random() < 0.3 else 0)
            for rank in range(ranks)
        ]


TAIL = ((1.0, 100.0), (0.2146, 334.0), (0.02146, 1103.0), (0.002, 2600.0), (0.0002, 6000.0))
"""Of late arrivals, which are 0.466 % of all: so many come later than so many us, on a virtual machine."""
LATE_SHARE = 0.00466


def tail_us(chance: random.Random) -> float:
    drawn = max(chance.random(), TAIL[-1][0])
    for (more, low), (less, high) in pairwise(TAIL):
        if drawn >= less:
            return float(low * (high / low) ** (math.log(more / drawn) / math.log(more / less)))
    return TAIL[-1][1]


def tailed(chance: random.Random, ranks: int, in_bursts: float, dense: float, length: float) -> Iterator[list[float]]:
    """So large a share of late arrivals lies in bursts of one rank, of about `length` steps, of which so many are."""
    left = [0] * ranks
    while True:
        made = []
        for rank in range(ranks):
            late = chance.expovariate(1 / 11)
            if left[rank]:
                left[rank] -= 1
                late += tail_us(chance) if chance.random() < dense else 0.0
            elif chance.random() < LATE_SHARE * in_bursts / (dense * length):
                left[rank] = 1 + int(chance.expovariate(1 / length))
            elif chance.random() < LATE_SHARE * (1 - in_bursts):
                late += tail_us(chance)
            made.append(late)
        yield made


def tails(chance: random.Random, ranks: int) -> Iterator[list[float]]:
    """99 % within 53 us, 99.9 % within 334 us, 99.99 % within 1.1 ms, each by itself."""
    return tailed(chance, ranks, 0.0, 0.3, 10.0)


def tails_in_bursts(chance: random.Random, ranks: int) -> Iterator[list[float]]:
    return tailed(chance, ranks, 0.1, 0.3, 10.0)


def tails_in_long_bursts(chance: random.Random, ranks: int) -> Iterator[list[float]]:
    return tailed(chance, ranks, 0.8, 0.15, 40.0)


def tails_in_phases(chance: random.Random, ranks: int) -> Iterator[list[float]]:
    return tailed(chance, ranks, 0.8, 0.05, 200.0)


TUNED: tuple[Noise, ...] = (gaussian, sleeps, few_outliers, lognormal, periodic, bursts)
KEPT: tuple[Noise, ...] = (student, pareto, wandering, ticks, one_busy_core, two_levels)
LATER: tuple[Noise, ...] = (weibull, collector, frequencies, throttled, siblings, backup)
TAILS: tuple[Noise, ...] = (tails, tails_in_bursts, tails_in_long_bursts, tails_in_phases)


@dataclass
class Score:
    """What was named in the jobs of one kind of noise."""

    spells: int = 0
    soon: int = 0
    ever: int = 0
    sure: int = 0
    """Spells of which the tool had said that it can name them within three steps."""
    sure_soon: int = 0
    steps: int = 0
    false: int = 0
    nameable_us: list[float] = field(default_factory=list)

    def text(self) -> str:
        """In a line."""
        known = [each for each in self.nameable_us if each != float("inf")]
        least = f"{median(self.nameable_us):6.0f} us" if len(known) > len(self.nameable_us) / 2 else "  none   "
        part = f"{100 * self.sure_soon / self.sure:5.1f} % of {self.sure:5}" if self.sure else "      of     0"
        return (
            f"nameable {least}; within 3: {100 * self.soon / max(self.spells, 1):5.1f} %, within 10: "
            f"{100 * self.ever / max(self.spells, 1):5.1f} % of {self.spells}; where it had said so {part}; "
            f"false {self.false} in {self.steps:,} steps"
        )


def tried(noise: Noise, seeds: range, steps: int, ranks: int, late_us: float) -> Score:
    """All jobs of one kind of noise."""
    score = Score()
    for seed in seeds:
        _job(score, noise, random.Random(f"{noise.__name__} {seed}"), (steps, ranks), late_us)
    return score


def _job(score: Score, noise: Noise, chance: random.Random, size: tuple[int, int], late_us: float) -> None:
    steps, ranks = size
    stragglers, drawn, now_ns = Stragglers(), noise(chance, ranks), 10**9
    who, first, is_sure = -1, -SPELL, False
    named: set[int] = set()
    for step in range(steps):
        if late_us and step >= FIRST and (step - FIRST) % EVERY == 0:
            who, first = chance.randrange(ranks), step
            least_us = stragglers.nameable_ns(1) / 1000
            is_sure = stragglers.is_nameable(1, 1000 * late_us)
            score.nameable_us.append(least_us)
            score.spells += 1
            score.sure += is_sure
            named.clear()
        is_spell = first <= step < first + SPELL
        late_ns = [int(1000 * each) for each in next(drawn)]
        if is_spell:
            late_ns[who] += int(1000 * late_us)
        for each in stragglers.take(_meeting(step, now_ns, late_ns)):
            if is_spell and each.rank == who:
                score.soon += step < first + SOON and not named
                score.sure_soon += step < first + SOON and not named and is_sure
                score.ever += not named
                named.add(each.rank)
            else:
                score.false += 1
        score.steps += 1
        now_ns += 2_000_000 + max(late_ns)


def _meeting(step: int, now_ns: int, late_ns: list[int]) -> Meeting:
    end_ns = now_ns + 500_000 + max(late_ns) + 20_000
    arrivals = tuple(
        Arrival(rank, f"rank {rank}", now_ns + 500_000 + late, end_ns, 500_000 + late)
        for rank, late in enumerate(late_ns)
    )
    return Meeting(1, step + 1, SHAPE, arrivals, 0, is_synchronous=True)


def main() -> int:
    """Options as in the text above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--noise", default="tuned", help="tuned, kept, later, all (of these), tails, or names with commas between"
    )
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--late-us", type=float, default=200.0)
    args = parser.parse_args()
    sets = {"tuned": TUNED, "kept": KEPT, "later": LATER, "tails": TAILS, "all": TUNED + KEPT + LATER}
    chosen = sets.get(args.noise) or [each for each in sets["all"] + TAILS if each.__name__ in args.noise.split(",")]
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    for noise in chosen:
        score = tried(noise, seeds, args.steps, args.ranks, args.late_us)
        kind = next(name for name, some in sets.items() if noise in some)
        print(f"{noise.__name__:14} {kind}: {score.text()}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
