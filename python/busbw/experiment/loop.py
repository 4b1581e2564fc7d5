"""The experiment itself: rounds of trials in shuffled order until the verdicts are sure or the time is up."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Protocol

from busbw.base.errors import UserError
from busbw.experiment.clock import Clock
from busbw.experiment.effects import Findings, find, given_up
from busbw.experiment.plan import Plan
from busbw.experiment.runner import run_trial
from busbw.experiment.trial import Outcome, Trial, from_json, to_json

TRIALS_NAME = "trials.jsonl"
MAX_BYTES = 256 << 20

# Once it is known how long the baseline takes, something that takes this much longer hangs for all purposes.
HUNG_FACTOR = 20.0
LEAST_LIMIT_S = 20.0

OVERTIME_S = 10.0
"""A trial that was begun in time may end this much later."""

Measure = Callable[[Plan, int, int, Path, float], Trial]
Tell = Callable[[str], None]


class Stop(Enum):
    """Why an experiment ended."""

    SURE = "every verdict is sure"
    TIME = "the time is up"
    ROUNDS = "all rounds are done"
    BASELINE = "the baseline does not work"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Result:
    """How it ended, and what was found."""

    plan: Plan
    folder: Path
    trials: tuple[Trial, ...]
    stop: Stop
    findings: Findings


class Standing(Protocol):
    """What the trials so far say about going on."""

    @property
    def settled(self) -> bool: ...

    @property
    def alive(self) -> Sequence[int]:
        """The variants that the next round measures."""


Goal = Callable[[Plan, Sequence[Trial]], Standing]
"""What is wanted: each variant against the baseline (`find`), or the best at each size (best.Board)."""


@dataclass
class Experiment:
    """Carries out a plan in a folder. What is there already counts: an experiment goes on where it was cut off."""

    plan: Plan
    folder: Path
    measure: Measure = run_trial
    clock: Callable[[], float] = time.monotonic
    tell: Tell = lambda _: None
    trials: list[Trial] = field(default_factory=list)
    goal: Goal = find
    name: str = ""
    together: Callable[[int, Sequence[int]], object] | None = None
    """Measures all variants of a round at once, in this order; `measure` then only fetches what each gave."""

    def run(self) -> Result:
        """Measure until sure; an interrupted experiment reports what it has."""
        stop = in_turns([self], self.plan.limits.seconds)
        return Result(self.plan, self.folder, tuple(self.trials), stop, find(self.plan, self.trials))

    def round(self, number: int, until: float) -> Stop | None:
        """Measure every variant that is alive once, those done already left out; None where it goes on."""
        standing = self.goal(self.plan, self.trials)
        if standing.settled:
            return Stop.SURE
        done = {trial.variant for trial in self.trials if trial.round == number}
        if done and any(trial.round > number for trial in self.trials):
            return None
        order = [variant for variant in self._order(number, standing.alive) if variant not in done]
        for variant in order:
            if self.together is None or variant == order[0]:
                if self.clock() + self._typical_s() > until and self.trials:
                    return Stop.TIME
                if self.together is not None:
                    self.together(number, order)
            if not self._trial(number, variant, until - self.clock()):
                return Stop.TIME
            if self._failed(0):
                return Stop.BASELINE
        return None

    def _order(self, number: int, alive: Sequence[int]) -> list[int]:
        """Shuffled; the baseline comes first in the first round, since where it cannot be measured nothing can."""
        order = self.plan.order(number, list(alive))
        return sorted(order, key=bool) if number == 0 else order

    def _trial(self, number: int, variant: int, left_s: float) -> bool:
        """Measure once; False where the time ran out before the trial's own limit, which says nothing about it."""
        limit = self._limit_s()
        granted = min(limit, max(left_s, 0.0) + OVERTIME_S)
        trial = self.measure(self.plan, number, variant, self.folder, granted)
        if trial.outcome is Outcome.HUNG and granted < limit:
            return False
        self.trials.append(trial)
        append_trial(self.folder, trial)
        name = self.plan.variants[variant].name
        how = (
            f"{trial.seconds:.1f} s" if trial.outcome is Outcome.MEASURED else f"{trial.outcome.value}: {trial.reason}"
        )
        self.tell(f"round {number + 1}, {self.name}{name}: {how}")
        return True

    def _failed(self, variant: int) -> bool:
        return given_up([trial for trial in self.trials if trial.variant == variant])

    def _limit_s(self) -> float:
        took = [t.seconds for t in self.trials if t.variant == 0 and t.outcome is Outcome.MEASURED]
        most = self.plan.limits.trial_seconds
        return min(most, max(LEAST_LIMIT_S, HUNG_FACTOR * max(took))) if took else most

    def _typical_s(self) -> float:
        took = sorted(t.seconds for t in self.trials if t.outcome is Outcome.MEASURED)
        return took[len(took) // 2] if took else 0.0


def in_turns(experiments: Sequence[Experiment], seconds: float) -> Stop:
    """A round of each experiment in turn, until all are sure, their rounds are done or the time is up.

    The one place that decides when measuring ends. Trials that are kept already count as spent: the time is that of all
    processes together.
    """
    clock = Clock(seconds, experiments[0].clock)
    for each in experiments:
        each.trials = read_trials(each.folder)
        clock.count(each.trials)
    until = clock.now() + clock.left_s
    going = list(experiments)
    try:
        for number in range(max(each.plan.limits.rounds for each in experiments)):
            for each in list(going):
                stop = each.round(number, until)
                if stop is Stop.SURE:
                    going.remove(each)
                elif stop is not None:
                    return stop
    except KeyboardInterrupt:
        return Stop.INTERRUPTED
    sure = all(each.goal(each.plan, each.trials).settled for each in going)
    return Stop.SURE if sure else Stop.ROUNDS


def read_trials(folder: Path) -> list[Trial]:
    """The trials of an experiment so far; a last line that was cut off is left out."""
    path = folder / TRIALS_NAME
    if not path.exists():
        return []
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UserError(f"{path} is larger than {MAX_BYTES >> 20} MiB, which no experiment's trials are")
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        lines = whole.decode().split("\n")
        if len(whole) < len(data):
            # Cut off in mid-line: the next trial starts on a line of its own. What stands is not written again, which a
            # kill could cut off too.
            os.truncate(path, len(whole))
    except (OSError, ValueError) as problem:
        raise UserError(f"the trials in {path} cannot be read: {problem}") from problem
    return [from_json(line, f"{path}:{number}") for number, line in enumerate(lines, start=1) if line]


def append_trial(folder: Path, trial: Trial) -> None:
    """Keep a trial as soon as it is there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / TRIALS_NAME).open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(to_json(trial) + "\n")
    except OSError as problem:
        raise UserError(f"the trial cannot be kept in {folder}: {problem.strerror or problem}") from problem
