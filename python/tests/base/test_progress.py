"""Progress is drawn on a terminal once it lasts, and never into a pipe."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

PYTHON = Path(__file__).parents[2]
PROGRAM = """
import sys, time
from busbw.base.progress import progress
with progress("three trials", after_s=float(sys.argv[1])) as tell:
    tell("round 1 \\x1b[2J[bold]done")
    time.sleep(float(sys.argv[2]))
print("over", file=sys.stderr)
"""


def command(after_s: float, lasts_s: float) -> list[str]:
    return [sys.executable, "-c", PROGRAM, str(after_s), str(lasts_s)]


def environment() -> dict[str, str]:
    decided_elsewhere = {"NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"}
    kept = {name: value for name, value in os.environ.items() if name not in decided_elsewhere}
    return {**kept, "PYTHONPATH": str(PYTHON), "TERM": "xterm"}


def on_a_terminal(after_s: float, lasts_s: float) -> str:
    """What reaches a terminal that the program has for its stderr."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(command(after_s, lasts_s), stdin=subprocess.DEVNULL, stderr=theirs, env=environment())
    os.close(theirs)
    found = b""
    until = time.monotonic() + 60
    try:
        while time.monotonic() < until:
            if select.select([ours], [], [], 1.0)[0]:
                try:
                    part = os.read(ours, 65536)
                except OSError:  # the other end is closed
                    break
                if not part:
                    break
                found += part
    finally:
        child.kill()
        child.wait()
        os.close(ours)
    return found.decode()


def test_a_terminal_gets_a_moving_line_that_is_gone_at_the_end() -> None:
    pytest.importorskip("rich")
    text = on_a_terminal(0.1, 1.5)
    assert "busbw: round 1 \\x1b[2J[bold]done" in text
    assert "three trials" in text and "0:00:0" in text
    assert text.rstrip().endswith("over")
    assert "\x1b[2K" in text.rpartition("three trials")[2], "the line is erased"


def test_what_is_over_at_once_draws_nothing() -> None:
    text = on_a_terminal(30.0, 0.0)
    assert "busbw: round 1" in text
    assert "three trials" not in text


def test_a_pipe_gets_the_lines_alone() -> None:
    done = subprocess.run(
        command(0.0, 0.5), env=environment(), capture_output=True, text=True, timeout=60, check=True,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert "three trials" not in done.stderr
    assert done.stderr.splitlines()[0].startswith("busbw: round 1")
    assert done.stderr.splitlines()[-1] == "over"
