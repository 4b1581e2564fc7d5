"""Samples that stand at two levels by chance, on all nodes: the median jumps, and accuses nobody."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence

import pytest

from busbw.fleet.judge import judge
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.options import Options, inside_of
from busbw.fleet.plan import next_round
from busbw.fleet.samples import by_mean, by_median, has_gap, usual_spread
from busbw.fleet.simulate import Fault, World, make_fabric, run
from busbw.fleet.trial import INSIDE, Outcome, Trial
from busbw.fleet.verdict import Verdict

GAP, SHARE = 0.07, 0.4


def played(faults: Sequence[Fault], seed: int, *, nodes: int = 32) -> tuple[list[Verdict], int]:
    """Verdicts and rounds of a fleet each of whose samples is 7 % lower in two cases of five."""
    fabric, options, known = make_fabric(nodes, 8, 2), Options(inside=inside_of(2)), Knowledge()
    world = World(fabric, tuple(faults), seed=seed, bursts=0.0)
    while trials := next_round(fabric, known, options):
        chance = random.Random(f"{seed} {known.rounds}")
        known.learn([o._replace(samples=tuple(s * (1 - GAP * (chance.random() < SHARE)) for s in o.samples))
                     for o in run(world, trials, known.rounds)])  # fmt: skip
    return judge(fabric, known, options), known.rounds


def test_nobody_is_accused_of_samples_at_two_levels() -> None:
    for seed in range(4):
        verdicts, rounds = played((), seed)
        assert not verdicts
        assert rounds <= 20


def test_a_slow_cable_is_named_through_samples_at_two_levels() -> None:
    for seed in range(3):
        verdicts, _ = played((Fault("cable1@node0011", 0.2),), seed)
        assert [(v.kind, v.place, v.channel) for v in verdicts] == [("cable", "node0011", "rail1")]
        assert verdicts[0].loss == pytest.approx(0.2, abs=0.03)


def test_the_first_round_is_judged_anew_when_a_later_one_shows_two_levels() -> None:
    trials = [Trial(INSIDE, (f"n{at}",), "nvlink", 8) for at in range(8)]
    steady = (10.0, 9.9, 10.1, 10.05, 9.95, 10.02, 9.0, 10.01)
    jumping = (10.0, 9.3, 10.01, 9.31, 9.99, 9.29, 10.02, 9.3)
    errors = []
    for rounds in ((steady, jumping), (jumping, steady)):
        known = Knowledge()
        for samples in rounds:
            known.learn([Outcome(trial, samples) for trial in trials])
        assert known.mixed == {(INSIDE, "nvlink")}
        assert known.rounds == 2
        assert known.tries[trials[0].key] == 2
        errors.append(known.found[INSIDE][trials[0].key].error)
    assert errors[0] == pytest.approx(errors[1], rel=1e-9)


@pytest.mark.parametrize("count", [6, 8, 16, 64])
def test_two_levels_have_a_gap_and_bursts_or_normal_samples_seldom(count: int) -> None:
    chance = random.Random(count)

    def share(low: float, loss: float) -> float:
        return statistics.fmean(has_gap([chance.gauss(1, 0.01) * (1 - loss * (chance.random() < low))
                                         for _ in range(count)]) for _ in range(300))  # fmt: skip

    assert share(0.5, 0.1) > 0.5
    assert share(0.0, 0.0) < 0.25
    if count > 8:
        assert share(0.05, 0.3) < 0.1
    assert not has_gap([1.0] * 5)
    assert not has_gap([1.0] * count)


def test_the_error_of_a_trimmed_mean_is_what_such_means_scatter() -> None:
    chance = random.Random(7)
    groups = [[1 - GAP * (chance.random() < SHARE) + chance.gauss(0, 0.01) for _ in range(16)] for _ in range(400)]
    means = [by_mean(group) for group in groups]
    scatter = statistics.stdev(mean.level for mean in means)
    assert statistics.fmean(mean.error for mean in means) == pytest.approx(scatter, rel=0.15)
    assert scatter < 0.75 * statistics.stdev(by_median(group).level for group in groups)
    spread = usual_spread([(group, 1.0) for group in groups], mixed=True)
    assert 1.2533 * spread / 4 == pytest.approx(scatter, rel=0.2)
    assert by_mean([5.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]).level == 1.0, "an outlier at each end is left out"
