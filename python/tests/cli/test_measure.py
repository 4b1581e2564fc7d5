"""The measuring verbs hand the user's words to the engine and keep a record unless told otherwise."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from busbw.cli.kept_record import own_rank

SOURCE = Path(__file__).resolve().parents[2]
Told = Callable[[int], dict[str, Any]]


def busbw(*words: str, environment: Mapping[str, str] = {}) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user does."""
    everything = {**os.environ, "PYTHONPATH": str(SOURCE), **environment}
    argv = [sys.executable, "-m", "busbw", *words]
    return subprocess.run(argv, env=everything, capture_output=True, text=True, timeout=60, check=False)


def test_a_record_is_kept_by_default_and_its_place_is_told(
    fake_engine: Path, runs_of_this_test: Path, tmp_path: Path, told: Told
) -> None:
    done = busbw("all_reduce", "-b", "8", "--tell", str(tmp_path))
    [record] = runs_of_this_test.glob("*/record.jsonl")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"busbw: the record of this run is {record}\n"
    assert told(0)["argv"][1:] == ["all_reduce", "-b", "8", "--tell", str(tmp_path), "--record", str(record)]
    assert told(0)["environment"]["BUSBW_RUN_ID"] == record.parent.name


@pytest.mark.parametrize("word", ["--no-record", "--help", "-h"])
def test_no_record_is_kept_where_none_is_wanted(word: str, fake_engine: Path, runs_of_this_test: Path) -> None:
    done = busbw("reduce", word)
    assert (done.returncode, done.stderr) == (0, "")
    assert not runs_of_this_test.exists()


def test_a_record_named_by_the_user_is_the_only_one(fake_engine: Path, runs_of_this_test: Path, tmp_path: Path) -> None:
    done = busbw("reduce", "--record", str(tmp_path / "mine.jsonl"))
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "mine.jsonl").exists()
    assert not runs_of_this_test.exists()


def test_only_rank_0_of_a_launchers_job_keeps_a_record(fake_engine: Path, runs_of_this_test: Path) -> None:
    assert busbw("reduce", environment={"OMPI_COMM_WORLD_RANK": "1"}).stderr == ""
    assert not runs_of_this_test.exists()
    assert "the record" in busbw("reduce", environment={"OMPI_COMM_WORLD_RANK": "0"}).stderr


def test_our_own_rank_wins_over_that_of_a_surrounding_launcher() -> None:
    assert own_rank({"BUSBW_RANK": "0", "SLURM_PROCID": "5"}) == 0
    assert own_rank({"SLURM_PROCID": "5"}) == 5
    assert own_rank({}) == 0


def test_the_engines_exit_code_is_busbws(fake_engine: Path) -> None:
    assert busbw("reduce", "--code", "7").returncode == 7
    assert busbw("reduce", "--code", "7", "--no-record").returncode == 7


def test_an_engine_killed_by_a_signal_is_told(fake_engine: Path) -> None:
    done = busbw("reduce", "--ill-rank", "0", "--ill-signal", "11")
    assert done.returncode == 128 + signal.SIGSEGV
    assert "was killed by SIGSEGV" in done.stderr


def test_an_unwritable_folder_of_runs_is_one_sentence(fake_engine: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = busbw("reduce", "--runs", str(tmp_path / "file"))
    assert done.returncode == 1
    assert done.stderr.startswith("busbw: the record's folder ") and done.stderr.count("\n") == 1


def test_a_wrong_engine_variable_is_one_sentence() -> None:
    done = busbw("reduce", environment={"BUSBW_ENGINE": "/no/engine"})
    assert done.returncode == 1
    assert (
        done.stderr
        == "busbw: BUSBW_ENGINE is '/no/engine', which is no program that can be run; unset it or correct it\n"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_busbw_alone_reaches_the_engine(
    number: signal.Signals, fake_engine: Path, tmp_path: Path, runs_of_this_test: Path
) -> None:
    argv = [sys.executable, "-m", "busbw", "reduce", "--polite", "--sleep", "60", "--tell", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    process = subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while not (tmp_path / "0.json").exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(number)
    _, err = process.communicate(timeout=40)
    assert process.returncode == 100 + number
    assert "the record of this run is" in err


@pytest.mark.parametrize("address", ["nosuch-1.invalid:21000", "nosuch-1.invalid"])
def test_a_host_of_process_0_without_an_address_is_told_at_once(
    address: str, fake_engine: Path, runs_of_this_test: Path
) -> None:
    place = {"BUSBW_ADDRESS": address, "BUSBW_RANK": "1", "BUSBW_WORLD_SIZE": "2", "BUSBW_SECRET": "0" * 32}
    done = busbw("all_reduce", environment=place)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("busbw: BUSBW_ADDRESS: the host nosuch-1.invalid cannot be resolved here")
    assert not runs_of_this_test.exists()


@pytest.mark.parametrize("address", ["[::1]:21000", "[::1]", "127.0.0.1:21000"])
def test_addresses_need_no_name_server(address: str, fake_engine: Path, runs_of_this_test: Path) -> None:
    place = {"BUSBW_ADDRESS": address, "BUSBW_RANK": "1", "BUSBW_WORLD_SIZE": "2", "BUSBW_SECRET": "0" * 32}
    assert busbw("all_reduce", environment=place).returncode == 0
