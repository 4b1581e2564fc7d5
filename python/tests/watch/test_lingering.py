"""Ranks that stay: others wait for them where a communicator ends, or have all ended."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from snapshots import NOW, process, row

from busbw.watch import processes as module
from busbw.watch.live import ALONE, Watcher
from busbw.watch.processes import EXITED, FROZEN, GONE, RUNNING, STOPPED, Process, is_frozen, progress
from busbw.watch.share import Summary, decode, encode
from busbw.watch.verdict import after_the_end, judge, may_wait, waits


def _ending(rank: int, ended: str = "destroyed") -> Process:
    """In the end of its communicator."""
    found = replace(row(rank, 10, inside=False), ended=ended, in_end=True)
    return replace(process(rank), over=(found,)) if ended == "destroyed" else process(rank, found)


def _ended(rank: int, state: str = EXITED) -> Process:
    return replace(process(rank, state=state), over=(replace(row(rank, 10, inside=False), ended="destroyed"),))


def _stays(rank: int, state: str = RUNNING, busy: float = 0.0) -> Process:
    return replace(process(rank, row(rank, 10, inside=False), state=state), busy=busy)


@pytest.mark.parametrize(
    ("ended", "state", "said"),
    [
        ("destroyed", RUNNING, "has not called ncclCommDestroy"),
        ("alive", RUNNING, "has not called ncclCommFinalize"),
        ("destroyed", STOPPED, "is stopped"),
        ("destroyed", EXITED, "has exited"),
        ("destroyed", GONE, "has ended without a word"),
    ],
)
def test_who_has_not_come_to_the_end_of_a_communicator_is_named(ended: str, state: str, said: str) -> None:
    job = [*(_ending(rank, ended) for rank in (0, 1, 3)), _stays(2, state)]
    assert may_wait(job) and not waits(job)
    assert judge(job, NOW) is None
    verdict = judge(job, NOW, is_long=True)
    assert verdict and verdict.ranks == (2,) and said in verdict.text
    assert "rank 0, 1, 3 of the communicator of 4 ranks" in verdict.text and "#10, all_reduce" in verdict.text


def test_who_waits_in_a_call_elsewhere_does_not_hold_up_the_end() -> None:
    """Its own wait is told."""
    both = process(2, row(2, 10, inside=False), row(2, 5, inside=True, identity=2))
    other = process(3, row(3, 10, inside=False), row(3, 4, inside=False, identity=2))
    verdict = judge([_ending(0), _ending(1), both, other], NOW, is_long=True)
    assert verdict and verdict.cause == "missing" and verdict.ranks == (3,)


def test_of_all_that_have_come_to_the_end_nobody_is_named() -> None:
    job = [_ending(rank) for rank in range(4)]
    assert judge(job, NOW, is_long=True, is_longest=True) is None
    assert judge([*job[:3], _ended(3)], NOW, is_long=True, is_longest=True) is None


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (_stays(2), "has called nothing since #10"),
        (_stays(2, STOPPED), "is stopped, and has called nothing since #10"),
        (replace(_ended(2), is_leaving=True, busy=0.0), "has begun its exit and does not come to the end of it"),
        (replace(_ended(2, RUNNING), busy=0.001), "has called nothing since #10"),
    ],
)
def test_who_stays_and_does_nothing_while_all_others_have_ended_is_named_late(last: Process, said: str) -> None:
    job = [_ended(0), _ended(1), _ended(3), last]
    assert may_wait(job) and not waits(job)
    assert judge(job, NOW, is_long=True) is None
    verdict = judge(job, NOW, is_long=True, is_longest=True)
    assert verdict and verdict.cause == "stays" and verdict.ranks == (2,) and said in verdict.text


def test_who_stays_after_an_error_of_nccl_ended_the_others_is_named_at_once() -> None:
    failed = [process(rank, replace(row(rank, 10, inside=False), last_error=6), state=EXITED) for rank in (0, 1, 3)]
    for last in (_stays(2), _stays(2, STOPPED)):
        assert may_wait([*failed, last])
        assert judge([*failed, last], NOW) is None
        verdict = judge([*failed, last], NOW, is_long=True)
        assert verdict and verdict.ranks == (2,) and "have all ended, after an error of NCCL" in verdict.text


def test_of_late_ranks_that_all_ended_without_a_word_the_first_one_is_the_root() -> None:
    """A launcher that lost it ended the other one."""
    went_on = [process(rank, replace(row(rank, 11, inside=False), last_error=6), state=EXITED) for rank in (0, 3)]
    late = [process(rank, row(rank, 10, inside=False), state=GONE) for rank in (1, 2)]
    verdict = after_the_end([*went_on, *late], {late[0].key: 5_000_000, late[1].key: 1_000_000})
    assert verdict and verdict.ranks == (2,)
    verdict = after_the_end([*went_on, *late])
    assert verdict and verdict.ranks == (1, 2)


def test_who_was_late_as_nccl_failed_on_another_communicator_is_not_the_root() -> None:
    """Rank 3 died before a call of its column; rank 1 waited there, and so came to none of its row."""
    column = {rank: row(rank, 20, inside=False, identity=2, ranks=2) for rank in (1, 3)}
    job = [
        process(0, replace(row(0, 31, inside=False, ranks=2), last_error=6), state=EXITED),
        process(1, row(1, 30, inside=False, ranks=2), replace(column[1], collectives=21, last_error=6), state=EXITED),
        process(3, column[3], state=GONE),
    ]
    verdict = after_the_end(job)
    assert verdict and verdict.ranks == (3,)


@pytest.mark.parametrize(
    "job",
    [
        [_ended(0), _ended(1), _ended(3), _stays(2, busy=0.2)],
        [_ended(0), _ended(1), _ended(3)],
        [_ended(0), _stays(1), _stays(2), _stays(3)],
        [_ended(0), _ended(1), _ended(3), replace(_ended(2), is_leaving=True, busy=0.5)],
        [_ended(0), _ended(1), _ended(3), replace(_stays(2), busy=None)],
    ],
    ids=["saves", "elsewhere", "most are there", "saves in its exit", "among other process numbers"],
)
def test_who_works_or_may_have_company_is_left_alone(job: list[Process]) -> None:
    assert judge(job, NOW, is_long=True, is_longest=True) is None


def test_the_watcher_waits_ten_thresholds_for_a_rank_that_nobody_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = [_ended(0), _ended(1), _ended(3), _stays(2)]
    monkeypatch.setattr("busbw.watch.live.snapshot", lambda *_, **__: job)
    watcher = Watcher(tmp_path, hang_after_s=2.0)
    said = [second for second in range(1, 40) if watcher.poll(NOW + second * 1_000_000_000)]
    watcher.close()
    assert said == [1 + 2 * ALONE]


def test_the_end_and_a_process_that_leaves_come_to_other_hosts() -> None:
    job = (_ending(0), _ending(1, "alive"), replace(_ended(2), is_leaving=True))
    there = decode(encode(Summary(NOW, 0, False, "", job, ()))).processes
    assert [row.in_end for each in there for row in (*each.communicators, *each.over)] == [True, True, False]
    assert [each.is_leaving for each in there] == [False, False, True]


def test_an_exit_that_comes_to_its_end_is_progress() -> None:
    leaving = replace(_ended(2), is_leaving=True)
    assert progress([leaving]) != progress([replace(leaving, is_leaving=False)])


def test_a_frozen_process_is_told_from_one_that_sleeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By where it sleeps, or by its control groups, of either version."""
    files: dict[str, str] = {}

    def read(path: Path, *_: object, **__: object) -> str:
        if str(path) not in files:
            raise FileNotFoundError(str(path))
        return files[str(path)]

    monkeypatch.setattr(module.Path, "read_text", read)
    assert not is_frozen(7)
    files["/proc/7/wchan"] = "do_freezer_trap"
    assert is_frozen(7)
    files["/proc/7/wchan"] = "0"
    files["/proc/7/cgroup"] = "9:cpu,freezer2:/\n4:freezer:/docker/x\n0::/slice\n"
    assert not is_frozen(7)
    files["/sys/fs/cgroup/slice/cgroup.events"] = "populated 1\nfrozen 1\n"
    assert is_frozen(7)
    files["/sys/fs/cgroup/slice/cgroup.events"] = "populated 1\nfrozen 0\n"
    files["/sys/fs/cgroup/freezer/docker/x/freezer.state"] = "THAWED\n"
    assert not is_frozen(7)
    files["/sys/fs/cgroup/freezer/docker/x/freezer.state"] = "FROZEN\n"
    assert is_frozen(7)


def test_a_process_that_runs_is_not_frozen() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert not is_frozen(child.pid) and not is_frozen(os.getpid())


def test_a_frozen_rank_is_named_as_such() -> None:
    late = [process(rank, row(rank, 11, inside=True)) for rank in (0, 1, 3)]
    verdict = judge([*late, process(2, row(2, 10, inside=False), state=FROZEN)], NOW)
    assert verdict and verdict.ranks == (2,) and "frozen by its control group" in verdict.text
