"""A rank that leaves its usual order of communicators, and what else tells who waits for whom in rare moments."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from made_recordings import Made, Row, write
from snapshots import NOW, SECOND, USUAL, process, row, waiting

from busbw.watch import links
from busbw.watch.arrivals import Tail, _Clock
from busbw.watch.live import Follower, Watcher
from busbw.watch.makings import Making
from busbw.watch.noise import Noise
from busbw.watch.processes import EXITED, GONE, RUNNING, Process, is_new_turn, snapshot
from busbw.watch.recording import Recording, find
from busbw.watch.summary import summarise, who_waits
from busbw.watch.verdict import judge, waits


def test_of_two_that_wait_for_each_other_the_one_that_did_what_it_never_did_is_named() -> None:
    """Rank 2 has left out #11 of its half of the job, and its other half, rank 0, waits there: each for the other."""
    processes = [
        process(
            rank,
            row(rank, 11 if rank == 0 else 12, inside=rank != 0),
            row(rank // 2, 10 if rank == 2 else 11, inside=rank == 0, identity=2 + rank % 2, ranks=2),
        )
        for rank in range(4)
    ]
    for odd in (0, 2):
        verdict = judge([replace(each, is_new_turn=each.pid == 1000 + odd) for each in processes], NOW)
        assert verdict is not None
        assert (verdict.cause, verdict.accused) == ("order", (("node", 1000 + odd),))


def test_a_rank_that_calls_once_more_is_named_though_more_ranks_are_late_for_it() -> None:
    """Of two rows of four, rank 0 waits in a second call on its column; its row waits for it, the other for all."""

    def job(*new: int) -> list[Process]:
        ranks = []
        for rank in range(8):
            world = row(rank, 10 if rank > 3 else 9, inside=rank > 3, ranks=8)
            along = row(rank % 4, 21 if 0 < rank < 4 else 20, inside=0 < rank < 4, identity=2 + rank // 4)
            column = row(rank // 4, 51 if rank == 0 else 50, inside=rank == 0, identity=4 + rank % 4, ranks=2)
            ranks.append(replace(process(rank, world, along, column), is_new_turn=rank in new))
        return ranks

    verdict = judge(job(0), NOW)
    assert verdict is not None and (verdict.cause, verdict.accused) == ("order", (("node", 1000),))
    assert "rank 0 (node, pid 1000) has left out #10 of the communicator of 8 ranks" in verdict.text
    # A step that comes for the first time is new to most, and no fault of theirs.
    verdict = judge(job(0, 4, 5, 6, 7), NOW)
    assert verdict is not None and verdict.accused == (("node", 1004),)


def test_a_turn_is_new_that_never_came_though_it_might_have() -> None:
    assert is_new_turn([0, 1] * 4 + [0, 0])
    assert is_new_turn([0, 0, 0, 0, 1])
    assert is_new_turn([0, 1] * 4 + [1, 0, 1, 0]), "some calls later too"
    assert not is_new_turn([0, 1] * 4)
    assert not is_new_turn([0, 1] * 4 + [1] + [0, 1] * 9), "long ago"
    assert not is_new_turn([0, 1, 0, 1, 0, 0]), "two times are not several"
    assert not is_new_turn([0, 1, 2] * 4 + [0, 2, 0, 1, 2, 0, 2])
    assert not is_new_turn([])


@pytest.mark.parametrize(("places", "is_new"), [([0, 1] * 4 + [0, 0], True), ([0, 1] * 4, False)])
def test_a_new_turn_is_read_from_a_recording(tmp_path: Path, places: list[int], is_new: bool) -> None:
    calls = [Made(at * 10**6, place=place) for at, place in enumerate(places)]
    write(tmp_path, 0, [Row(0, 2), Row(0, 2, identity=9)], calls)
    with Recording(find(tmp_path)[0]) as recording:
        assert snapshot([recording], with_history=True)[0].is_new_turn is is_new
        assert not snapshot([recording])[0].is_new_turn, "looked at for a verdict only"


def test_a_rank_that_makes_a_communicator_alone_is_late_for_the_call_that_another_waits_in() -> None:
    """As many wait in a call as in the making: the call is the older wait."""
    made = Making("init", 99, NOW - SECOND, 1, 2)
    ranks = [process(0, row(0, 11, inside=True, ranks=2)), process(1, row(1, 10, inside=False, ranks=2))]
    verdict = judge([ranks[0], replace(ranks[1], making=made)], NOW, is_long=True)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == ("missing", (1,))
    assert "in the making of another communicator" in verdict.text


@pytest.mark.parametrize(("received", "found"), [("00000000", 1), ("00000005", 0)])
def test_a_connection_with_data_to_read_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, received: str, found: int
) -> None:
    words = f"0: 0100007F:1234 0100007F:5678 01 00000000:{received} 00:0 00000000 0 0 777".split()
    monkeypatch.setattr(links, "_sockets", lambda _: {5: "777"})
    monkeypatch.setattr(links, "_waited_for", lambda _: {5})
    monkeypatch.setattr(links, "_rows", lambda path: [words] if path.name == "tcp" else [])
    assert len(links.links_of(1)) == found


def test_a_stall_that_was_told_is_over_when_a_call_comes_and_counts_twice(tmp_path: Path) -> None:
    """By ten times the next hang would be told late. Not at all, and who saves a model each hour is told each time."""
    child = subprocess.Popen([sys.executable, "-S", "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    for rank, pid in enumerate((os.getpid(), child.pid)):
        path = write(tmp_path, rank, [Row(rank, 2)], [Made(0)] * (2 - rank), host=socket.gethostname(), pid=pid,
                     ended=False)  # fmt: skip
        begun = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[19]
        changed(path, 72, int(begun))
    watcher = Watcher(tmp_path, None)
    verdicts = [watcher.poll(second * SECOND) for second in (100, 106, 111)]
    assert [verdict is not None for verdict in verdicts] == [False, False, True]
    assert watcher.said
    changed(path, 4096 + 64, 2)
    assert watcher.poll(112 * SECOND) is None
    assert not watcher.said
    assert watcher.threshold_s() == 24.0
    # The longest pause counts, and not the newest.
    changed(path, 4096 + 64, 3)
    assert watcher.poll(120 * SECOND) is None
    changed(path, 4096 + 64, 4)
    assert watcher.poll(121 * SECOND) is None
    assert watcher.threshold_s() == 80.0
    watcher.close()
    child.communicate()


def test_a_call_in_progress_is_read_when_it_has_come_back(tmp_path: Path) -> None:
    """Else nobody would know when it ended."""
    with Recording(write(tmp_path, 0, [Row(0, 2)], [Made(0), Made(10**6, None)], ended=False)) as recording:
        tail = Tail(recording)
        assert [call.number for call in tail.new(recording.header(), None)] == [1]
        write(tmp_path, 0, [Row(0, 2)], [Made(0), Made(10**6, 640)], ended=False)
        assert [(call.number, call.host_ns) for call in tail.new(recording.header(), None)] == [(2, 640)]


def test_ranks_that_share_a_name_are_told_apart(tmp_path: Path) -> None:
    """Two jobs in one folder, whose ranks have the same numbers, and a process with a thread for each of its ranks."""
    for job in range(2):
        for rank in range(2):
            row = Row(rank, 2, identity=7 + job)
            write(tmp_path, rank, [row], [Made(0), Made(10**6)], pid=1000 + 10 * job + rank)
    write(tmp_path, -1, [Row(0, 2, identity=9), Row(1, 2, identity=9)], [Made(0), Made(500, place=1)], pid=2000)
    follower = Follower(newest=None)
    with ExitStack() as stack:
        recordings = [stack.enter_context(Recording(path)) for path in find(tmp_path)]
        follower.read_all(recordings)
        families = follower.sums.families(recordings, follower.stragglers, [], 0)
    assert "10 calls by 6 ranks of communicators in 5 processes" in summarise(find(tmp_path)).text()
    table = who_waits(follower.stragglers, [])
    for rank in (0, 1):
        assert f"{rank} of 2 (0000000000000009)" in table
    for family in families:
        series = [tuple(sorted(labels.items())) for labels, _ in family.samples]
        assert len(set(series)) == len(series), f"{family.name}: one sample of each series"


def test_ranks_of_a_job_that_was_begun_anew_hold_nobody_up() -> None:
    """All processes of the first attempt have ended, one of them a call earlier; those of the second go on."""
    first = [
        process(rank, row(rank, 40 + (rank != 2), inside=rank != 2), state=GONE if rank == 2 else EXITED)
        for rank in range(4)
    ]
    assert not waits(first) and judge(first, NOW) is None, "the launcher may begin the job anew"
    assert waits([*first[:3], replace(first[3], state=RUNNING)])
    second = [
        replace(process(rank, row(rank, 11 - (rank == 1), inside=rank != 1, identity=2)), pid=2000 + rank)
        for rank in range(4)
    ]
    verdict = judge([*first, *second], NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.accused) == ("missing", (("node", 2001),))


def changed(path: Path, at: int, value: int) -> None:
    """A number of 64 bits in a file."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(struct.pack("<Q", value))


def test_what_a_straggler_did_is_no_noise_of_now() -> None:
    noise = Noise(100_000.0)
    for rank in (1, 2):
        noise.add(rank, 5, 330_000)
    noise.begin_call({1: 5, 2: 5})
    noise.forget(1, [])
    assert list(noise.burst) == [{2: 5}]


def test_the_error_of_a_clock_is_half_of_the_width_of_its_bounds() -> None:
    clock = _Clock()
    clock.bounds.extend([(0, 10), (4, 20)])
    assert clock.best() == (7, 3)


def test_of_two_ranks_whose_calls_differ_the_one_that_called_otherwise_before_is_named() -> None:
    other = replace(USUAL, count=63)
    for odd in range(2):
        histories = [{9: USUAL, 10: USUAL, 11: other if rank == odd else USUAL} for rank in range(2)]
        ranks = [process(rank, row(rank, 11, inside=True, ranks=2), history={0: histories[rank]}) for rank in range(2)]
        verdict = judge(ranks, NOW)
        assert verdict is not None and (verdict.cause, verdict.ranks) == ("unlike", (odd,))


def test_of_two_ranks_the_one_that_does_not_follow_the_order_of_before_is_named() -> None:
    small = replace(USUAL, count=1)
    order = [USUAL, USUAL, small] * 4
    # The other shape was called more often: who leaves the small one out is odd all the same.
    for odd in range(2):
        histories = [dict(enumerate(order, 1)) for _ in range(2)]
        histories[odd][12] = USUAL
        ranks = [process(rank, row(rank, 12, inside=True, ranks=2), history={0: histories[rank]}) for rank in range(2)]
        verdict = judge(ranks, NOW)
        assert verdict is not None and (verdict.cause, verdict.ranks) == ("unlike", (odd,))


def test_where_either_followed_the_same_calls_before_both_are_named() -> None:
    one, other = replace(USUAL, count=1), replace(USUAL, count=2)
    before = [USUAL, one, USUAL, other, USUAL]
    ranks = [
        process(rank, row(rank, 6, inside=True, ranks=2), history={0: dict(enumerate([*before, mine], 1))})
        for rank, mine in enumerate((one, other))
    ]
    verdict = judge(ranks, NOW)
    assert verdict is not None and (verdict.cause, verdict.ranks) == ("unlike", (0, 1))


def test_where_as_many_call_one_thing_as_another_and_nothing_tells_which_is_right_both_are_named() -> None:
    other = replace(USUAL, count=63)
    for size in (2, 20):
        ranks = [
            process(rank, row(rank, 1, inside=True, ranks=size), history={0: {1: other if rank % 2 else USUAL}})
            for rank in range(size)
        ]
        verdict = judge(ranks, NOW)
        assert verdict is not None and (verdict.cause, verdict.ranks) == ("unlike", tuple(range(size)))
        assert "hich is right is not known." in verdict.text and len(verdict.text) < 600


def test_the_number_in_the_job_stands_beside_that_in_the_communicator() -> None:
    late = [replace(each, name=str(int(each.name) + 4)) for each in waiting(1)]
    verdict = judge(late, NOW)
    assert verdict is not None and "rank 1 (node, pid 1001, rank 5 of the job) did not call #11" in verdict.text
