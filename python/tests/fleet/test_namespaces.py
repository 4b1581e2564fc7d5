"""`busbw fleet run` over real namespaces: a link that tc shapes worse is found through Open MPI's TCP."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REAL = Path(__file__).parents[3] / "bench" / "fleet" / "real.py"
SKIPPED = 77


def test_links_that_are_shaped_worse_are_named() -> None:
    words = [sys.executable, str(REAL), "--seeds", "26", "--nodes", "5", "--least", "0.4", "--mbit", "20",
             "--sample", "0.2", "--repeats", "4"]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode == SKIPPED:
        pytest.skip(done.stdout.strip().removeprefix("skipped: "))
    said = done.stdout + done.stderr
    assert "named                1 of 1" in said, said
    assert "named without fault  0 of 4" in said, said
