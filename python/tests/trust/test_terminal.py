"""Nothing from a file reaches a terminal as code: escapes, C1, OSC and bidi marks are shown as what they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from busbw.base.terminal import guarded, visible

ROOT = Path(__file__).resolve().parents[3]
HOSTILE = "\x1b]0;title\x07\x9b31m\x1b[2J\u202e\u2066\x7f\x08\x85\u2028"


@pytest.mark.parametrize("mark", sorted(set(HOSTILE) - set("]0;title31m[2J")))
def test_a_mark_is_spelled_out(mark: str) -> None:
    shown = visible(f"a{mark}b")
    assert mark not in shown and shown.startswith("a\\") and shown.endswith("b")


def test_our_own_colours_and_progress_pass_and_nothing_else() -> None:
    assert guarded("\x1b[31mred\x1b[0m\r\x1b[K") == "\x1b[31mred\x1b[0m\r\x1b[K"
    for foreign in ("\x1b[2J", "\x1b[38;5;1m", "\x1b]8;;x\x07", "\x1b[31;1m", "\x1b", "\x1b[H", "\x1bc"):
        assert "\x1b" not in guarded(foreign), foreign


@pytest.mark.parametrize("text", ["plain", "gr\u00fc\u00dfe \u4e2d\u6587 \U0001f600", "a\tb\n", "\u00b5s"])
def test_text_of_any_language_stays(text: str) -> None:
    assert guarded(text) == text


def test_a_hostile_log_and_a_hostile_name_do_nothing_to_the_terminal(tmp_path: Path) -> None:
    log = tmp_path / "x\x1b[2J\x1b]0;t\x07.log"
    log.write_text(f"h{HOSTILE}:1:1 [0] NCCL INFO NCCL version 2.1{HOSTILE}\n# {HOSTILE}\n 1 2 float {HOSTILE}\n")
    for words in (
        ["import", str(log)],
        ["doctor", "--log", str(log)],
        ["report", str(log)],
        [HOSTILE],
        ["runs", HOSTILE],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "busbw", *words], capture_output=True, timeout=60, check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "BUSBW_RUNS": str(tmp_path / "runs")},
        )  # fmt: skip
        text = (done.stdout + done.stderr).decode(errors="surrogateescape")
        assert not set(text) & set("\x1b\x07\x9b\u202e\u2066\x08\x85\u2028"), words
