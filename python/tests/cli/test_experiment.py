"""`busbw experiment` as a user types it, with an engine whose times are known."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from busbw.cli.main import main

FAKE = Path(__file__).parents[1] / "experiment" / "fake_engine.py"


@pytest.fixture(autouse=True)
def engine(tmp_path, monkeypatch):
    program = tmp_path / "engine"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {FAKE} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("BUSBW_ENGINE", str(program))


def test_the_faster_setting_is_found_and_said_as_lines_for_nccl_conf(capsys):
    assert main(["experiment", "--vary", "FAKE_US=100,25", "--vary", "NCCL_ALGO=Ring,Tree", "--", "all_reduce"]) == 0
    said = capsys.readouterr().out
    assert "FAKE_US=25" in said
    assert "4.000" in said
    assert "faster" in said
    assert all(len(line) <= 80 for line in said.splitlines())


def test_json_holds_effects_intervals_and_the_best(capsys):
    assert main(["experiment", "--vary", "FAKE_US=100,200", "--json", "--", "all_reduce"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["stop"] == "sure"
    assert found["best"] == "baseline"
    (effect,) = found["effects"]
    assert effect["speed"] == pytest.approx(0.5)
    assert effect["verdict"] == "slower"
    assert {point["bytes"] for point in effect["points"]} == {1048576}


def test_a_crash_shows_in_the_table_and_the_rest_is_judged(capsys):
    assert main(["experiment", "--vary", "FAKE_MODE=unset,crash", "--vary-arguments", "|-c 0", "--one-at-a-time",
                 "--", "all_reduce"]) == 0  # fmt: skip
    said = capsys.readouterr().out
    assert "crashed" in said
    assert "unhandled system error" in " ".join(said.split())
    assert "no difference" in said


def test_an_experiment_is_shown_again_by_its_folder(capsys, runs_of_this_test):
    assert main(["experiment", "--vary", "FAKE_US=100,25", "--", "all_reduce"]) == 0
    first = capsys.readouterr().out
    (folder,) = runs_of_this_test.iterdir()
    assert main(["experiment", "--resume", str(folder)]) == 0
    assert capsys.readouterr().out == first


def test_a_dry_run_lists_the_variants_and_starts_nothing(capsys, runs_of_this_test):
    assert main(["experiment", "--vary", "NCCL_ALGO=unset,Ring", "--dry-run", "--", "all_reduce", "-b", "1M"]) == 0
    said = capsys.readouterr().out
    assert "unset NCCL_ALGO" in said
    assert "NCCL_ALGO=Ring" in said
    assert not runs_of_this_test.exists()


def test_a_baseline_that_does_not_work_ends_it_with_one_sentence(capsys):
    assert main(["experiment", "--vary", "FAKE_MODE=crash,unset", "--", "all_reduce"]) == 1
    assert "the baseline itself cannot be measured" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["experiment"], "measures a collective"),
        (["experiment", "--", "all_reduce"], "something to vary"),
        (["experiment", "--vary", "A=1,2", "--", "allreduce"], "'allreduce' is none"),
        (["experiment", "--vary", "A=1,2", "--time", "soon", "--", "all_reduce"], "no time"),
        (["experiment", "--vary", "A=1,2", "--rounds", "1", "--", "all_reduce"], "--rounds 1"),
        (["experiment", "--vary", "A=1,2", "--vary", "A=3,4", "--", "all_reduce"], "varied twice"),
        (["experiment", "--vary", "A=1,2", "--resume", "/tmp", "--", "all_reduce"], "cannot change"),
        (["experiment", "--vary", "A=1,2", "--launch", "'", "--", "all_reduce"], "cannot be split"),
    ],
)
def test_a_mistake_is_one_sentence(capsys, words, said):
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_ctrl_c_prints_what_is_known_and_leaves_no_process(tmp_path):
    import os
    import signal
    import subprocess
    import time

    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    words = ["experiment", "--vary", "FAKE_MODE=,hang", "--trial-timeout", "50s", "--", "all_reduce"]
    process = subprocess.Popen(
        [sys.executable, "-m", "busbw", *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )  # fmt: skip
    deadline = time.monotonic() + 60
    runs = Path(os.environ["BUSBW_RUNS"])
    while not list(runs.glob("experiment-*/trials/r0000-v001")):
        assert time.monotonic() < deadline and process.poll() is None, "the trial that hangs did not begin"
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in out
    assert "--resume" in err
