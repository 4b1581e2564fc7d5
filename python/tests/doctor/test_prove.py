"""What findings really cost: proofs become experiments, and experiments become sentences with GB/s and a factor."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from busbw.analysis.verdict import Verdict
from busbw.base.errors import UserError
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.prove import ALL, WORDS, How, level_of, plan_of, prove, words_of
from busbw.doctor.prove_text import proofs_json, proofs_text
from busbw.experiment.plan import Limits
from busbw.experiment.trial import Outcome, Point, Trial

SMALL, LARGE = (Point("all_reduce", size, "out_of_place", "float sum") for size in (1 << 16, 1 << 30))


def finding(name, proof):
    return Finding(name, Severity.WARNING, name, (Evidence("seen", "here"),), Cost("much"), "mend it", proof)


GRAPH = finding("graph_file", Proof(unset=("NCCL_GRAPH_FILE",), neutral={"NCCL_GRAPH_FILE": "{scratch}/none.xml"},
                                    files={"none.xml": "<graphs/>"}))  # fmt: skip
CHANNELS = finding("few_channels", Proof(unset=("NCCL_MAX_NCHANNELS",)))
SHARED = finding("gpu_busy", Proof(instruction="stop the other process, then measure again"))


class Machine:
    """Each label has its own speed at 64 KiB and 1 GiB; 1 % of noise."""

    def __init__(self, speeds):
        self.speeds = speeds
        self.random = random.Random(5)

    def __call__(self, plan, number, variant, folder, limit_s):
        label = plan.variants[variant].levels[0].label
        if label not in self.speeds:
            return Trial(number, variant, Outcome.CRASHED, 1.0, reason="exit code 3: it broke")
        small, large = self.speeds[label]
        noise = math.exp(self.random.gauss(0, 0.01))
        return Trial(number, variant, Outcome.MEASURED, 4.0, {SMALL: 20 * noise / small, LARGE: 4000 * noise / large},
                     {SMALL: 3.0 * small, LARGE: 82.0 * large})  # fmt: skip


def how(speeds, **limits):
    return How(4, measure=Machine(speeds), clock=lambda: 0.0, limits=Limits(rounds=12, **limits))


def test_what_costs_bandwidth_is_proved_with_gigabytes_and_a_factor(tmp_path):
    (said,) = prove([GRAPH], tmp_path, how({"as it is": (1, 1), "graph_file": (1, 4)}))
    assert said.confirmed
    assert said.bytes == 1 << 30
    assert said.factor == pytest.approx(4, rel=0.05)
    assert (said.with_GBps, said.without_GBps) == (82.0, 328.0)
    assert "82 GB/s now, 328 GB/s mended at 1 GiB" in said.sentence


def test_what_costs_latency_is_proved_at_the_size_where_it_shows(tmp_path):
    (said,) = prove([CHANNELS], tmp_path, how({"as it is": (1, 1), "few_channels": (3, 1)}))
    assert said.confirmed
    assert said.bytes == 1 << 16
    assert "now" in said.sentence


def test_a_proof_that_no_size_gives_alone_quotes_the_interval_of_all_sizes(tmp_path):
    class Noisy(Machine):
        """At one size after the other the gain hides in noise; together it does not."""

        def __call__(self, plan, number, variant, folder, limit_s):
            trial = super().__call__(plan, number, variant, folder, limit_s)
            swing = (1.9 if number % 2 else 1 / 1.9) if variant else 1.0
            times = {SMALL: trial.times_us[SMALL] * swing, LARGE: trial.times_us[LARGE] / swing}
            return replace(trial, times_us=times)

    noisy = Noisy({"as it is": (1, 1), "graph_file": (1.4, 1.4)})
    (said,) = prove(
        [GRAPH], tmp_path, How(4, measure=noisy, clock=lambda: 0.0, limits=Limits(rounds=6, any_point=True))
    )
    assert said.confirmed
    assert said.low > 1
    assert "over all sizes together" in said.sentence


def test_what_costs_nothing_here_is_said_to_cost_nothing(tmp_path):
    (said,) = prove([CHANNELS], tmp_path, how({"as it is": (1, 1), "few_channels": (1, 1)}, margin=0.05))
    assert said.verdict is Verdict.NO_DIFFERENCE
    assert not said.confirmed


def test_files_of_a_proof_are_written_before_and_named_in_the_alternative(tmp_path):
    prove([GRAPH], tmp_path, how({"as it is": (1, 1), "graph_file": (1, 4)}))
    named = level_of(GRAPH, tmp_path).environment["NCCL_GRAPH_FILE"]
    assert named is not None
    assert (tmp_path / "files" / "graph_file" / "none.xml").read_text() == "<graphs/>"
    assert named == str(tmp_path / "files" / "graph_file" / "none.xml")


def test_several_findings_are_mended_alone_and_together(tmp_path):
    speeds = {"as it is": (1, 1), "graph_file": (1, 2), "few_channels": (1, 2), ALL: (1, 4)}
    said = prove([GRAPH, CHANNELS], tmp_path, how(speeds))
    assert [round(each.factor or 0) for each in said] == [2, 2, 4]
    assert said[-1].finding is None


def test_the_same_remedy_is_measured_once_and_said_of_both(tmp_path):
    twin = finding("conf_overrides", CHANNELS.proof)
    plan, named = plan_of([CHANNELS, twin], tmp_path, how({}))
    assert len(plan.variants) == 2
    assert named == [CHANNELS]
    said = prove([CHANNELS, twin], tmp_path, how({"as it is": (1, 1), "few_channels": (1, 3)}))
    assert [each.confirmed for each in said] == [True, True]


def test_what_no_setting_proves_says_what_a_person_has_to_do(tmp_path):
    said = prove([SHARED, CHANNELS], tmp_path, how({"as it is": (1, 1), "few_channels": (1, 3)}))
    assert said[0].sentence == "not measured: stop the other process, then measure again"
    with pytest.raises(UserError, match="by a setting"):
        prove([SHARED], tmp_path / "alone", how({}))


def test_remedies_that_contradict_each_other_are_not_combined(tmp_path):
    one = finding("one", Proof(set={"NCCL_CONF_FILE": "{scratch}/a"}))
    two = finding("two", Proof(set={"NCCL_CONF_FILE": "{scratch}/b"}))
    plan, _ = plan_of([one, two], tmp_path, how({}))
    assert [variant.levels[0].label for variant in plan.variants] == ["as it is", "one", "two"]


def test_a_machine_that_cannot_be_measured_as_it_is_says_so_in_one_sentence(tmp_path):
    with pytest.raises(UserError, match=r"it broke.*nor with what was found mended"):
        prove([CHANNELS], tmp_path, how({}))


def test_what_lets_nothing_run_is_proved_by_the_remedy_with_which_it_runs(tmp_path):
    graph, channels, together = prove([GRAPH, CHANNELS], tmp_path, how({"few_channels": (1, 4), ALL: (1, 4)}))
    assert channels.confirmed
    assert together.confirmed
    assert "nothing can be measured as it is (exit code 3: it broke); mended, 328 GB/s at 1 GiB" in channels.sentence
    assert not graph.confirmed
    assert "not enough" in graph.sentence


def test_ranks_that_share_a_gpu_are_not_kept_waiting_by_a_gigabyte_over_sockets():
    assert words_of(4, 4) == WORDS
    shared = words_of(2, 1)
    assert shared[shared.index("-e") + 1] == "64M"
    assert (64 << 10) * int(shared[shared.index("-f") + 1]) == 64 << 20


def test_a_remedy_that_works_once_of_two_times_proves_nothing(tmp_path):
    class Sometimes(Machine):
        def __call__(self, plan, number, variant, folder, limit_s):
            self.speeds = {"few_channels": (1, 1)} if number == 1 and variant else {}
            return super().__call__(plan, number, variant, folder, limit_s)

    with pytest.raises(UserError, match="it broke"):
        prove([CHANNELS], tmp_path, How(4, measure=Sometimes({}), clock=lambda: 0.0, limits=Limits(rounds=12)))


def test_multicast_that_is_switched_off_stays_off(tmp_path):
    off = finding("slow-settings", Proof(unset=("NCCL_NVLS_ENABLE",)))
    said = prove([off, CHANNELS], tmp_path, how({"as it is": (1, 1), "few_channels": (1, 3)}))
    assert said[0].verdict is Verdict.UNDECIDED
    plan, _ = plan_of([off, CHANNELS], tmp_path, how({}))
    assert all("NCCL_NVLS_ENABLE" not in variant.environment for variant in plan.variants)


def test_text_and_json_say_what_to_do_about_what_was_proved(tmp_path):
    said = prove([GRAPH, SHARED], tmp_path, how({"as it is": (1, 1), "graph_file": (1, 4)}))
    text = proofs_text(said)
    assert all(len(line) <= 80 for line in text)
    assert "  do: mend it" in text
    first, second = proofs_json(said)
    assert first["verdict"] == "proved"
    assert first["factor"] == pytest.approx(4, rel=0.05)
    assert second["verdict"] == "not sure"
    assert second["factor"] is None
