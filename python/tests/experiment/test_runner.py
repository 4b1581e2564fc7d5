"""Trials as processes: settings reach them, and whatever becomes of them is a result."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from busbw.base.errors import UsageError
from busbw.experiment import runner
from busbw.experiment.factors import arguments, variable
from busbw.experiment.plan import Plan, check
from busbw.experiment.runner import command_of, run_trial
from busbw.experiment.trial import Outcome

FAKE = Path(__file__).with_name("fake_engine.py")


@pytest.fixture(autouse=True)
def engine(tmp_path, monkeypatch):
    program = tmp_path / "engine"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {FAKE} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("BUSBW_ENGINE", str(program))


def trial(text, tmp_path, variant=1, limit_s=20.0):
    return run_trial(Plan((variable(text),), ("all_reduce",), ranks=2), 0, variant, tmp_path, limit_s)


def test_a_trial_reads_the_times_from_the_record(tmp_path):
    found = trial("FAKE_US=100,250", tmp_path)
    assert found.outcome is Outcome.MEASURED
    assert set(found.times_us.values()) == {250.0}
    assert {point.placement for point in found.times_us} == {"in_place", "out_of_place"}


def test_a_crash_is_a_result_with_the_engines_own_words(tmp_path):
    found = trial("FAKE_MODE=,crash", tmp_path)
    assert found.outcome is Outcome.CRASHED
    assert "unhandled system error" in found.reason


def test_wrong_data_is_a_result(tmp_path):
    assert trial("FAKE_MODE=,wrong", tmp_path).outcome is Outcome.WRONG


def test_a_hang_ends_at_its_limit_and_leaves_no_process(tmp_path):
    began = time.monotonic()
    found = trial("FAKE_MODE=,hang", tmp_path, limit_s=0.5)
    assert found.outcome is Outcome.HUNG
    assert found.limit_s == 0.5
    assert time.monotonic() - began < 40  # it would hang for 60


def test_the_record_of_an_earlier_attempt_does_not_count(tmp_path):
    trial("FAKE_MODE=,crash", tmp_path, variant=0)
    place = tmp_path / "trials" / "r0000-v001"
    place.mkdir(parents=True)
    (place / "record.jsonl").write_text((tmp_path / "trials" / "r0000-v000" / "record.jsonl").read_text())
    assert trial("FAKE_MODE=,crash", tmp_path).outcome is Outcome.CRASHED


def test_what_torch_gets_is_varied_like_anything_else(tmp_path):
    plan = check(
        Plan((variable("A=1,2"),), ("torch-bench", "all_gather", "-b", "1M"), ranks=2, launch=("--bind", "cores"))
    )
    said = command_of(plan, plan.variants[1], tmp_path / "r", 60.0)
    assert said[2:] == [
        "busbw", "torch-bench", "--ranks", "2", "--time-limit", "60", "--bind", "cores", "all_gather", "-b", "1M",
        "--record", str(tmp_path / "r"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("--dry-run", "--dry-run is for the whole and not for each trial: say it before the `--`"),
        ("--budget=3", "--budget is for the whole"),
        ("--help", "--help is for the whole"),
        ("--bogus", "there is no option '--bogus'"),
        ("1M", "'1M' is no option of all_reduce"),
    ],
)
def test_words_that_no_trial_measures_with_are_refused_before_the_first(word, said, monkeypatch):
    monkeypatch.delenv("BUSBW_ENGINE", raising=False)
    with pytest.raises(UsageError, match=said):
        check(Plan((variable("A=1,2"),), ("all_reduce", "-b", "1M", word)))
    with pytest.raises(UsageError, match=said):
        check(Plan((arguments(f"-c 0|{word}"),), ("all_reduce", "-b", "1M")))


def test_a_failed_trial_quotes_the_rank_that_said_why_and_not_the_launcher(tmp_path):
    said = "busbw: --beside takes product, not 'banana'"
    ended = "busbw run: rank 0 (pid 7) ended with exit code 2"
    (tmp_path / "output.txt").write_text(f"{said}\n{ended}\n[rank 1] {said}\n")
    assert runner._last_words(tmp_path / "output.txt", 2) == f"exit code 2: {said}"
    (tmp_path / "output.txt").write_text(f"{ended}\n")
    assert runner._last_words(tmp_path / "output.txt", 2) == f"exit code 2: {ended}"


def test_an_option_that_keeps_the_record_elsewhere_is_refused_for_torch_too():
    with pytest.raises(UsageError, match="--record belongs to no experiment"):
        check(Plan((variable("A=1,2"),), ("torch-bench", "--record", "x")))
