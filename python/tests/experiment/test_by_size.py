"""Libraries in turn: every size by itself, rounds that all play at once, and what each gave read from its record."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from busbw.analysis.verdict import Verdict
from busbw.experiment.by_size import BySize
from busbw.experiment.factors import Factor, Level
from busbw.experiment.loop import Experiment, Stop, in_turns
from busbw.experiment.plan import Limits, Plan
from busbw.experiment.resident import Resident, Residents
from busbw.experiment.trial import Outcome, Point, Trial
from busbw.launch.turns import StillRuns, Turns
from busbw.records import Case, Library, Rank, Run, Tool, to_json

SMALL, LARGE = Point("all_reduce", 8, "in_place"), Point("all_reduce", 1 << 20, "in_place")


def plan(libraries: int = 2, **limits: float) -> Plan:
    levels = tuple(Level(str(number), library=str(number)) for number in range(libraries))
    return Plan((Factor("library", levels),), (), limits=Limits(**limits))  # type: ignore[arg-type]


def trials(rounds: int, large: Callable[[int, int], float]) -> list[Trial]:
    """B is twice as fast at the small size; the time at the large one is told by variant and round."""
    return [
        Trial(number, variant, Outcome.MEASURED, 0.1, {SMALL: (10.0, 5.0)[variant] + 0.01 * number,
                                                       LARGE: large(variant, number)})
        for number in range(rounds) for variant in (0, 1)
    ]  # fmt: skip


def test_it_is_settled_once_every_size_has_a_verdict_and_not_before() -> None:
    noisy = trials(4, lambda variant, number: 100.0 * (1 + 0.3 * math.sin(7 * number + 3 * variant)))
    standing = BySize(plan(), noisy)
    assert standing.judged(1)[SMALL].verdict is Verdict.FASTER
    assert standing.judged(1)[LARGE].verdict is Verdict.UNDECIDED
    assert (standing.settled, standing.alive) == (False, [0, 1])
    clear = BySize(plan(), trials(4, lambda variant, number: (100.0, 200.0)[variant] + 0.1 * number))
    assert clear.judged(1)[LARGE].verdict is Verdict.SLOWER
    assert (clear.settled, clear.alive) == (True, [0])
    assert not BySize(plan(), []).settled


def test_a_library_that_is_settled_or_broken_is_measured_no_more() -> None:
    found = trials(4, lambda variant, number: (100.0, 200.0)[variant] + 0.1 * number)
    found += [Trial(number, 2, Outcome.CRASHED, 0.1, reason="it broke") for number in range(2)]
    found += [Trial(0, 3, Outcome.MEASURED, 0.1, {SMALL: 10.0, LARGE: 100.0})]
    assert BySize(plan(4), found).alive == [0, 3]


def test_a_round_that_all_play_together_is_played_once_and_ends_with_the_budget(tmp_path: Path) -> None:
    played: list[tuple[int, list[int]]] = []
    now = [0.0]

    def together(number: int, order: Sequence[int]) -> None:
        played.append((number, sorted(order)))
        now[0] += 1.0

    def measure(_: Plan, number: int, variant: int, __: Path, ___: float) -> Trial:
        noise = math.sin(5 * number + 2 * variant)
        return Trial(number, variant, Outcome.MEASURED, 0.5, {SMALL: 10.0 + noise, LARGE: 100.0 + noise})

    one = Experiment(plan(), tmp_path, measure, clock=lambda: now[0], goal=BySize, together=together)
    assert in_turns([one], 4.2) is Stop.TIME
    assert played == [(number, [0, 1]) for number in range(4)]
    assert [(trial.round, trial.variant) for trial in sorted(one.trials, key=lambda t: (t.round, t.variant))] == [
        (number, variant) for number in range(4) for variant in (0, 1)
    ]


class FakeTurns(Turns):
    """Engines that write a case for each cycle; no sockets."""

    def __init__(self, records: Sequence[Path]) -> None:
        self.records = records
        self.late = set()
        self.cycles = 0

    def cycle(self, order: Sequence[int], still_runs: StillRuns, limit_s: float) -> dict[int, float]:
        for number in order:
            with self.records[number].open("a") as file:
                file.write(case(self.cycles, 10.0 * (number + 1) + self.cycles) + "\n")
        self.cycles += 1
        return dict.fromkeys(order, 0.25)


def case(cycle: int, time_us: float) -> str:
    return to_json(Case("r", cycle, "all_reduce", 8, "in_place", "measured", time_us, 1.0, 1.0, cycle=cycle))


HEAD = to_json(Run("r", "2026-01-01T00:00:00Z", Tool("busbw", "0"), Library("x"), (Rank(0, "host"),)))


def test_each_round_has_the_times_of_its_own_cycle(tmp_path: Path) -> None:
    records = [tmp_path / name for name in "AB"]
    for each in records:
        each.write_text(HEAD + "\n")
    turns = FakeTurns(records)
    residents = [Resident(number, record, lambda: "it ended") for number, record in enumerate(records)]
    measuring = Residents(turns, residents, lambda _: True)
    for number in range(3):
        measuring.together(number, [1, 0])
        for variant in (0, 1):
            trial = measuring.measure(plan(), number, variant, tmp_path, 1.0)
            assert (trial.outcome, trial.seconds) == (Outcome.MEASURED, 0.25), trial.reason
            assert list(trial.times_us.values()) == [10.0 * (variant + 1) + number]
    crashed = measuring.measure(plan(), 3, 0, tmp_path, 1.0)
    assert (crashed.outcome, crashed.reason) == (Outcome.CRASHED, "it ended")
    turns.late.add(1)
    assert measuring.measure(plan(), 3, 1, tmp_path, 1.0).outcome is Outcome.HUNG
