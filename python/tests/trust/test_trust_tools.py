"""Short forms of the campaigns: kills below shapes, hostile files for readers, faults for commands that write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hostile import ALL, readers

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUSBW_BUILD") or ROOT / "build")
ENGINE = BUILD / "bin" / "busbw-engine"
needs_engine = pytest.mark.skipif(not ENGINE.exists(), reason="the engine is not built")


def tool(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "tools" / words[0]), *words[1:]],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


@needs_engine
def test_nothing_is_left_below_what_people_put_above_a_launcher() -> None:
    done = tool(
        "kill_trials", "--trials", "6", "--seed", "9", "--jobs", "2", "--slack", "3", "--engine", str(ENGINE), "--only",
        "threads", "run", "--hits", "KILL", "SHELL-KILL", "ALL-KILL", "--shapes", "sh-true", "timeout", "setsid",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kill_trials: 6 of 6 clean" in done.stdout


def test_every_command_that_reads_is_given_hostile_files() -> None:
    assert len(list(readers())) > 60 and len(ALL) >= 50
    done = tool("hostile_files", "--reader", "gate", "--file", "brackets.toml", "--file", "zero", "--jobs", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hostile_files: 6 of 6 within their bounds" in done.stdout


def test_the_fuzzer_counts_its_inputs_over_several_processes() -> None:
    done = tool("fuzz_parsers", "--inputs", "600", "--processes", "2", "--reader", "none")
    assert done.returncode == 2 and "invalid choice" in done.stderr
    done = tool("fuzz_parsers", "--inputs", "600", "--processes", "2", "--reader", "hosts", "--reader", "toml")
    assert done.returncode == 0, done.stdout + done.stderr
    counts = [
        int(line.split(": ")[1].split()[0])
        for line in done.stdout.splitlines()
        if " MiB more at most" in line and ": " in line
    ]
    assert len(counts) == 2 and min(counts) > 0 and sum(counts) >= 600
    assert f"{sum(counts)} inputs over 2 readers" in done.stdout and "0 tracebacks, 0 over the bounds" in done.stdout
    done = tool("fuzz_parsers", "--inputs", str(10**9), "--seconds", "1", "--reader", "hosts")
    assert done.returncode == 2, done.stdout + done.stderr  # what it was asked for does not fit into the time


@pytest.mark.skipif(os.geteuid() != 0, reason="file systems are mounted")
def test_a_command_that_cannot_write_ends_in_a_sentence() -> None:
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    done = tool("fault_trials", "--command", "report-md", "--fault", "full", "--fault", "read-only", "--slack", "6")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "fault_trials: 2 of 2 as they should be" in done.stdout
