"""The second test for late ranks: late by nearly the same from one call on, in noise that is late by anything."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import pytest

from busbw.watch.arrivals import Arrival, Meeting
from busbw.watch.late import Late, Stragglers
from busbw.watch.recording import Shape
from busbw.watch.steady import REST, Steady

BENCH = Path(__file__).resolve().parents[3] / "bench" / "watch" / "uneven.py"
SHAPE = Shape("all_reduce", 64, "float32", "sum", None)
SPREAD_NS = 27_000.0
USUAL = 0.0008
NAMED_BY_BURSTS = 3


def met(step: int, now_ns: int, late_us: list[float]) -> Meeting:
    end_ns = now_ns + 500_000 + int(1000 * max(late_us)) + 20_000
    arrivals = tuple(
        Arrival(rank, f"rank {rank}", now_ns + 500_000 + int(1000 * late), end_ns, 500_000 + int(1000 * late))
        for rank, late in enumerate(late_us)
    )
    return Meeting(1, step + 1, SHAPE, arrivals, 0, is_synchronous=True)


def virtual_machine(chance: random.Random) -> list[float]:
    """Of four ranks: 99 % of the arrivals within 53 us, 0.5 % later than 100 us, by up to some ms."""
    return [
        chance.expovariate(1 / 11) + (100 * chance.random() ** -0.7 if chance.random() < 0.0047 else 0)
        for _ in range(4)
    ]


def job(seed: int, steps: int, late_us: float) -> tuple[list[tuple[int, int]], list[tuple[int, Late]]]:
    """First steps and ranks of spells of ten late calls, and who was named at which step."""
    chance, stragglers, now_ns = random.Random(seed), Stragglers(), 10**9
    spells: list[tuple[int, int]] = []
    named: list[tuple[int, Late]] = []
    for step in range(steps):
        late = virtual_machine(chance)
        if late_us and step >= 1000 and step % 200 == 0:
            spells.append((step, chance.randrange(4)))
        if spells and step < spells[-1][0] + 10:
            late[spells[-1][1]] += late_us
        named += [(step, each) for each in stragglers.take(met(step, now_ns, late))]
        now_ns += 3_000_000 + int(1000 * max(late))
    return spells, named


def test_a_rank_200_us_late_is_named_within_three_calls_in_the_noise_of_a_virtual_machine() -> None:
    soon = of = 0
    for seed in range(3):
        spells, named = job(seed, 6000, 200.0)
        by = {(step, late.rank) for step, late in named}
        soon += sum(any((first + at, rank) in by for at in range(3)) for first, rank in spells)
        of += len(spells)
        slowed = {(first + at, rank) for first, rank in spells for at in range(10)}
        assert by <= slowed, "nobody else is named"
        assert all(late.since > step - 40 for step, late in named), "since a call of that spell"
    assert soon >= 0.97 * of, f"{soon} of {of}"


def test_in_that_noise_nobody_is_named_who_is_not_late() -> None:
    assert job(7, 12_000, 0.0)[1] == []


def test_in_noise_of_bursts_a_rank_that_is_late_thrice_by_the_same_is_mostly_left_alone() -> None:
    """A rank's processor is shared for some steps: late in 60 % of them, by anything from 100 us to 250 us."""
    chance, stragglers, now_ns = random.Random(3), Stragglers(), 10**9
    left, named = [0] * 4, 0
    for step in range(6000):
        left = [max(0, each - 1) or (chance.random() < 0.004) * chance.randrange(2, 9) for each in left]
        late = [
            chance.expovariate(1 / 11) + (chance.uniform(100, 250) if each and chance.random() < 0.6 else 0)
            for each in left
        ]
        named += len(stragglers.take(met(step, now_ns, late)))
        now_ns += 3_000_000 + int(1000 * max(late))
    assert named <= NAMED_BY_BURSTS


def test_work_that_stays_uneven_for_a_while_is_no_lateness() -> None:
    """What a rank has to do lasts for 20 steps, by up to 2 ms more or less than the others'."""
    stragglers, now_ns = Stragglers(), 10**9
    for step in range(2000):
        of = random.Random(step // 20)
        late = [of.uniform(0, 2000) + random.Random(f"{step} {rank}").gauss(0, 20) for rank in range(8)]
        assert stragglers.take(met(step, now_ns, [max(0.0, each) for each in late])) == []
        now_ns += 6_000_000


def test_nor_is_it_before_the_spread_of_arrivals_is_known() -> None:
    spec = importlib.util.spec_from_file_location("uneven", BENCH)
    assert spec and spec.loader
    uneven = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(uneven)
    assert [uneven.named(uneven.levels, 100, 8, seed) for seed in range(3)] == [[], [], []]


def test_what_is_said_of_it_has_its_first_call_and_its_lateness() -> None:
    spells, named = job(1, 1400, 300.0)
    late = next(each for step, each in named if step >= spells[0][0])
    assert late.since == spells[0][0] + 1
    assert (late.calls, late.of) == (3, 3)
    assert 250_000 < late.late_ns < 350_000


def fed(steady: Steady, calls: list[int | None], rank: int = 0) -> float:
    """The score after these calls, in us."""

    def usual(by_ns: float) -> float:
        return USUAL if by_ns > 100_000 else 0.0

    return [steady.take(rank, None if late is None else 1000 * late, usual, SPREAD_NS) for late in calls][-1]


def test_an_earlier_call_begins_a_new_run() -> None:
    same, other = fed(Steady(), [200, 210, 190]), fed(Steady(), [400, 410, 200])
    assert same > 14
    assert other < 8


@pytest.mark.parametrize("calls", [[200, 700, 205], [200, 205, 700], [700, 200, 205]])
def test_a_straggler_that_is_late_by_chance_too_goes_on_being_one(calls: list[int | None]) -> None:
    """Such a call is no evidence, and no more than two calls by the same are."""
    pair, steady = fed(Steady(), [200, 205]), Steady()
    assert pair - 4 < fed(steady, calls) <= pair
    run = steady.runs[0]
    assert (sorted(run.late), run.more) == ([200_000, 205_000], 1)


def test_calls_that_are_later_and_later_are_no_evidence() -> None:
    assert fed(Steady(), [200, 500, 1100, 2500, 5000]) < fed(Steady(), [200]) + 0.1


@pytest.mark.parametrize("calls", [[200, 205, None], [200, None, 205]])
def test_a_call_in_time_ends_a_run(calls: list[int | None]) -> None:
    assert fed(Steady(), calls) == pytest.approx(0.0 if calls[-1] is None else fed(Steady(), [205]), abs=0.2)


def test_noise_that_is_late_again_by_the_same_makes_runs_weak_evidence() -> None:
    steady, fresh = Steady(), Steady()
    for turn in range(40):
        fed(steady, [150 + 10 * turn, 155 + 10 * turn, 152 + 10 * turn, *[None] * REST])
    assert steady.often("rested") > 0.4
    assert fed(steady, [200, 210, 190], rank=1) < fed(fresh, [200, 210, 190], rank=1) - 6


def test_a_run_counts_as_noise_only_after_a_rest_and_never_when_it_was_named() -> None:
    steady = Steady()
    fed(steady, [200, 210, 190, *[None] * (REST - 1)])
    assert steady.noise["rested"].tried == 0
    fed(steady, [None])
    assert (steady.noise["rested"].tried, steady.noise["rested"].done) == (1, 1)
    fed(steady, [200, 210, 190], rank=1)
    steady.forget(1)
    fed(steady, [None] * REST, rank=1)
    assert steady.noise["rested"].tried == 1


def test_what_is_told_of_a_long_burst_is_bounded() -> None:
    steady = Steady()
    fed(steady, [200 + 400 * (at % 2) for at in range(5000)])
    assert len(steady.runs[0].told) < 1000
    assert len(steady.runs[0].late) <= 65
