"""What every Python test shares: no test writes to the user's own runs or reads the user's own settings."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def runs_of_this_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of runs for this test alone."""
    runs = tmp_path / "runs"
    monkeypatch.setenv("BUSBW_RUNS", str(runs))
    return runs
