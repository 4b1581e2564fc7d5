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


def test_a_wrapper_that_lost_its_shell_is_told_from_a_daemon() -> None:
    for command in ("sh", "timeout", "make", "perl", "a program of theirs"):
        assert lifeline.had_a_shell(command, True, 0.0), command
        assert not lifeline.had_a_shell(command, True, 60.0), command
        assert not lifeline.had_a_shell(command, False, 0.0), command
    assert lifeline.had_a_shell("sudo", False, 0.0)
    for command in ("mpirun", "mpiexec.hydra", "python3", "torchrun", "busbw"):
        assert lifeline.had_a_shell(command, True, 60.0), command
        assert not lifeline.had_a_shell(command, True, 3600.0), command
    for command in ("slurmstepd", "orted", "shepherd", "sshd", "systemd", "hydra_pmi_proxy"):
        assert not lifeline.had_a_shell(command, True, 0.0), command


HOLDS = (
    "import os, sys, time\n"
    "from busbw.base import lifeline\n"
    "for _ in range(500):\n"
    "    if os.getppid() == int(sys.argv[1]):\n"
    "        break\n"
    "    time.sleep(0.01)\n"
    "lifeline.hold(os.environ)\n"
    "time.sleep(5)\n"
    "os._exit(9)\n"
)
"""A rank that looks when its launcher has gone, and that process has adopted it."""
ADOPTER = (
    "import ctypes, os, subprocess, sys\n"
    "ctypes.CDLL(None).prctl(36, 1)\n"  # PR_SET_CHILD_SUBREAPER
    "rank = [sys.executable, '-c', sys.argv[1], str(os.getpid())]\n"
    "launcher = 'import subprocess, sys; subprocess.Popen(sys.argv[1:])'\n"
    "subprocess.run([sys.executable, '-c', launcher, *rank], start_new_session=True)\n"
    "sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))\n"
)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="PR_SET_CHILD_SUBREAPER is Linux'")
def test_a_rank_in_python_that_was_adopted_before_it_looked_ends() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(lifeline.__file__).parents[2]), "RANK": "0"}
    environment.pop(lifeline.VARIABLE, None)
    done = subprocess.run([sys.executable, "-c", ADOPTER, HOLDS], env=environment, timeout=60, check=False)
    assert done.returncode == lifeline.ENDED
