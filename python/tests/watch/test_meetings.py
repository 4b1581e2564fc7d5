"""What is read as columns is what is read call by call, and in a fraction of the time."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from made_recordings import Made, Row, write

from busbw.watch import meetings as room
from busbw.watch.arrivals import Arrivals, Meeting
from busbw.watch.columns import quotas, read, waits
from busbw.watch.meetings import meetings
from busbw.watch.recording import Recording, find
from busbw.watch.timeline import write_timeline

RANKS = 3
KINDS = ("all_reduce", "all_reduce", "all_gather", "send", "broadcast")


def make(folder: Path, seed: int, *, synchronous: bool = True, boots: int = 1) -> list[Recording]:
    """Of all ranks the same calls, some in groups, refused, captured or left out by a rank."""
    chance = random.Random(seed)
    plan = [(chance.choice(KINDS), chance.randrange(2), chance.random(), 1 << chance.randrange(8)) for _ in range(200)]
    for rank in range(RANKS):
        calls, now = [], 0
        for at, (kind, place, luck, count) in enumerate(plan):
            now += chance.randrange(1, 300) * 640
            if luck < 0.03 and rank == 1:
                continue
            took = None if at == len(plan) - 1 else chance.randrange(1, 200) * 64
            root = 0 if kind in {"broadcast", "send"} else None
            flags = 4 if 0.05 < luck < 0.1 else 1 if luck > 0.97 else 0
            calls.append(Made(now, took, kind, count, place=place, root=root, flags=flags, group=int(0.1 < luck < 0.2)))
            now += took or 0
        rows = [Row(rank, RANKS), Row(rank, RANKS, identity=9)]
        write(folder, rank, rows, calls, synchronous=synchronous, boot=1 + rank % boots, ended=False)
    return [Recording(path) for path in find(folder)]


def one_by_one(recordings: Sequence[Recording]) -> list[Meeting]:
    found, arrivals = [], Arrivals()
    while new := list(arrivals.look(recordings)):
        found += [each for each in new if isinstance(each, Meeting)]
    return found


@pytest.mark.parametrize("window", [7, 1 << 15])
@pytest.mark.parametrize(
    ("synchronous", "boots"), [(True, 1), (False, 1), (True, 3)], ids=["one host", "over NCCL", "three hosts"]
)
def test_meetings_are_those_that_are_found_call_by_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int, synchronous: bool, boots: int
) -> None:
    monkeypatch.setattr(room, "WINDOW", window)
    for seed in range(4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        recordings = make(folder, seed, synchronous=synchronous, boots=boots)
        found, known = list(meetings(recordings)), one_by_one(recordings)
        assert len(known) > 50
        assert sorted(map(repr, found)) == sorted(map(repr, known))
        for communicator in {each.communicator for each in known}:
            numbers = [each.sequence for each in found if each.communicator == communicator]
            assert numbers == sorted(numbers)


def test_waits_are_those_of_the_meetings(tmp_path: Path) -> None:
    recordings = make(tmp_path, 1)
    columns = [read(each, 1000) for each in recordings]
    found = waits(recordings, columns)
    wanted = {
        (at, each.sequence, arrival.place): each.last.begun_ns - arrival.begun_ns
        for each in one_by_one(recordings) if each.is_synchronous
        for at, arrival in enumerate(each.arrivals)
    }  # fmt: skip
    told = {
        (at, int(one.sequence[call]), int(one.place[call])): int(found[at][call])
        for at, one in enumerate(columns) for call in found[at].nonzero()[0]
    }  # fmt: skip
    assert told == {key: wait for key, wait in wanted.items() if wait}
    assert len(told) > 50


def test_of_many_recordings_as_many_calls_of_each_are_read_as_can_be() -> None:
    assert quotas([10, 100, 100], 90) == [10, 40, 40]
    assert quotas([5, 5], 100) == [5, 5]
    assert quotas([], 100) == []


def test_a_timeline_costs_a_part_of_what_reading_call_by_call_does(tmp_path: Path) -> None:
    for rank in range(2):
        write(tmp_path, rank, [Row(rank, 2)], [Made(n * 10**5 + rank * 640, 6400) for n in range(40_000)])
    recordings = [Recording(path) for path in find(tmp_path)]
    write_timeline(recordings, tmp_path / "first.html")
    start = time.process_time()
    assert len(one_by_one(recordings)) == 40_000
    usual = time.process_time() - start
    start = time.process_time()
    assert write_timeline(recordings, tmp_path / "t.html") == (80_000, 0)
    assert time.process_time() - start < usual / 3
