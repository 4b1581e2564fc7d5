"""Trials as processes: settings reach them, and whatever becomes of them is a result."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from busbw.base.errors import UsageError
from busbw.experiment.factors import variable
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


def test_an_option_that_keeps_the_record_elsewhere_is_refused_for_torch_too():
    with pytest.raises(UsageError, match="--record belongs to no experiment"):
        check(Plan((variable("A=1,2"),), ("torch-bench", "--record", "x")))
