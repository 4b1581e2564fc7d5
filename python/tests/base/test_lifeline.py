"""Which processes live: those whose first thread has ended too, while another one goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from busbw.base import lifeline

PROGRAM = (
    "import ctypes, sys, threading\n"
    "threading.Thread(target=sys.stdin.readline).start()\n"
    "ctypes.CDLL(None).pthread_exit(None)"
)


def test_a_process_whose_first_thread_has_ended_lives_until_its_last_does() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE) as parent:
        try:
            known = lifeline.stat_of(parent.pid)
            assert known is not None
            end = time.monotonic() + 10
            while b") Z " not in Path(f"/proc/{parent.pid}/stat").read_bytes():
                assert time.monotonic() < end, "its first thread has not ended"
                time.sleep(0.01)
            assert lifeline.stat_of(parent.pid) == known
            assert not lifeline.has_ended(parent.pid, known.start)
            assert lifeline.has_ended(parent.pid, known.start + 1), "another one of the same number"
        finally:
            parent.kill()
        os.waitid(os.P_PID, parent.pid, os.WEXITED | os.WNOWAIT)
        assert lifeline.stat_of(parent.pid) is None
        assert lifeline.has_ended(parent.pid, known.start)


@pytest.mark.parametrize(
    ("state", "flags", "pending", "lives"),
    [
        ("S", 0x400040, 0, True),
        ("T", 0x400040, 1 << 14, True),
        ("S", 0x400040, 1 << 8, False),
        ("R", 0x400044, 0, False),
        ("D", 0x400440, 0, False),
        ("Z", 0, 0, False),
        ("X", 0, 0, False),
    ],
)
def test_threads_that_are_about_to_end_do_not_keep_a_process_alive(
    state: str, flags: int, pending: int, lives: bool
) -> None:
    words = f"{state} 1 7 7 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 2 0 345 0 0 0 0 0 0 0 0 {pending} 0 0 0 0 0 0 17 0"
    assert lifeline.thread_lives(words.encode().split()) is lives
