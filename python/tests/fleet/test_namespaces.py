"""`busbw fleet run` over real namespaces: a link that tc shapes worse is found through Open MPI's TCP."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REAL = Path(__file__).parents[3] / "bench" / "fleet" / "real.py"
SKIPPED = 77


def test_links_that_are_shaped_worse_are_named() -> None:
    words = [sys.executable, str(REAL), "--seeds", "24"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode == SKIPPED:
        pytest.skip(done.stdout.strip().removeprefix("skipped: "))
    said = done.stdout + done.stderr
    assert "named                2 of 2" in said, said
    assert "named without fault  0 of 6" in said, said
