"""Measures the candidates in shuffled rounds; one that fails, or is far behind at every size, is measured no more."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from busbw.base.errors import UserError
from busbw.experiment.plan import Plan
from busbw.experiment.runner import run_trial
from busbw.experiment.trial import Outcome
from busbw.experiment.tune.candidates import NCCL, Asked, plan_of
from busbw.records import Record, read_record
from busbw.runs.destination import RECORD_NAME

TRIAL_S = 120.0
BEHIND = 1.15
"""A candidate whose median is more than this times the best at each of its sizes will not be the best of any."""
CRASHES = 2
"""So often in a row, and a candidate is given up. Wrong results are never given a second chance."""

Times = dict[int, list[float]]
"""Microseconds per call, by size in bytes: one of each round."""


@dataclass(frozen=True)
class Taken:
    """One child process's record, or why there is none. `wrong`: it computed wrong results."""

    seconds: float
    record: Record | None = None
    reason: str = ""
    wrong: bool = False


Take = Callable[[Plan, int, int, Path, float], Taken]


def take(plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Taken:
    """Measure one candidate over its sizes in processes of its own."""
    trial = run_trial(plan, number, variant, folder, limit_s)
    if trial.outcome is not Outcome.MEASURED:
        return Taken(trial.seconds, reason=trial.reason, wrong=trial.outcome is Outcome.WRONG)
    try:
        record = read_record(folder / "trials" / f"r{number:04d}-v{variant:03d}" / RECORD_NAME)
    except UserError as problem:
        return Taken(trial.seconds, reason=str(problem))
    return Taken(trial.seconds, record)


@dataclass
class Collected:
    """What is known of one collective so far: times by candidate and size, and why a candidate is out."""

    collective: str
    plan: Plan
    times: dict[str, Times] = field(default_factory=dict)
    out: dict[str, str] = field(default_factory=dict)
    crashes: Counter[str] = field(default_factory=Counter)

    @property
    def uses(self) -> list[str]:
        return [level.label for level in self.plan.factors[0].levels]

    def medians(self) -> dict[str, dict[int, float]]:
        """Of every candidate that may be chosen."""
        return {
            use: {size: median(values) for size, values in by.items()}
            for use, by in self.times.items()
            if use not in self.out
        }

    def alive(self) -> list[int]:
        """The candidates that may still be the best somewhere; NCCL always, since gains are told against it."""
        medians = self.medians()
        best: dict[int, float] = {}
        for by in medians.values():
            for size, value in by.items():
                best[size] = min(value, best.get(size, value))
        return [
            i
            for i, use in enumerate(self.uses)
            if use not in self.out
            and (use == NCCL or use not in medians or _close(medians[use], best))
        ]  # fmt: skip


def _close(own: dict[int, float], best: dict[int, float]) -> bool:
    return any(value <= BEHIND * best[size] for size, value in own.items())


@dataclass
class Tuning:
    """Measures what is asked for, in rounds over all collectives, until the rounds or the budget are used up."""

    asked: Asked
    folder: Path
    rounds: int = 3
    budget_s: float = 900.0
    take: Take = take
    clock: Callable[[], float] = time.monotonic
    tell: Callable[[str], None] = lambda _: None
    collected: list[Collected] = field(default_factory=list)
    gpu: str = ""

    def run(self) -> str:
        """Why it ended. Interrupted or not, `collected` holds everything that was measured."""
        self.collected = [Collected(name, plan_of(self.asked, name)) for name in self.asked.collectives]
        began = self.clock()
        typical: list[float] = []
        try:
            for number in range(self.rounds):
                for each in self.collected:
                    for variant in self._order(each, number):
                        if typical and self.clock() - began + median(typical) > self.budget_s:
                            return "the budget is spent"
                        typical.append(self._one(each, number, variant))
        except KeyboardInterrupt:
            return "interrupted"
        return "all rounds are done"

    def _order(self, each: Collected, number: int) -> Sequence[int]:
        """NCCL first in the first round: where that cannot be measured, nothing can."""
        order = each.plan.order(number, each.alive())
        return sorted(order, key=lambda variant: variant != 0) if number == 0 else order

    def _one(self, each: Collected, number: int, variant: int) -> float:
        use = each.uses[variant]
        taken = self.take(each.plan, number, variant, self.folder / each.collective, TRIAL_S)
        if taken.record is None:
            self._failed(each, use, taken)
            return taken.seconds
        each.crashes[use] = 0
        found = measured(taken.record, use)
        self.gpu = self.gpu or gpu_of(taken.record)
        times = each.times.setdefault(use, {})
        for size, value in found.items():
            times.setdefault(size, []).append(value)
        self.tell(f"round {number + 1}, {each.collective} {use}: {taken.seconds:.1f} s, {len(found)} sizes")
        return taken.seconds

    def _failed(self, each: Collected, use: str, taken: Taken) -> None:
        if use == NCCL and not any(other.times for other in self.collected):
            raise UserError(f"nothing can be tuned, since {each.collective} by NCCL cannot be measured: {taken.reason}")
        each.crashes[use] += 1
        self.tell(f"{each.collective} {use} failed: {taken.reason}")
        if taken.wrong or each.crashes[use] >= CRASHES:
            each.out[use] = taken.reason


def measured(record: Record, use: str) -> dict[int, float]:
    """Times out of place of the cases that the wanted algorithm really did; what it cannot do went to NCCL."""
    found: dict[int, float] = {}
    for case in record.cases:
        if case.outcome != "measured" or case.placement != "out_of_place" or not case.time_us:
            continue
        if case.algorithm is None:
            library = record.run.library.path or record.run.library.name if record.run.library else "the library"
            raise UserError(
                f"{library} does not say which algorithm it takes, so it is not busbw's GPU library (or an old one): "
                "`busbw tune` measures --library busbw, or a path to a libbusbw_gpu.so"
            )
        if (case.algorithm.split(":")[0] == NCCL) == (use == NCCL):
            found[case.bytes] = case.time_us
    return found


def gpu_of(record: Record) -> str:
    """The name of the GPUs; "" where the record has none."""
    return next((rank.device.name for rank in record.run.ranks if rank.device and rank.device.kind == "gpu"), "")
