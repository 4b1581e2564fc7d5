"""What a replay takes of recordings that lost calls or hold too many, and how it checks results in place."""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from made_recordings import Made, Row, write

from busbw.base.errors import UserError
from busbw.watch import replay
from busbw.watch.recording import Recording, find
from busbw.watch.replay import plan
from busbw.watch.replay_memory import HostMemory
from busbw.watch.replay_rank import UNDER_WAY, Lane, parts_of, replayed


def planned(folder: Path) -> replay.Plan:
    recordings = [Recording(path) for path in find(folder)]
    try:
        return plan(recordings, None)
    finally:
        for each in recordings:
            each.close()


def test_messages_of_a_rank_that_lost_calls_are_left_out(tmp_path: Path) -> None:
    for rank, kind in enumerate(("send", "recv")):
        calls = [Made(0, kind=kind, root=1 - rank), Made(10**6)]
        write(tmp_path, rank, [Row(rank, 2)], calls, lost=rank)
    assert [[step[2] for step in rank.steps] for rank in planned(tmp_path).ranks] == [["all_reduce"], ["all_reduce"]]


def test_messages_of_unlike_types_are_left_out_from_there_on(tmp_path: Path) -> None:
    for rank, kind in enumerate(("send", "recv")):
        types = ["float32", "int32" if rank else "float32", "float32"]
        calls = [Made(at * 10**6, kind=kind, root=1 - rank, type=type_) for at, type_ in enumerate(types)]
        write(tmp_path, rank, [Row(rank, 2)], [*calls, Made(9 * 10**6)])
    assert [[step[2] for step in rank.steps] for rank in planned(tmp_path).ranks] == [
        ["send", "all_reduce"],
        ["recv", "all_reduce"],
    ]


def test_what_was_refused_is_not_replayed_though_it_was_called_alike(tmp_path: Path) -> None:
    refused = 4
    for rank in range(2):
        write(tmp_path, rank, [Row(rank, 2)], [Made(0, flags=refused), Made(10**6)])
    made = planned(tmp_path)
    assert [len(rank.steps) for rank in made.ranks] == [1, 1]
    assert made.left_out == {"calls that were refused, or captured into a graph": 2}


def test_a_recording_of_too_many_calls_is_refused_with_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "MAX_CALLS", 3)
    for rank in range(2):
        write(tmp_path, rank, [Row(rank, 2)], [Made(n * 10**6) for n in range(4)])
    with pytest.raises(UserError, match="holds 4 calls; busbw replay takes 3 of a rank"):
        planned(tmp_path)


def step(number: int, group: int = 0, in_place: bool = False) -> list[Any]:
    return [number, 0, "all_reduce", 8, 2, 0, 0, group, 0, -1, False, in_place]


def test_groups_that_follow_each_other_stay_apart() -> None:
    steps = [step(0, 1), step(1, 1), step(2, 2), step(3), step(4), step(5, 3)]
    assert [[each[0] for each in part] for part in parts_of(steps)] == [[0, 1], [2], [3], [4], [5]]


def test_a_lane_waits_for_the_gpu_before_the_recorder_has_no_more_events() -> None:
    done = []

    class Memory(HostMemory):
        def wait(self) -> None:
            done.append(len(called))

    called: list[int] = []
    nccl = SimpleNamespace(ncclAllReduce=lambda *_: called.append(1) or 0)
    rank: Any = SimpleNamespace(nccl=nccl, comms=[None], communicators=[[2, 0]], memory=Memory)
    Lane(rank, [step(n) for n in range(3 * UNDER_WAY)]).run(gaps=False, start_ns=0)
    assert done == [UNDER_WAY, 2 * UNDER_WAY, 3 * UNDER_WAY, 3 * UNDER_WAY]


def test_the_first_call_of_a_shape_has_no_time_unless_it_is_the_only_one() -> None:
    rank: Any = SimpleNamespace(
        nccl=SimpleNamespace(ncclAllReduce=lambda *_: 0),
        comms=[None],
        communicators=[[2, 0]],
        memory=HostMemory,
        most=2,
    )
    for calls, times in ((1, 1), (5, 4)):
        found = replayed(rank, [step(n) for n in range(calls)], gaps=False, meet=lambda: 0)
        assert [len(each) for each in found["times"].values()] == [times]


@pytest.mark.parametrize("in_place", [True, False])
def test_an_all_reduce_in_place_is_checked_with_data_where_it_reads_them(in_place: bool) -> None:
    def doubled(send: Any, receive: Any, count: Any, *_: Any) -> int:
        source, into = ((ctypes.c_int32 * count.value).from_address(each.value) for each in (send, receive))
        for at in range(count.value):
            into[at] = 2 * source[at]
        return 0

    rank: Any = SimpleNamespace(
        nccl=SimpleNamespace(ncclAllReduce=doubled), comms=[None], communicators=[[2, 0]], memory=HostMemory
    )
    lane = Lane(rank, [step(0, in_place=in_place)])
    lane.run(gaps=False, start_ns=0)
    assert lane.failed is None
    assert (lane.checks, lane.wrong) == (1, 0)
