"""Recorded calls are issued again, on as many ranks or fewer, and what cannot be is said."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from made_recordings import Made, Row, write

from busbw.base.errors import UserError
from busbw.watch.recording import Recording, find
from busbw.watch.replay import Plan, plan
from busbw.watch.replay_gpu import put, replayed
from busbw.watch.replay_host import put as put_host
from busbw.watch.replay_rank import Lane, Rank, begun_together, encoded, wait_until

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUSBW_BUILD", ROOT / "build"))
CPU = BUILD / "lib" / "libbusbw_cpu.so"

needs_library = pytest.mark.skipif(not CPU.exists(), reason="the CPU library is not built; BUSBW_BUILD names a build")


def planned(folder: Path, ranks: int | None = None) -> Plan:
    recordings = [Recording(path) for path in find(folder)]
    try:
        return plan(recordings, ranks)
    finally:
        for each in recordings:
            each.close()


def everything(folder: Path, ranks: int = 3) -> None:
    """Each collective and type, a communicator of two ranks, a group, sends, and a call that one rank lacks."""
    for rank in range(ranks):
        rows = [Row(rank, ranks), *([Row(rank, 2, identity=9)] if rank < 2 else [])]
        calls = [
            Made(n * 10**6, kind=kind, type=type_, root=root, count=100 + n)
            for n, (kind, type_, root) in enumerate(
                [
                    ("all_reduce", "float32", None), ("all_gather", "bfloat16", None), ("reduce_scatter", "int8", None),
                    ("broadcast", "float64", 2), ("reduce", "float16", 1), ("alltoall", "uint64", None),
                    ("gather", "int32", 1), ("scatter", "uint8", 2), ("all_reduce", "float8e4m3", None),
                ]
            )
        ]  # fmt: skip
        calls += [Made(20 * 10**6, group=5), Made(20 * 10**6 + 1000, group=5)]
        calls += [Made(21 * 10**6, kind="send", root=(rank + 1) % ranks)]
        if rank < 2:
            calls += [Made(22 * 10**6, place=1, op="max")] * 3
        if rank:
            calls += [Made(23 * 10**6)]
        write(folder, rank, rows, calls)


def replay(folder: Path, *options: str, environ: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "busbw", "replay", str(folder), *options]
    more = {**os.environ, **(environ or {})}
    return subprocess.run(words, env=more, capture_output=True, text=True, timeout=120, check=False)


def test_a_plan_holds_what_all_ranks_called_alike(tmp_path: Path) -> None:
    everything(tmp_path)
    made = planned(tmp_path)
    assert [len(rank.steps) for rank in made.ranks] == [14, 14, 11]
    assert made.left_out == {
        "sends and receives whose other half is not in the recordings": 3,
        "calls that not all ranks made, or not alike": 2,
    }
    assert [rank.communicators for rank in made.ranks] == [[(3, 0), (2, 0)], [(3, 1), (2, 1)], [(3, 2), (0, 0)]]


def test_fewer_ranks_are_mapped_and_said(tmp_path: Path) -> None:
    everything(tmp_path)
    made = planned(tmp_path, 2)
    assert [rank.communicators for rank in made.ranks] == [[(2, 0), (2, 0)], [(2, 1), (2, 1)]]
    roots = {step[2]: step[6] for step in made.ranks[0].steps}
    assert (roots["broadcast"], roots["reduce"]) == (0, 1), "rank 2 is left out: the first one is the root"
    assert made.notes[0].startswith("2 of 3 ranks: communicators have their remaining ranks")


def test_what_cannot_be_replayed_is_a_sentence(tmp_path: Path) -> None:
    write(tmp_path, 0, [Row(0, 4)], [Made(0)])
    write(tmp_path, 1, [Row(1, 4)], [Made(0)])
    with pytest.raises(UserError, match=r"2 of 4 ranks of a communicator: bring the others, or say --ranks 2"):
        planned(tmp_path)
    assert len(planned(tmp_path, 2).ranks[0].steps) == 1
    with pytest.raises(UserError, match="more cannot be made"):
        planned(tmp_path, 3)
    with pytest.raises(UserError, match="nothing to replay"):
        planned(tmp_path, 1)
    write(tmp_path, 1, [Row(1, 4), Row(2, 4)], [Made(0)])
    with pytest.raises(UserError, match="several ranks of one communicator"):
        planned(tmp_path, 2)


def test_a_mismatch_that_hung_the_job_does_not_hang_the_replay(tmp_path: Path) -> None:
    for rank in range(2):
        write(tmp_path, rank, [Row(rank, 2)], [Made(0), Made(10**6, count=5 + rank), Made(2 * 10**6)])
    made = planned(tmp_path)
    assert [len(rank.steps) for rank in made.ranks] == [2, 2]
    assert made.left_out == {"calls that not all ranks made, or not alike": 2}


def test_an_enormous_call_is_left_out(tmp_path: Path) -> None:
    for rank in range(2):
        write(tmp_path, rank, [Row(rank, 2)], [Made(0, count=(1 << 48) - 1), Made(10**6)])
    assert [len(rank.steps) for rank in planned(tmp_path).ranks] == [1, 1]


@needs_library
@pytest.mark.parametrize("options", [(), ("--ranks", "2"), ("--gaps",)])
def test_it_replays_over_the_cpu_library_and_checks_results(tmp_path: Path, options: tuple[str, ...]) -> None:
    everything(tmp_path)
    done = replay(tmp_path, "--library", str(CPU), *options)
    assert done.returncode == 0, done.stderr
    calls, ranks = ("28", "2") if "--ranks" in options else ("39", "3")
    assert f"{calls} calls of {ranks} ranks in" in done.stdout
    assert ", recorded over 0.022 s; 0 wrong of " in done.stdout
    took = float(done.stdout.splitlines()[-1].split(" in ")[1].split(" s,")[0])
    assert "--gaps" not in options or took >= 0.022


@pytest.mark.parametrize(
    ("kind", "type_", "written", "wrong"),
    [("all_reduce", 7, 3.0, 0), ("all_reduce", 7, 2.0, 3), ("all_gather", 7, 1.0, 0), ("broadcast", 7, 0.0, 3),
     ("recv", 7, 1.0, 0), ("recv", 7, 2.0, 3), ("send", 7, 2.0, 0)],
)  # fmt: skip
def test_a_wrong_result_is_counted(kind: str, type_: int, written: float, wrong: int) -> None:
    written_bytes = (encoded(type_, int(written)) or b"") * (75 if kind == "all_gather" else 25)
    ready = Ready(lambda receive: ctypes.memmove(receive, written_bytes, len(written_bytes)))
    lane = Lane(ready, [[0, 0, kind, 25, type_, 0, 0, 0, 0, -1, False, False]])
    lane.run(gaps=False, start_ns=0)
    assert (lane.failed, lane.wrong) == (None, wrong)


class Ready(Rank):
    """A library that writes what a test wants."""

    def __init__(self, write: Any) -> None:
        self.communicators, self.comms = [[3, 0]], [None]

        class Library:
            def __getattr__(self, name: str) -> Any:
                if name in {"ncclGroupStart", "ncclGroupEnd"}:
                    return lambda: 0
                at = 0 if name == "ncclRecv" else 1

                def call(*words: Any) -> int:
                    if name != "ncclSend":
                        write(words[at])
                    return 0

                return call

        self.nccl: Any = Library()


def messages(folder: Path, ranks: int = 3) -> None:
    """An all-to-all made of sends, a ring outside of groups, a split's pair, and what hung in the middle."""
    for rank in range(ranks):
        rows = [Row(rank, ranks), *([Row(rank, 2, identity=9, parent=7, made=3)] if rank < 2 else [])]
        calls = [Made(0), Made(10**5)]
        for peer in range(ranks):
            count = 10 + rank * ranks + peer
            back = 10 + peer * ranks + rank
            calls.append(Made(10**6, kind="send", root=peer, count=count, group=4, sequence=peer * 2))
            calls.append(Made(10**6, kind="recv", root=peer, count=back, group=4, sequence=peer * 2 + 1))
        after, before = (rank + 1) % ranks, (rank - 1) % ranks
        ring = [Made(2 * 10**6, kind="send", root=after, count=33), Made(2 * 10**6, kind="recv", root=before, count=33)]
        calls += ring if rank == 0 else ring[::-1]
        if rank < 2:
            kinds = ("send", "recv") if rank == 0 else ("recv", "send")
            calls += [Made(3 * 10**6, kind=kind, root=1 - rank, place=1, stream=8) for kind in kinds]
            calls += [Made(3 * 10**6, place=1, stream=8)]
        if rank == 0:
            calls += [Made(4 * 10**6, kind="send", root=1)]
        write(folder, rank, rows, calls)


def test_messages_whose_halves_are_there_are_replayed(tmp_path: Path) -> None:
    messages(tmp_path)
    made = planned(tmp_path)
    assert [len(rank.steps) for rank in made.ranks] == [2 + 6 + 2 + 3, 2 + 6 + 2 + 3, 2 + 6 + 2]
    assert made.left_out == {"sends and receives whose other half is not in the recordings": 1}
    assert {step[8] for step in made.ranks[0].steps} == {0, 1}, "the split has a stream of its own"


def test_messages_of_unlike_halves_are_left_out_from_there_on(tmp_path: Path) -> None:
    for rank, kind in enumerate(("send", "recv")):
        calls = [Made(n * 10**6, kind=kind, root=1 - rank, count=100 + (n == 2 and rank)) for n in range(5)]
        write(tmp_path, rank, [Row(rank, 2)], [*calls, Made(9 * 10**6)])
    assert [len(rank.steps) for rank in planned(tmp_path).ranks] == [3, 3]


def test_messages_of_a_ring_that_has_come_round_are_left_out(tmp_path: Path) -> None:
    """Which of them is the first is not known; of a rank that holds all of its own neither."""
    for rank, kind in enumerate(("send", "recv")):
        calls = [Made(n * 10**6, kind=kind, root=1 - rank) for n in range(20)]
        write(tmp_path, rank, [Row(rank, 2)], [*calls, Made(30 * 10**6)], capacity=16 if rank else 32)
    made = planned(tmp_path)
    assert [[step[2] for step in rank.steps] for rank in made.ranks] == [["all_reduce"], ["all_reduce"]]
    assert made.left_out["sends and receives whose other half is not in the recordings"] == 20 + 15


def test_communicators_that_share_a_group_or_a_stream_are_one_lane(tmp_path: Path) -> None:
    for rank in range(2):
        rows = [Row(rank, 2, identity=each) for each in (7, 8, 9, 10)]
        calls = [
            Made(0, place=0, stream=1), Made(1, place=1, stream=1), Made(2, place=2, stream=2, group=5),
            Made(3, place=1, stream=3, group=5), Made(4, place=3, stream=4), Made(5, place=0, stream=9, group=5),
        ]  # fmt: skip
        write(tmp_path, rank, rows, calls)
    lanes = [step[8] for step in planned(tmp_path).ranks[0].steps]
    assert lanes[0] == lanes[1] == lanes[2] == lanes[3] != lanes[4]
    assert lanes[5] == lanes[0]


@needs_library
@pytest.mark.parametrize("options", [(), ("--ranks", "2")])
def test_messages_arrive_over_the_cpu_library(tmp_path: Path, options: tuple[str, ...]) -> None:
    messages(tmp_path)
    done = replay(tmp_path, "--library", str(CPU), *options)
    assert done.returncode == 0, done.stderr
    assert "0 wrong of " in done.stdout
    assert ("3" if not options else "2") + " groups, the median one in " in done.stdout
    assert "up to 2 streams of a rank ran beside each other" in done.stdout


@pytest.mark.parametrize(
    ("words", "sentence", "code"),
    [
        (("/nowhere",), "cannot be read", 2),
        ((".",), "holds no recording", 1),
    ],
)
def test_bad_words_are_one_sentence(words: tuple[str, ...], sentence: str, code: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "busbw", "replay", *words], capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")}, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == code
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_library_that_is_none_is_refused(tmp_path: Path) -> None:
    everything(tmp_path)
    (tmp_path / "text.so").write_text("no library")
    done = replay(tmp_path, "--library", str(tmp_path / "text.so"))
    assert done.returncode == 1
    assert "--library" in done.stderr
    assert done.stderr.count("\n") == 1


def test_on_gpus_times_are_the_shortest_of_all_ranks_and_belong_to_their_communicators(tmp_path: Path) -> None:
    for rank in range(2):
        calls = [Made(n * 10**6, None, gpu_ns=100 + 50 * rank + n) for n in range(3)]
        calls += [Made(9 * 10**6, None, place=1, kind="all_gather", gpu_ns=700 - rank)]
        write(tmp_path, rank, [Row(rank, 2), Row(rank, 2, identity=9)], calls, synchronous=False)
    found, missed = replayed(tmp_path, [[(2, 0), (0, 0), (2, 0)], [(2, 1), (0, 0), (2, 1)]])
    assert (found, missed) == ({(0, "all_reduce", 256, 7): [100, 101, 102], (2, "all_gather", 256, 7): [699]}, 0)
    results: list[dict[str, Any]] = [{"times": {"0 all_reduce 256 7": [1], "0 reduce 1 7": [2]}, "groups": [3]}]
    put(results, found)
    assert results == [{"times": {"0 all_reduce 256 7": [100, 101, 102]}, "groups": []}]


@needs_library
def test_it_replays_in_gpu_memory_with_a_stream_and_checks_results(tmp_path: Path) -> None:
    driver = BUILD / "lib" / "fake_gpu" / "libcuda.so.1"
    if not (BUILD / "lib" / "libbusbw_record.so").exists():
        pytest.skip("the recorder is not built")
    if not driver.exists() or b"cuMemcpyHtoDAsync_v2" not in driver.read_bytes():
        pytest.skip("the driver without a GPU is not built")
    everything(tmp_path)
    # Our CPU library without its name is taken for an NCCL, whose calls are on GPUs.
    nccl = tmp_path / "libnccl.so.2"
    nccl.write_bytes(CPU.read_bytes().replace(b"busbwLibraryName\0", b"busbwLibraryNone\0"))
    environ = {"LD_LIBRARY_PATH": str(driver.parent), "BUSBW_ENGINE": str(BUILD / "bin" / "busbw-engine")}
    done = replay(tmp_path, "--library", str(nccl), environ=environ)
    assert done.returncode == 0, done.stderr
    assert "39 calls of 3 ranks in" in done.stdout
    assert "; 0 wrong of " in done.stdout
    assert "all_reduce" in done.stdout
    assert " 1000.0 " in done.stdout, "the time that this driver tells"


def test_ranks_of_one_host_come_as_late_as_they_came_and_pause_as_long(tmp_path: Path) -> None:
    """Rank 1 made its recording 5 us earlier and called 20 us later; the second call follows the end of the first."""
    for rank in range(2):
        calls = [Made(25_600 + 25_600 * rank, 6400), Made(64_000 + 25_600 * rank, 6400)]
        write(tmp_path, rank, [Row(rank, 2)], calls, monotonic_ns=10**12 - 5_000 * rank)
    made = planned(tmp_path)
    assert [[step[0] for step in rank.steps] for rank in made.ranks] == [[0, 38_400], [20_600, 59_000]]
    assert [[step[9] for step in rank.steps] for rank in made.ranks] == [[-1, 32_000]] * 2


@pytest.mark.parametrize(("synchronous", "group"), [(False, 0), (True, 3)])
def test_a_pause_is_not_known_where_a_return_says_nothing(tmp_path: Path, synchronous: bool, group: int) -> None:
    for rank in range(2):
        calls = [Made(0, 6400, group=group), Made(64_000, 6400)]
        write(tmp_path, rank, [Row(rank, 2)], calls, synchronous=synchronous)
    assert {step[9] for rank in planned(tmp_path).ranks for step in rank.steps} == {-1}


def test_over_nccl_a_rank_waits_for_the_gpu_where_the_job_came_after_its_end(tmp_path: Path) -> None:
    """The second call came 10 us after the first had ended on the GPU; the third while the second ran; the fourth
    after one that was not timed."""
    calls = [Made(0, 6400, gpu_ns=54_000), Made(64_000, 6400, gpu_ns=100_000), Made(80_000, 6400), Made(960_000, 6400)]
    for rank in range(2):
        write(tmp_path, rank, [Row(rank, 2)], calls, synchronous=False)
    for rank in planned(tmp_path).ranks:
        assert [step[9:11] for step in rank.steps] == [(-1, False), (10_000, True), (9_600, False), (-1, False)]


def test_a_lane_waits_for_the_gpu_before_such_a_pause_alone() -> None:
    """And only where pauses are replayed."""
    for gaps, waits in ((True, 2), (False, 1)):
        lane = Lane(
            Ready(lambda _: None),
            [[0, 0, "all_reduce", 1, 7, 0, 0, 0, 0, *each, False] for each in ((-1, False), (10, True))],
        )
        done: list[str] = []
        lane._memory.wait = lambda done=done: done.append("wait")  # type: ignore[method-assign]
        lane.run(gaps=gaps, start_ns=0)
        assert lane.failed is None
        assert len(done) == waits, "and once at the end"


def test_an_all_reduce_in_place_is_replayed_in_place(tmp_path: Path) -> None:
    """And its result is looked at where its data lay."""
    for rank in range(2):
        calls = [Made(0, in_place=True), Made(10**6), Made(2 * 10**6, kind="all_gather")]
        write(tmp_path, rank, [Row(rank, 2)], calls)
    steps = planned(tmp_path).ranks[0].steps
    assert [(step[6], step[11]) for step in steps] == [(0, True), (0, False), (0, False)]
    for in_place, is_same in ((True, True), (False, False)):
        words: list[Any] = []
        lane = Lane(Ready(lambda _: None), [[0, 0, "all_reduce", 25, 7, 0, 0, 0, 0, -1, False, in_place]] * 2)
        lane._rank.nccl = type("Library", (), {"ncclAllReduce": lambda _, *given, to=words: to.append(given) or 0})()
        lane._prepared = lane._ready()
        lane.run(gaps=False, start_ns=0)
        assert lane.failed is None and len(words) == 2
        assert all((each[0].value == each[1].value) == is_same for each in words)


def test_hosts_have_their_own_first_call(tmp_path: Path) -> None:
    for rank in range(2):
        write(tmp_path, rank, [Row(rank, 2)], [Made(64_000)], host=f"node{rank}", boot=rank + 1, monotonic_ns=rank + 1)
    assert [rank.steps[0][0] for rank in planned(tmp_path).ranks] == [0, 0]


def test_times_are_those_that_the_recorder_took_of_calls_alone(tmp_path: Path) -> None:
    for rank in range(2):
        calls = [Made(0, 64_000), Made(10**6, 6400), Made(2 * 10**6, 12_800), Made(3 * 10**6, 640, group=1)]
        write(tmp_path, rank, [Row(rank, 2)], calls)
    results: list[dict[str, Any]] = [{"times": {"0 all_reduce 256 7": [1]}}, {"times": {}}]
    put_host(tmp_path, [[(2, 0)], [(2, 1)]], results)
    assert results[0]["times"] == {"0 all_reduce 256 7": [6400, 12_800]}, "without the first, which was checked"
    assert results[1]["times"] == {}


def test_ranks_begin_at_one_moment_that_is_to_come(tmp_path: Path) -> None:
    moments: list[int] = []
    threads = [threading.Thread(target=lambda each=each: moments.append(begun_together(tmp_path, each, 3)))
               for each in (2, 1, 0)]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(moments) == 3 and len(set(moments)) == 1
    wait_until(moments[0], exact=True)
    assert time.monotonic_ns() >= moments[0]
