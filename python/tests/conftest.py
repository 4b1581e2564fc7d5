"""What every Python test shares: runs of its own, and a fake engine."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from busbw.base.effort import ALLOWED, EFFORT

# The same examples every time, however busy the machine is; tools/fuzz_parsers is there to find new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")

# A shell that starts the tests in the background has them ignore Ctrl-C, and their children too.
signal.signal(signal.SIGINT, signal.default_int_handler)
# nohup has them outlive their shell, which some tests kill to see who does not.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

Told = Callable[[int], dict[str, Any]]
FAKE_ENGINE = Path(__file__).parent / "launch" / "fake_engine.py"


@pytest.fixture(autouse=True)
def runs_of_this_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of runs for this test alone: no test writes among the user's own."""
    runs = tmp_path / "runs"
    monkeypatch.setenv("BUSBW_RUNS", str(runs))
    return runs


@pytest.fixture(autouse=True)
def effort_of_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test may cost what a call of busbw may, which has a process of its own."""
    monkeypatch.setattr(EFFORT, "left", float(ALLOWED))


@pytest.fixture
def fake_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that behaves as its arguments say; `busbw` finds it as the engine."""
    program = tmp_path / "fake-engine"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {FAKE_ENGINE} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("BUSBW_ENGINE", str(program))
    return program


@pytest.fixture
def told(tmp_path: Path) -> Told:
    """What a rank of the fake engine, started with `--tell tmp_path`, was given."""

    def read(rank: int) -> dict[str, Any]:
        given: dict[str, Any] = json.loads((tmp_path / f"{rank}.json").read_text())
        return given

    return read
