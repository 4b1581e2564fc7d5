"""Experiments and bisections that go on have one budget over all their processes, and come to the same result."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from test_bisect import MIB, Releases, stepped

from busbw.experiment.bisect.search import Bisection
from busbw.experiment.clock import Clock
from busbw.experiment.factors import Factor, Level
from busbw.experiment.loop import Experiment, Stop, read_trials
from busbw.experiment.plan import Limits, Plan
from busbw.experiment.trial import Outcome, Point, Trial

SIZES = 12


class Killed(Releases):
    """Ends the process (here: raises) before a trial of this number."""

    def __init__(self, times: dict[int, list[float]], at: int, seed: int) -> None:
        super().__init__(times, seed, noise=0.1)
        self.at = at

    def measure(self, plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Trial:
        if self.trials == self.at:
            raise SystemExit
        # The noise of a trial is its own, whichever process measures it.
        self.random = random.Random(f"{folder.name}-{number}-{variant}")
        return super().measure(plan, number, variant, folder, limit_s)


def spent_in(folder: Path) -> float:
    return sum(trial.seconds for path in folder.rglob("trials.jsonl") for trial in read_trials(path.parent))


def bisected(folder: Path, at: int, budget: float, seed: int) -> tuple[Bisection, object]:
    machine = Killed({MIB: stepped(SIZES, (7, 1.3)), 4 * MIB: stepped(SIZES, (7, 1.04))}, at, seed)
    plan = Plan((), ("all_reduce",), limits=Limits(seconds=budget))
    done = Bisection([str(n) for n in range(SIZES)], lambda n: Level(str(n)), plan, folder, machine.measure,
                     lambda: machine.now)  # fmt: skip
    return done, done.run()


@pytest.mark.parametrize("budget", [60.0, 200.0, 1e6])
def test_a_bisection_that_is_killed_again_and_again_spends_one_budget_and_finds_the_same(
    tmp_path: Path, budget: float
) -> None:
    whole, found = bisected(tmp_path / "whole", -1, budget, seed=1)
    for seed in range(6):
        folder, chance, killed = tmp_path / f"killed{seed}", random.Random(seed), 0
        for _ in range(3):
            try:
                bisected(folder, chance.randrange(1, 30), budget, seed)
            except SystemExit:
                killed += 1
        done, rest = bisected(folder, -1, budget, seed)
        assert killed > 0
        assert rest == found and done.stop is whole.stop
        assert spent_in(folder) == pytest.approx(spent_in(tmp_path / "whole"))
        assert budget > 1e5 or spent_in(folder) <= budget + 1


def experiment(folder: Path, budget: float, interrupt_at: int = -1) -> tuple[Experiment, Stop]:
    now, trials = [0.0], [0]

    def measure(plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Trial:
        if trials[0] == interrupt_at:
            raise KeyboardInterrupt
        now[0] += 2.0
        trials[0] += 1
        noise, point = random.Random(f"{number} {variant}").gauss(1.0, 0.2), Point("all_reduce", MIB, "in_place")
        return Trial(number, variant, Outcome.MEASURED, 2.0, {point: 100 * noise}, {point: 1.0})

    two = Factor("value", (Level("a"), Level("b")))
    limits = Limits(seconds=budget, rounds=1000)
    one = Experiment(Plan((two,), ("all_reduce",), limits=limits), folder, measure, lambda: now[0])
    return one, one.run().stop


def test_an_experiment_that_goes_on_has_what_is_left_of_its_budget(tmp_path: Path) -> None:
    whole, stop = experiment(tmp_path / "whole", 40.0)
    assert stop is Stop.TIME and len(whole.trials) == 20
    for moment in (1, 5, 19):
        folder = tmp_path / str(moment)
        assert experiment(folder, 40.0, moment)[1] is Stop.INTERRUPTED
        rest, stop = experiment(folder, 40.0)
        assert stop is Stop.TIME and rest.trials == whole.trials


def test_an_experiment_whose_budget_is_spent_goes_on_under_a_larger_one_alone(tmp_path: Path) -> None:
    whole, _ = experiment(tmp_path, 40.0)
    again, stop = experiment(tmp_path, 40.0)
    assert stop is Stop.TIME and again.trials == whole.trials
    more, _ = experiment(tmp_path, 60.0)
    assert len(more.trials) == 30


def test_a_clock_counts_what_is_kept() -> None:
    now = [5.0]
    clock = Clock(10.0, lambda: now[0])
    clock.count([Trial(0, 0, Outcome.MEASURED, 4.0, {})])
    now[0] += 1.5
    assert clock.left_s == 4.5 and clock.has_time()
    now[0] += 1.0
    assert not clock.has_time() and clock.has_time(2.0)
