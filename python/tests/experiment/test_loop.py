"""Whole experiments on simulated machines: what is found, when it stops, how it goes on."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from simulated import Machine, plan, spiky

from busbw.analysis.verdict import Verdict
from busbw.base.errors import UserError
from busbw.experiment.loop import TRIALS_NAME, Experiment, Stop, read_trials
from busbw.experiment.trial import Outcome, Point, Trial

SIMULATIONS = 60


def verdicts(result):
    return {result.plan.variants[each.variant].name: each.judgement.verdict for each in result.findings.effects}


def test_equal_variants_are_called_different_in_at_most_five_percent_of_experiments(tmp_path):
    wrong = 0
    for seed in range(SIMULATIONS):
        result = Machine({}, seed, drift=0.01).run(plan("A=1,2,3", rounds=12), tmp_path / str(seed))
        wrong += any(each in {Verdict.FASTER, Verdict.SLOWER} for each in verdicts(result).values())
    assert wrong / SIMULATIONS <= 0.05


def test_a_five_percent_effect_in_two_percent_noise_is_found_and_best(tmp_path):
    found = 0
    for seed in range(SIMULATIONS):
        machine = Machine({"A=2": 1 / 1.05}, seed, drift=0.01, noise=spiky if seed % 2 else Machine({}, 0).noise)
        result = machine.run(plan("A=1,2", rounds=40), tmp_path / str(seed))
        found += result.findings.best == 1
    assert found / SIMULATIONS >= 0.95


def test_it_stops_as_soon_as_the_verdicts_are_sure(tmp_path):
    result = Machine({"A=2": 0.25}, 1).run(plan("A=1,2"), tmp_path)
    assert result.stop is Stop.SURE
    assert len(result.trials) <= 10
    (effect,) = result.findings.effects
    assert effect.interval is not None
    assert effect.interval.contains(4.0)
    assert effect.ratio == pytest.approx(4.0, rel=0.1)


def test_it_stops_when_the_time_is_up(tmp_path):
    result = Machine({}, 1).run(plan("A=1,2", seconds=10, margin=0.0001), tmp_path)
    assert result.stop is Stop.TIME
    assert len(result.trials) <= 11


def test_every_round_holds_every_variant_once_in_an_order_that_changes(tmp_path):
    machine = Machine({}, 1)
    machine.run(plan("A=1,2,3", rounds=8, margin=0.0001), tmp_path)
    rounds = [[v for r, v in machine.measured if r == number] for number in range(8)]
    assert all(sorted(order) == [0, 1, 2] for order in rounds)
    assert len({tuple(order) for order in rounds}) > 2


def test_a_settled_loser_is_not_measured_any_more(tmp_path):
    machine = Machine({"A=3": 3.0}, 1)
    machine.run(plan("A=1,2,3", rounds=20, margin=0.0001), tmp_path)
    assert sum(variant == 2 for _, variant in machine.measured) < 8
    assert sum(variant == 1 for _, variant in machine.measured) == 20


def test_a_variant_that_hangs_is_a_result_with_a_bound_and_costs_one_limit(tmp_path):
    machine = Machine({"A=2": math.inf, "A=3": 0.5}, 1)
    result = machine.run(plan("A=1,2,3", trial_seconds=60), tmp_path)
    assert result.stop is Stop.SURE
    hung = result.findings.effects[0]
    assert hung.broken
    assert hung.failures[-1].outcome is Outcome.HUNG
    assert hung.bound is not None
    assert 1 / 60 <= hung.bound <= 1 / 20
    assert sum(variant == 1 for _, variant in machine.measured) == 1
    assert result.findings.best == 2


def test_a_variant_that_crashes_twice_is_a_result_and_the_others_go_on(tmp_path):
    machine = Machine({"A=2": -math.inf, "A=3": 0.5}, 1)
    result = machine.run(plan("A=1,2,3"), tmp_path)
    assert result.stop is Stop.SURE
    assert [trial.outcome for trial in result.findings.effects[0].failures] == [Outcome.CRASHED] * 2
    assert result.findings.best == 2


def test_an_experiment_whose_baseline_crashes_ends_and_says_so(tmp_path):
    machine = Machine({"baseline": -math.inf}, 1)
    assert machine.run(plan("A=1,2"), tmp_path).stop is Stop.BASELINE
    assert len(machine.measured) <= 4


def test_settings_that_need_each_other_show_as_an_interaction(tmp_path):
    # Each alone does nothing; together they double the speed.
    machine = Machine({"A=2 B=2": 0.5}, 1)
    result = machine.run(plan("A=1,2", "B=1,2", rounds=15), tmp_path)
    (together,) = result.findings.interactions
    assert together.judgement.verdict is Verdict.FASTER
    assert together.judgement.ratio == pytest.approx(2.0, rel=0.1)
    assert {contrast.name for contrast in result.findings.main} == {"A=2", "B=2"}
    assert result.plan.variants[result.findings.best].name == "A=2 B=2"


def test_settings_that_multiply_show_no_interaction(tmp_path):
    costs = {"A=2": 0.5, "B=2": 0.8, "A=2 B=2": 0.4}
    result = Machine(costs, 1).run(plan("A=1,2", "B=1,2", rounds=30), tmp_path)
    (together,) = result.findings.interactions
    assert together.judgement.verdict not in {Verdict.FASTER, Verdict.SLOWER}
    assert together.judgement.ratio == pytest.approx(1.0, abs=0.05)


def test_two_that_cannot_be_told_apart_are_named_together(tmp_path):
    result = Machine({"A=2": 0.5, "A=3": 0.5}, 1).run(plan("A=1,2,3"), tmp_path)
    assert {result.findings.best, *result.findings.rivals} == {1, 2}


def test_a_cut_off_experiment_goes_on_where_it_was(tmp_path):
    chosen = plan("A=1,2,3", rounds=5, margin=0.0001)
    whole = Machine({}, 1)
    whole.run(chosen, tmp_path / "whole")

    class Interrupted(Machine):
        def measure(self, *words):
            if len(self.measured) == 7:
                raise KeyboardInterrupt
            return super().measure(*words)

    first = Interrupted({}, 1)
    assert first.run(chosen, tmp_path / "cut").stop is Stop.INTERRUPTED
    second = Machine({}, 2)
    result = second.run(chosen, tmp_path / "cut")
    assert first.measured + second.measured == whole.measured
    assert len(result.trials) == len(whole.measured)


def test_a_trial_that_was_being_written_when_the_power_failed_is_measured_again(tmp_path):
    chosen = plan("A=1,2", rounds=3, margin=0.0001)
    Machine({}, 1).run(chosen, tmp_path)
    path = tmp_path / TRIALS_NAME
    path.write_text(path.read_text()[:-20])
    assert len(read_trials(tmp_path)) == 5
    assert len(Experiment(chosen, tmp_path, Machine({}, 3).measure, lambda: 0.0).run().trials) == 6


@pytest.mark.parametrize(
    "line",
    [
        '{"round": 1}', "null", "3", "[" * 10_000,
        *(
            '{"round": 0, "variant": 0, "outcome": "measured", "seconds": 1, "times_us": {"a|1|b|": TIME}, '
            '"busbw_GBps": {}, "reason": "", "limit_s": null}'.replace("TIME", time)
            for time in ("NaN", "-1", "0", "1e400", "[]")
        ),
    ],
)  # fmt: skip
def test_a_broken_line_is_named_by_file_and_line(tmp_path, line):
    (tmp_path / TRIALS_NAME).write_text(line + "\n")
    with pytest.raises(UserError, match=r"trials\.jsonl:1"):
        read_trials(tmp_path)


def test_a_trial_that_the_end_of_the_time_cuts_off_is_no_hang(tmp_path):
    class Slow(Machine):
        def measure(self, plan, number, variant, folder, limit_s):
            trial = super().measure(plan, number, variant, folder, limit_s)
            if variant and number == 1:
                self.now += limit_s
                return Trial(number, variant, Outcome.HUNG, limit_s, limit_s=limit_s, reason="cut off")
            return trial

    result = Slow({}, 1).run(plan("A=1,2", seconds=8, margin=0.0001), tmp_path)
    assert result.stop is Stop.TIME
    assert all(trial.outcome is Outcome.MEASURED for trial in result.trials)
    assert not result.findings.effects[0].failures


def test_with_any_point_a_variant_is_settled_at_the_first_size_that_is_sure_in_three_rounds(tmp_path):
    rng = random.Random(4)
    small, large = (Point("all_reduce", size, "", "float sum") for size in (1 << 16, 1 << 30))

    def measure(plan, number, variant, folder, limit_s):
        # 30 % of noise at 64 KiB, 1 % at 1 GiB, where the variant takes a third of the time.
        times = {
            replace(point, placement=placement): base * math.exp(rng.gauss(0, noise)) / (3 if variant and by else 1)
            for point, base, noise, by in ((small, 10.0, 0.3, False), (large, 4000.0, 0.01, True))
            for placement in ("in_place", "out_of_place")
        }
        return Trial(number, variant, Outcome.MEASURED, 1.0, times, dict.fromkeys(times, 1.0))

    chosen = plan("A=1,2", any_point=True)
    result = Experiment(chosen, tmp_path, measure, lambda: 0.0).run()
    assert result.stop is Stop.SURE
    assert len(result.trials) == 6
    sizes = {each.point.bytes: each for each in result.findings.effects[0].points}
    assert set(sizes) == {1 << 16, 1 << 30}
    assert sizes[1 << 30].ratio == pytest.approx(3, rel=0.05)


def test_with_any_point_equal_variants_are_called_different_in_at_most_five_percent(tmp_path):
    wrong = 0
    for seed in range(SIMULATIONS):
        machine = Machine({}, seed, drift=0.01)
        result = machine.run(plan("A=1,2,3", rounds=12, any_point=True), tmp_path / str(seed))
        wrong += any(each in {Verdict.FASTER, Verdict.SLOWER} for each in verdicts(result).values())
    assert wrong / SIMULATIONS <= 0.05
