"""`busbw tune` from its words to the table, with an engine that stands in for GPUs."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

PYTHON = Path(__file__).parents[2]
ENGINE = PYTHON / "tests" / "experiment" / "tune" / "tuned_engine.py"


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    program = tmp_path / "engine"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ENGINE}" "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def tune(tmp_path: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("BUSBW_", "CUDA_"))}
    env |= {"PYTHONPATH": str(PYTHON), "XDG_CONFIG_HOME": str(tmp_path / "config"), **environment}
    return subprocess.run(
        [sys.executable, "-m", "busbw", "tune", "--runs", str(tmp_path / "runs"), *words],
        env=env, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_the_crossings_are_found_printed_and_saved_where_the_library_looks(tmp_path: Path, engine: Path) -> None:
    words = ("--ranks", "2", "-b", "16K", "-e", "256K", "--rounds", "1", "all_gather")
    done = tune(tmp_path, *words, BUSBW_ENGINE=str(engine))
    assert done.returncode == 0, done.stderr
    table = (tmp_path / "config" / "busbw" / "gpu-table.txt").read_text().splitlines()
    assert table[0] == "busbw-table 1"
    assert table[2:] == [
        "gpu Made-up GPU",
        "all_gather ranks=2 to=92681 direct/ll",
        "all_gather ranks=2 from=92682 to=262144 direct/simple",
    ]
    assert "all_gather, float, 2 ranks, Made-up GPU" in done.stdout
    row = next(line for line in done.stdout.splitlines() if "direct/ll" in line)
    assert row.split() == ["16", "KiB", "64", "KiB", "direct/ll", "3.546", "9.047", "1.77", "-", "2.55"]
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert "direct/simple@128x512: crashed: exit code 3: no such kernel" in done.stderr


def test_calls_into_windows_get_a_rule_before_those_for_all_calls(tmp_path: Path, engine: Path) -> None:
    words = ("--ranks", "2", "-b", "2M", "-e", "16M", "--rounds", "1", "all_gather")
    done = tune(tmp_path, *words, BUSBW_ENGINE=str(engine))
    assert done.returncode == 0, done.stderr
    table = (tmp_path / "config" / "busbw" / "gpu-table.txt").read_text().splitlines()
    assert table[3:] == [
        "all_gather ranks=2 from=5931641 to=16777216 direct/copy",
        "all_gather ranks=2 to=2965820 direct/simple",
        "all_gather ranks=2 from=2965821 to=16777216 nccl",
    ]
    row = next(line for line in done.stdout.splitlines() if line.split()[4:5] == ["direct/copy"])
    assert row.split()[:4] == ["8", "MiB", "16", "MiB"]


def test_a_dry_run_starts_nothing_and_says_how_long_it_would_take(tmp_path: Path) -> None:
    done = tune(tmp_path, "--ranks", "4", "--dry-run", BUSBW_ENGINE="/nowhere")
    assert done.returncode == 0, done.stderr
    assert "two_shot/sentinel@64x512" in done.stdout
    assert "busbw run --ranks 4 alltoall" in done.stdout
    assert " min" in done.stdout
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--ranks", "9"), "9 ranks: busbw's GPU collectives are for 2 to 8 GPUs"),
        (("reduce",), "'reduce' has no kernels of ours"),
        (("--ranks", "2", "--budget", "soon"), "--budget: 'soon' is no time"),
        (("--ranks", "2", "-b", "2K", "-e", "1K"), "the last no smaller"),
        (("--ranks", "2", "--rounds", "0"), "it must be at least 1 and at most 100, not 0"),
    ],
)
def test_what_cannot_be_tuned_is_one_sentence(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    done = tune(tmp_path, *words)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_file_that_is_no_table_is_not_written_over(tmp_path: Path, engine: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("something else\n")
    done = tune(tmp_path, "--ranks", "2", "--output", str(mine), BUSBW_ENGINE=str(engine))
    assert done.returncode == 1
    assert "is no table of algorithms" in done.stderr
    assert mine.read_text() == "something else\n"
