"""Tuning as experiments, one for each collective, whose question is which candidate is the best at each size."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from busbw.base.errors import UserError
from busbw.experiment.best import Board
from busbw.experiment.loop import Experiment, Measure, Stop, in_turns
from busbw.experiment.plan import Plan
from busbw.experiment.runner import run_trial
from busbw.experiment.trial import Outcome, Point, Trial, point_of
from busbw.experiment.tune.candidates import NCCL, Asked, plan_of
from busbw.records import Case, Record, read_record
from busbw.runs.destination import RECORD_NAME


def take(plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Trial:
    """Measure one candidate over its sizes in processes of its own; kept are the times that are really its own."""
    trial = run_trial(plan, number, variant, folder, limit_s)
    if trial.outcome is not Outcome.MEASURED:
        return trial
    record = read_record(_record_of(folder, trial))
    return own_times(trial, record, plan.factors[0].levels[variant].label)


def own_times(trial: Trial, record: Record, use: str) -> Trial:
    """The trial with the cases out of place that the wanted algorithm really did; what it cannot do went to NCCL."""
    kept = {point_of(case) for case in record.cases if _by(case, use, record)}
    times = {point: value for point, value in trial.times_us.items() if point in kept}
    return replace(trial, times_us=times, busbw_GBps={point: trial.busbw_GBps[point] for point in times})


def _by(case: Case, use: str, record: Record) -> bool:
    if case.outcome != "measured" or case.placement != "out_of_place":
        return False
    if case.algorithm is None:
        library = record.run.library.path or record.run.library.name if record.run.library else "the library"
        raise UserError(
            f"{library} does not say which algorithm it takes, so it is not busbw's GPU library (or an old one): "
            "`busbw tune` measures --library busbw, or a path to a libbusbw_gpu.so"
        )
    return (case.algorithm.split(":")[0] == NCCL) == (use == NCCL)


def _record_of(folder: Path, trial: Trial) -> Path:
    return folder / "trials" / f"r{trial.round:04d}-v{trial.variant:03d}" / RECORD_NAME


@dataclass(frozen=True)
class Collected:
    """What is known of one collective: its candidates at each size, by name."""

    collective: str
    uses: tuple[str, ...]
    board: Board

    @property
    def out(self) -> dict[str, str]:
        """Why a candidate is out."""
        return {self.uses[variant]: reason for variant, reason in self.board.out.items()}

    def us(self, use: str, point: Point) -> float:
        """The median time of a candidate at a size, in microseconds."""
        return self.board.medians[self.uses.index(use)][point]


@dataclass
class Tuning:
    """Measures what is asked for, until the best of every size is known or the rounds or the budget are used up."""

    asked: Asked
    folder: Path
    rounds: int = 12
    budget_s: float = 900.0
    take: Measure = take
    clock: Callable[[], float] = time.monotonic
    tell: Callable[[str], None] = lambda _: None
    experiments: list[Experiment] = field(default_factory=list)

    def run(self) -> Stop:
        """Why it ended. Interrupted or not, `collected` holds everything that was measured."""
        for name in self.asked.collectives:
            plan = plan_of(self.asked, name)
            plan = replace(plan, limits=replace(plan.limits, rounds=self.rounds, seconds=self.budget_s))
            self.experiments.append(
                Experiment(plan, self.folder / name, self.take, self.clock, self.tell, goal=Board, name=f"{name} ")
            )
        stop = in_turns(self.experiments, self.budget_s)
        if stop is Stop.BASELINE:
            failed = next(each for each in self.experiments if 0 in Board(each.plan, each.trials).out)
            reason = failed.trials[-1].reason
            raise UserError(f"nothing can be tuned, since {failed.folder.name} by NCCL cannot be measured: {reason}")
        return stop

    def collected(self) -> Iterator[Collected]:
        for each in self.experiments:
            uses = tuple(level.label for level in each.plan.factors[0].levels)
            yield Collected(each.folder.name, uses, Board(each.plan, each.trials))

    @property
    def gpu(self) -> str:
        """The name of the GPUs; "" where no record has one."""
        for each in self.experiments:
            for trial in each.trials:
                if trial.outcome is Outcome.MEASURED:
                    return gpu_of(read_record(_record_of(each.folder, trial)))
        return ""


def gpu_of(record: Record) -> str:
    """The name of the GPUs; "" where the record has none."""
    return next((rank.device.name for rank in record.run.ranks if rank.device and rank.device.kind == "gpu"), "")
