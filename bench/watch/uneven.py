"""Whom `busbw watch` calls late in healthy jobs whose work is uneven, by made arrivals: no job is run.

    python3 bench/watch/uneven.py [--steps 2000] [--seeds 10] [--ranks 8]

A step is work of about 5 ms, and three all-reduces of all ranks. Nobody is a straggler but where a line says so.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from busbw.watch.arrivals import Arrival, Meeting  # noqa: E402
from busbw.watch.late import Stragglers  # noqa: E402
from busbw.watch.recording import Shape  # noqa: E402

BASE_US = 5000.0
SHAPES = tuple(Shape("all_reduce", count, "float32", "sum", None) for count in (1 << 20, 1 << 18, 4))
Work = Callable[[random.Random, int, int], list[float]]
"""Of a step's number and of how many ranks: how long each of them works, in us."""


def lengths(chance: random.Random, step: int, ranks: int) -> list[float]:
    """Sequences of any length."""
    return [BASE_US * chance.lognormvariate(0.0, 0.3) for _ in range(ranks)]


def nearly_even(chance: random.Random, step: int, ranks: int) -> list[float]:
    return [BASE_US * chance.lognormvariate(0.0, 0.004) for _ in range(ranks)]


def hot_expert(chance: random.Random, step: int, ranks: int) -> list[float]:
    """One rank has more tokens, each time another one."""
    work = nearly_even(chance, step, ranks)
    work[chance.randrange(ranks)] *= 1 + chance.random()
    return work


def collections(chance: random.Random, step: int, ranks: int) -> list[float]:
    """Each rank stops for about 3 ms now and then."""
    return [
        each + (3000 * chance.uniform(0.95, 1.05) if chance.random() < 0.02 else 0)
        for each in nearly_even(chance, step, ranks)
    ]


def bursts(chance: random.Random, step: int, ranks: int) -> list[float]:
    """In some steps half of the ranks wait for a shared disk."""
    work = nearly_even(chance, step, ranks)
    if chance.random() < 0.05:
        for rank in chance.sample(range(ranks), ranks // 2):
            work[rank] += chance.expovariate(1 / 5000)
    return work


def in_turn(chance: random.Random, step: int, ranks: int) -> list[float]:
    """One rank after the other writes its log, each tenth step."""
    work = nearly_even(chance, step, ranks)
    if step % 10 == 0:
        work[step // 10 % ranks] += 2000 * chance.uniform(0.98, 1.02)
    return work


def heavy_tails(chance: random.Random, step: int, ranks: int) -> list[float]:
    return [BASE_US + 50 * (chance.paretovariate(1.5) - 1) for _ in range(ranks)]


def late_start(chance: random.Random, step: int, ranks: int) -> list[float]:
    """The first steps compile, on each rank for as long as that takes."""
    work = nearly_even(chance, step, ranks)
    return [each + chance.uniform(0, 200_000) for each in work] if step < 5 else work


def even_then_uneven(chance: random.Random, step: int, ranks: int) -> list[float]:
    return (nearly_even if step < 500 else lengths)(chance, step, ranks)


def other_data(chance: random.Random, step: int, ranks: int) -> list[float]:
    """Even, but for 40 steps of each 400, as of another set of data."""
    return (lengths if step % 400 >= 360 else nearly_even)(chance, step, ranks)


def levels(chance: random.Random, step: int, ranks: int) -> list[float]:
    """Buckets of lengths: what a rank has lasts for 20 steps. The rank with the longest is late for so long."""
    of = random.Random(step // 20)
    return [BASE_US * of.uniform(0.8, 1.2) * chance.lognormvariate(0, 0.004) for _ in range(ranks)]


def straggler(chance: random.Random, step: int, ranks: int) -> list[float]:
    """Rank 1 is late by 300 us from step 500 on."""
    work = nearly_even(chance, step, ranks)
    work[1] += 300 if step >= 500 else 0
    return work


HEALTHY: tuple[Work, ...] = (
    lengths, nearly_even, hot_expert, collections, bursts, in_turn, heavy_tails, late_start, even_then_uneven,
    other_data,
)  # fmt: skip
LATE: tuple[Work, ...] = (levels, straggler)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--ranks", type=int, default=8)
    args = parser.parse_args()
    for work in (*HEALTHY, *LATE):
        found = [named(work, args.steps, args.ranks, seed) for seed in range(args.seeds)]
        jobs, lines = sum(bool(each) for each in found), sum(map(len, found))
        what = "late" if work in LATE else "healthy"
        first = min((each for names in found for each in names), default=None)
        when = f", the first at step {first[0]:,}" if first else ""
        others = f", of which {sum(rank != 1 for names in found for _, rank in names)} not rank 1" * (work is straggler)
        print(f"{work.__name__:18} {what:8} {jobs:3} of {args.seeds} jobs with a line, {lines} lines{others}{when}")
    return 0


def named(work: Work, steps: int, ranks: int, seed: int) -> list[tuple[int, int]]:
    """Steps at which a rank was called late, and which one."""
    chance, stragglers, now_ns = random.Random(f"{work.__name__} {seed}"), Stragglers(), 1_000_000
    found: list[tuple[int, int]] = []
    for step in range(steps):
        for at, shape in enumerate(SHAPES):
            small = [200 * chance.lognormvariate(0, 0.05) for _ in range(ranks)]
            own_ns = [int(1000 * each) for each in (small if at else work(chance, step, ranks))]
            end_ns = now_ns + max(own_ns) + 50_000
            arrivals = tuple(
                Arrival(rank, f"rank {rank} (node, pid {1000 + rank})", now_ns + own, end_ns, own)
                for rank, own in enumerate(own_ns)
            )
            late = stragglers.take(Meeting(1, len(SHAPES) * step + at + 1, shape, arrivals, 0, True))
            found += [(step, each.rank) for each in late]
            now_ns = end_ns
    return found


if __name__ == "__main__":
    sys.exit(main())
