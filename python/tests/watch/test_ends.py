"""Which rank ended first: by made-up times, and of real processes that a launcher ends together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from snapshots import NOW, process, row

from busbw.watch.ends import Ends
from busbw.watch.processes import EXITED, GONE, RUNNING
from busbw.watch.recording import Shape
from busbw.watch.verdict import after_the_end, judge

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


def mixed(times_ms, last=11):
    """Rank 3 exits between calls, rank 2 is within one and has no error, ranks 0 and 1 get one."""
    members = [
        process(rank, replace(row(rank, 11, inside=rank == 2), last_error=6 * (rank < 2)),
                state=GONE if rank == 2 else EXITED)
        for rank in range(3)
    ]  # fmt: skip
    members.append(process(3, replace(row(3, 11, inside=False), entered=last), state=EXITED))
    return after_the_end(members, {each.key: at * MS for each, at in zip(members, times_ms, strict=False)})


def test_who_exits_is_told_from_whom_the_launcher_ends_by_the_order():
    left = mixed((50, 50, 90, 10))
    assert left is not None and (left.cause, left.ranks) == (EXITED, (3,))
    behind = mixed((), last=8)
    assert behind is not None and behind.ranks == (3,), "it did not come to the call in which the others failed"
    for times in ((50, 50, 10, 90), ()):
        killed = mixed(times)
        assert killed is not None and (killed.cause, killed.ranks) == (GONE, (2,))


def test_of_several_that_ended_without_a_word_the_first_one_is_named():
    members = [
        process(rank, replace(row(rank, 11, inside=rank < 2, ranks=6), last_error=6 * (rank >= 2)),
                state=GONE if rank < 2 else EXITED)
        for rank in range(6)
    ]  # fmt: skip
    verdict = after_the_end(members, {members[0].key: 90 * MS, members[1].key: 10 * MS})
    assert verdict is not None and (verdict.cause, verdict.ranks) == (GONE, (1,))
    both = after_the_end(members)
    assert both is not None and both.ranks == (0, 1)


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
            end = time.monotonic() + 10
            while number not in ends.at_ns and time.monotonic() < end:
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


def through(rank, *, last=60):
    """A rank that has destroyed its communicator after its last call."""
    over = replace(row(rank, last, inside=False), ended="destroyed")
    return replace(process(rank, state=EXITED), over=(over,))


def test_a_rank_that_calls_once_more_than_those_that_are_through_is_named():
    """It got an error, or waits yet; of as many ranks on both sides nobody knows who was right."""
    failed = process(3, replace(row(3, 61, inside=False), last_error=6), state=EXITED)
    verdict = after_the_end([*map(through, range(3)), failed])
    assert verdict is not None and (verdict.cause, verdict.ranks) == ("more", (3,))
    assert "Rank 3 (node, pid 1003) called #61" in verdict.text
    assert "which 3 other ranks have destroyed after #60" in verdict.text
    waits = process(3, row(3, 61, inside=True))
    gone = [replace(through(rank), state=RUNNING) for rank in range(3)]
    assert judge([*gone, waits], NOW).ranks == (3,)
    uneven = judge([*gone[:2], replace(through(2, last=59), state=RUNNING), waits], NOW)
    assert uneven.cause == "departed", "those that are through did not end alike"
    half = judge([*gone[:2], process(2, row(2, 61, inside=True)), waits], NOW)
    assert half.cause == "departed"


def test_of_messages_alone_those_that_are_through_hold_nobody_up():
    """Ranks 0 and 1 have sent each other all they had; rank 3 waits for rank 2, which is in no call."""
    pairs = [row(rank, 0, inside=rank == 3, last=Shape("recv", 8, "float32", "sum", rank ^ 1)) for rank in range(4)]
    waiting = [process(rank, replace(pairs[rank], entered=1, returned=rank < 3)) for rank in (2, 3)]
    for through in (
        [process(rank, pairs[rank], state=EXITED) for rank in (0, 1)],
        [replace(process(rank), over=(replace(pairs[rank], ended="destroyed"),)) for rank in (0, 1)],
    ):
        verdict = judge([*through, *waiting], NOW)
        assert (verdict.cause, verdict.ranks) == ("message", (2,))
    gone = judge([process(2, pairs[2], state=EXITED), waiting[1]], NOW)
    assert (gone.cause, gone.ranks) == (EXITED, (2,)), "it was waited for"
    whole = judge(
        [process(0, row(0, 0, inside=False), state=EXITED), *waiting[:1], process(3, row(3, 1, inside=True))], NOW
    )
    assert whole.ranks == (0,), "a collective needs all"


def failed(*errors, state=EXITED):
    return [
        process(rank, replace(row(rank, 11, inside=False, ranks=len(errors)), last_error=error), state=state)
        for rank, error in enumerate(errors)
    ]


def test_a_rank_whose_own_call_nccl_refused_is_named_before_those_that_lost_it():
    verdict = after_the_end(failed(6, 6, 4, 6))
    assert verdict is not None and (verdict.cause, verdict.ranks) == ("refused", (2,))
    assert (
        "NCCL refused a call of rank 2 (node, pid 1002) in #11, all_reduce of 64 float32, sum (invalid" in verdict.text
    )
    # Its launcher has ended the others.
    ended = [each if number == 2 else replace(each, state=GONE) for number, each in enumerate(failed(0, 0, 5, 0))]
    assert after_the_end(ended).ranks == (2,)
    assert after_the_end(failed(6, 4)).ranks == (1,)
    for errors in ((4, 0), (4, 4, 4, 6), (1, 6, 6, 6), (4, 4)):
        assert after_the_end(failed(*errors)) is None, "all of them, or an error that a lost peer makes as well"


def test_a_rank_that_died_is_named_where_all_others_have_given_their_communicator_up():
    others = [replace(process(rank, state=EXITED), over=(replace(row(rank, 11, inside=False), ended="aborted"),))
              for rank in range(3)]  # fmt: skip
    verdict = after_the_end([*others, process(3, row(3, 11, inside=False), state=GONE)])
    assert verdict is not None and (verdict.cause, verdict.ranks) == (GONE, (3,))


def test_who_exits_first_is_named_where_others_waited_for_it_and_never_another_communicators_first():
    """A launcher ends the others within milliseconds; ranks 0 and 1 share a communicator without a call."""

    def job(*, waits):
        made = []
        for rank in range(3):
            rows = [row(rank, 11, inside=waits and rank < 2, ranks=3)]
            rows += [row(rank, 0, inside=False, identity=2, ranks=2)] if rank < 2 else []
            made.append(process(rank, *rows, state=GONE if rank < 2 else EXITED))
        return after_the_end(made, {each.key: at * MS for each, at in zip(made, (40, 50, 10), strict=True)})

    verdict = job(waits=True)
    assert verdict is not None and (verdict.cause, verdict.ranks) == (EXITED, (2,))
    assert "exited first, while others waited, 30 ms before the next rank" in verdict.text
    assert job(waits=False) is None, "it may have been through"
