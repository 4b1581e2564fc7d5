"""Which rank ended first: by made-up times, and of real processes that a launcher ends together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from snapshots import process, row

from busbw.watch.ends import Ends
from busbw.watch.processes import EXITED, GONE
from busbw.watch.verdict import after_the_end

MS = 1_000_000


def ranks(*states):
    return [process(rank, row(rank, 11, inside=False, ranks=len(states)), state=state)
            for rank, state in enumerate(states)]  # fmt: skip


def said(states, times_ms):
    members = ranks(*states)
    return after_the_end(members, {each.key: at * MS for each, at in zip(members, times_ms, strict=False)})


def test_of_ranks_that_were_all_killed_the_first_is_named():
    verdict = said((GONE, GONE, GONE, GONE), (50, 48, 10, 49))
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == (GONE, (2,))
    assert "ended first, without a word, as by a signal, 38 ms before the next rank" in verdict.text


@pytest.mark.parametrize(
    ("states", "times"),
    [
        ((GONE, GONE), (10, 11)),  # either may have been first
        ((EXITED, GONE), (10, 90)),  # what exits is no fault: it may be the first that NCCL told
        ((GONE, GONE, GONE), (10, 90)),  # of one it is not known
        ((GONE, GONE), ()),
    ],
)
def test_where_the_order_does_not_tell_nobody_is_named(states, times):
    assert said(states, times) is None


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="no pidfd here")
def test_the_kernel_tells_the_order_in_which_processes_end():
    ends = Ends()
    jobs = [subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"]) for _ in range(3)]
    try:
        for number, job in enumerate(jobs):
            ends.follow(number, job.pid)
            ends.follow(number, job.pid)
        for number in (1, 0, 2):
            jobs[number].send_signal(signal.SIGKILL)
            time.sleep(0.02)
        end = time.monotonic() + 10
        while len(ends.at_ns) < 3 and time.monotonic() < end:
            time.sleep(0.01)
        assert sorted(ends.at_ns, key=ends.at_ns.__getitem__) == [1, 0, 2]
    finally:
        for job in jobs:
            job.kill()
            job.wait()
        ends.close()
    # Its descriptors are given back, and asking after the end is no fault.
    ends.close()


def test_a_process_that_is_no_more_is_not_followed():
    job = subprocess.Popen([sys.executable, "-S", "-c", ""])
    job.wait()
    ends = Ends()
    ends.follow(1, job.pid)
    assert ends.at_ns == {}
    ends.close()
