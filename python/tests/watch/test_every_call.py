"""Each function of the NCCL API is in the recording as the program called it, and what is no call is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from busbw.watch.recording import Call, Communicator, Recording, find

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUSBW_BUILD", ROOT / "build"))
RECORDER, CPU = BUILD / "lib" / "libbusbw_record.so", BUILD / "lib" / "libbusbw_cpu.so"
JOB = Path(__file__).with_name("every_call_job.py")

pytestmark = pytest.mark.skipif(
    not (RECORDER.exists() and CPU.exists()), reason="the recorder is not built; BUSBW_BUILD names a build folder"
)

# By the count that the job gives each call, so that none can stand for another.
CALLS = {
    "ncclAllReduce": "all_reduce of 11 float32, sum",
    "ncclAllReduce in place": "all_reduce of 12 float64, prod (in place)",
    "ncclAllGather": "all_gather of 13 int8",
    "ncclReduceScatter": "reduce_scatter of 14 int32, max",
    "ncclBroadcast": "broadcast of 15 float16, root 1",
    "ncclBcast": "broadcast of 16 bfloat16, root 1",
    "ncclReduce": "reduce of 17 float32, min, root 1",
    "ncclAlltoAll": "alltoall of 18 float32",
    "ncclGather": "gather of 19 float32, root 1",
    "ncclScatter": "scatter of 20 float32, root 1",
    "ncclAllReduceConfig": "all_reduce of 21 float32, avg (configured)",
    "ncclAllGatherConfig": "all_gather of 22 float32 (configured)",
    "ncclReduceScatterConfig": "reduce_scatter of 23 float32, sum (configured)",
    "ncclBroadcastConfig": "broadcast of 24 float32, root 1 (configured)",
    "ncclReduceConfig": "reduce of 25 float32, sum, root 1 (configured)",
    "ncclAlltoAllConfig": "alltoall of 26 float32 (configured)",
    "ncclGatherConfig": "gather of 27 float32, root 1 (configured)",
    "ncclScatterConfig": "scatter of 28 float32, root 1 (configured)",
    "ncclRedOpCreatePreMulSum": "all_reduce of 31 float32, an operator of the program",
    "ncclSend": "send of 41 int8, peer OTHER (grouped)",
    "ncclRecv": "recv of 41 int8, peer OTHER (grouped)",
    "ncclGroupSimulateEnd": "all_reduce of 42 float32, sum (grouped)",
    "ncclMemAlloc": "all_reduce of 61 float32, sum (in place)",
    "ncclPutSignal": "put_signal of 51 float32, peer OTHER (failed)",
    "ncclSignal": "signal of 0 int8, peer OTHER (failed)",
    "ncclWaitSignal": "wait_signal of 3 int8 (failed)",
    "ncclReduce refused": "reduce of 52 float32, sum, root 99 (failed)",
}
# What made it, ranks, whether it has a parent, how it ended; by the count of its one call.
MADE = {
    "ncclCommInitRankScalable": (71, ("init", 2, False, "destroyed")),
    "ncclCommSplit": (72, ("split", 2, True, "aborted")),
    "ncclCommInitRankConfig": (73, ("init", 2, False, "revoked")),
    "ncclCommInitAll": (74, ("init_all", 1, False, "alive")),
    "ncclCommGrow": (76, ("grow", 2, None, "alive")),
}
ONLY_FIRST = {
    "ncclCommShrink": (75, ("shrink", 1, True, "alive")),
    "ncclCommSplit without the other": (77, ("split", 1, True, "alive")),
}
Rank = tuple[list[Call], list[Communicator], "str | None"]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[Rank]:
    folder = tmp_path_factory.mktemp("every-call")
    found: list[Rank] = []
    jobs = []
    for me in range(2):
        (folder / f"rank{me}").mkdir()
        env = {**os.environ, "BUSBW_REAL_NCCL": str(CPU), "BUSBW_RECORD_DIR": str(folder / f"rank{me}")}
        words = [sys.executable, str(JOB), str(RECORDER), str(me), str(folder)]
        jobs.append(subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    said = [job.communicate(timeout=120)[0] for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], said
    for me in range(2):
        (path,) = find(folder / f"rank{me}")
        with Recording(path) as recording:
            refused = recording.refused()
            found.append((list(recording.calls()), recording.communicators(), refused.how if refused else None))
    return found


def text(call: Call, me: int) -> str:
    words = str(call.shape).replace(f"peer {1 - me}", "peer OTHER")
    notes = {"in place": call.in_place, "configured": call.configured, "grouped": call.group > 0, "failed": call.failed}
    return words + "".join(f" ({name})" for name, is_so in notes.items() if is_so)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_recorded_once_as_it_was_made(ranks: list[Rank], name: str) -> None:
    for me, (calls, _, _) in enumerate(ranks):
        assert [text(call, me) for call in calls].count(CALLS[name]) == 1, [text(call, me) for call in calls]


def test_nothing_else_is_a_call_and_all_of_them_came_back(ranks: list[Rank]) -> None:
    for me, (calls, rows, _) in enumerate(ranks):
        own = {count for count, _ in (*MADE.values(), *(ONLY_FIRST.values() if me == 0 else ()))}
        assert len(calls) == len(CALLS) + len(own)
        assert all(call.host_ns is not None for call in calls)
        assert sum(row.entered for row in rows) == len(calls) == sum(row.returned for row in rows)


def test_collectives_and_other_calls_have_numbers_of_their_own(ranks: list[Rank]) -> None:
    for calls, _, _ in ranks:
        first = [call for call in calls if call.communicator == 0]
        pairs = [call.sequence for call in first if "peer" in str(call.shape) or call.shape.kind == "wait_signal"]
        others = [call.sequence for call in first if "peer" not in str(call.shape) and call.shape.kind != "wait_signal"]
        assert (pairs, others) == (list(range(1, 6)), list(range(1, 23)))


@pytest.mark.parametrize("name", [*MADE, *ONLY_FIRST])
def test_a_communicator_has_who_made_it_and_how_it_ended(ranks: list[Rank], name: str) -> None:
    count, wanted = {**MADE, **ONLY_FIRST}[name]
    for calls, rows, _ in ranks[: 1 if name in ONLY_FIRST else 2]:
        (call,) = (each for each in calls if each.shape.count == count)
        (row,) = (each for each in rows if each.place == call.communicator)
        has_parent = None if wanted[2] is None else row.parent == rows[0].identity
        assert (row.made, row.ranks, has_parent, row.ended) == wanted
        assert (row.ended_ns > 0) == (row.ended != "alive")


def test_who_gets_no_communicator_of_a_split_has_no_row(ranks: list[Rank]) -> None:
    assert [len(rows) for _, rows, _ in ranks] == [8, 6]


def test_ranks_agree_who_belongs_together(ranks: list[Rank]) -> None:
    """But for ncclCommGrow, whose new ranks know another thing than its old ones, and those of one process alone."""
    first, second = ({row.identity for row in rows} for _, rows, _ in ranks)
    assert len(first & second) == 4


def test_a_refused_one_is_named_and_errors_are_kept(ranks: list[Rank]) -> None:
    for _, rows, refused in ranks:
        assert refused == "init"
        assert rows[0].last_error == 4, "the last call, which named a root that is not there"
        assert all(row.last_error == 0 for row in rows[1:])
