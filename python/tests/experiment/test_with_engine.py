"""An experiment with the real engine and a real variable of the CPU library, where they are built."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from busbw.experiment.factors import arguments, variable
from busbw.experiment.plan import Plan
from busbw.experiment.runner import run_trial
from busbw.experiment.trial import Outcome
from busbw.records import read_record

BUILD = Path(os.environ.get("BUSBW_BUILD") or Path(__file__).resolve().parents[3] / "build")
ENGINE = BUILD / "bin" / "busbw-engine"
WORDS = ("all_reduce", "-b", "256K", "-e", "256K", "-n", "5", "-w", "1", "--library", "cpu")


@pytest.mark.skipif(not ENGINE.exists(), reason="the engine is not built; `make build` builds it")
def test_a_variable_of_the_cpu_library_reaches_the_ranks_and_is_in_the_record(tmp_path, monkeypatch):
    monkeypatch.setenv("BUSBW_ENGINE", str(ENGINE))
    plan = Plan((variable("BUSBW_CPU_ALGO=auto,staged"), arguments("|-c 0")), WORDS, ranks=2)
    trials = [run_trial(plan, 0, number, tmp_path, 60.0) for number in range(len(plan.variants))]
    assert [trial.outcome for trial in trials] == [Outcome.MEASURED] * 4, [trial.reason for trial in trials]
    assert all(len(trial.times_us) == 2 for trial in trials)
    records = [read_record(tmp_path / "trials" / f"r0000-v00{number}" / "record.jsonl") for number in range(4)]
    assert [record.run.environment["BUSBW_CPU_ALGO"] for record in records] == ["auto", "auto", "staged", "staged"]
    assert [record.run.options["check"] for record in records] == [1, 0, 1, 0]


@pytest.mark.skipif(not ENGINE.exists(), reason="the engine is not built; `make build` builds it")
def test_a_value_that_the_library_refuses_is_a_crash_with_its_words(tmp_path, monkeypatch):
    monkeypatch.setenv("BUSBW_ENGINE", str(ENGINE))
    plan = Plan((variable("BUSBW_CPU_ALGO=auto,sideways"),), WORDS, ranks=2)
    trial = run_trial(plan, 0, 1, tmp_path, 60.0)
    assert trial.outcome is Outcome.CRASHED
    assert "sideways" in trial.reason or "BUSBW_CPU_ALGO" in trial.reason
