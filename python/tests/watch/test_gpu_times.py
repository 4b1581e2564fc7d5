"""Times on the GPU and launches of graphs, read from recordings: wait and transfer are told apart without clocks."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from made_recordings import Made, Row, write

from busbw.base.errors import UserError
from busbw.watch.gpu_rows import GPU_HEADER
from busbw.watch.gpu_times import GpuTimes, sums_of
from busbw.watch.live import Follower
from busbw.watch.recording import Recording, find
from busbw.watch.summary import summarise


def timed_job(folder: Path, ranks: int = 3, calls: int = 40) -> None:
    """Rank 2 comes 500 us late each time; the transfer takes 100 us."""
    for rank in range(ranks):
        took = 100_000 if rank == 2 else 600_000 + rank
        made = [Made(n * 10**6, None, gpu_ns=took) for n in range(calls)]
        made += [Made(calls * 10**6, None, gpu_ns=7, group=3), Made(calls * 10**6 + 9, None, kind="send", root=0)]
        write(folder, rank, [Row(rank, ranks)], made, synchronous=False)


def opened(folder: Path) -> list[Recording]:
    return [Recording(path) for path in find(folder)]


def test_the_shortest_time_is_the_transfer_and_the_rest_is_wait(tmp_path: Path) -> None:
    timed_job(tmp_path)
    found = list(GpuTimes().look(opened(tmp_path)))
    assert len(found) == 40, "calls of a group have no time of their own"
    assert {one.transfer_ns for one in found} == {100_000}
    assert {one.waited_ns for one in found} == {500_000 + 500_001}
    assert {one.last for one in found} == {"rank 2 (node, pid 1002)"}


def test_the_table_says_it_for_each_size(tmp_path: Path) -> None:
    timed_job(tmp_path)
    text = sums_of(opened(tmp_path)).text().splitlines()
    assert text[1].split() == ["all_reduce", "<=", "1", "KiB", "3", "40", "100.0", "333.3"]
    assert text[2].startswith("on the GPU, 40 timed collectives: wait 77 %, transfer 23 %; last most often: rank 2 (")
    assert text[3] == "came last on the GPU: rank 2 (node, pid 1002) 100 %"


def test_the_live_table_has_a_line_for_it(tmp_path: Path) -> None:
    timed_job(tmp_path)
    follower, recordings = Follower(), opened(tmp_path)
    follower.look(recordings)
    assert follower.table(recordings, 10**9, 200)[1].startswith("on the GPU, 40 timed collectives: wait 77 %")
    follower.look(recordings)
    assert not any(line.startswith("on the GPU") for line in follower.table(recordings, 2 * 10**9, 200))


def test_an_import_takes_the_transfer_as_the_time(tmp_path: Path) -> None:
    timed_job(tmp_path)
    words = [sys.executable, "-m", "busbw", "import", str(tmp_path), "--output", str(tmp_path / "run.jsonl")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "run.jsonl").read_text()
    assert '"time_us":100.0' in written.replace(" ", "")
    assert "transfer 23 %" in written


def test_calls_of_launched_graphs_are_calls(tmp_path: Path) -> None:
    calls = [Made(0, flags=1), Made(10**6, launched=True), Made(2 * 10**6, launched=True)]
    write(tmp_path, 0, [Row(0, 2)], calls, launches=2)
    with Recording(find(tmp_path)[0]) as recording:
        assert [(call.captured, call.launched) for call in recording.calls()] == [(1, 0), (0, 1), (0, 1)]
        assert {call.shape.kind for call in recording.calls()} == {"all_reduce"}
    text = summarise(find(tmp_path)).text()
    assert "2 launches of graphs with calls in them, each counted" in text
    assert "could not be seen" not in text


def test_graphs_whose_launches_are_not_seen_are_told(tmp_path: Path) -> None:
    write(tmp_path, 0, [Row(0, 2)], [Made(0, flags=1)], sees_launches=False)
    assert "1 processes captured calls into graphs whose launches could not be seen" in summarise(find(tmp_path)).text()


def test_hostile_times_are_a_sentence_or_numbers(tmp_path: Path) -> None:
    timed_job(tmp_path, 1)
    (path,) = find(tmp_path)
    good, chance = path.read_bytes(), random.Random(1)
    refused = 0
    for _ in range(60):
        bad = bytearray(good)
        for _ in range(2):
            at = 232 + chance.randrange(GPU_HEADER.size)
            bad[at : at + 1] = bytes([chance.choice((0, 0x7F, 0xFF))])
        bad[-32 * 20 : -32 * 10] = chance.randbytes(320)
        path.write_bytes(bad)
        with Recording(path) as recording:
            try:
                sum(1 for _, _ in zip(range(10**5), recording.times(), strict=False))
            except UserError as error:
                refused += 1
                assert "\n" not in str(error)
    assert refused


def test_a_ring_of_times_that_has_come_round_is_read_from_its_oldest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in range(2):
        path = write(tmp_path, rank, [Row(rank, 2)], [Made(n * 10**6, None, gpu_ns=1000 + n) for n in range(64)])
        content = bytearray(path.read_bytes())
        launches, at, capacity, times, *rest = GPU_HEADER.unpack_from(content, 232)
        GPU_HEADER.pack_into(content, 232, launches, at, capacity, times + 10 * capacity, *rest)
        path.write_bytes(content)
    monkeypatch.setattr("busbw.watch.gpu_times.LIMIT", 8)
    assert sums_of(opened(tmp_path)).last.total() == 64


@pytest.mark.parametrize("number", [0, -1, 10**12])
def test_a_call_that_is_not_there_is_none(tmp_path: Path, number: int) -> None:
    timed_job(tmp_path, 1)
    with Recording(find(tmp_path)[0]) as recording:
        assert recording.call(number) is None
        assert recording.call(1) is not None


def test_a_late_rank_over_nccl_is_accused_by_its_times_on_the_gpu(tmp_path: Path) -> None:
    timed_job(tmp_path)
    lates = Follower().look(opened(tmp_path))
    assert [(late.rank, late.since, late.late_ns // 1000) for late in lates] == [(2, 1, 500)]


def test_nobody_is_accused_where_a_time_of_a_rank_is_missing(tmp_path: Path) -> None:
    timed_job(tmp_path)
    first = next(iter(GpuTimes().look(opened(tmp_path))))
    assert first.meeting() is not None
    assert replace(first, by_rank=first.by_rank[:2]).meeting() is None
