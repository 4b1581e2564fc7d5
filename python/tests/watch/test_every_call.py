"""Every function of the NCCL API that stands in a recording, by what two processes called once each."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw.watch.recording import Communicator, Recording, find

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUSBW_BUILD", ROOT / "build"))
JOB = Path(__file__).with_name("every_call_job.py")
RECORDER, NCCL = BUILD / "lib" / "libbusbw_record.so", BUILD / "lib" / "libbusbw_cpu.so"

pytestmark = pytest.mark.skipif(not (RECORDER.exists() and NCCL.exists()), reason="not built; see BUSBW_BUILD")

COLLECTIVES = [
    "all_reduce of 11 float32, sum",
    "all_reduce of 12 float64, prod, in place",
    "all_gather of 13 int8",
    "reduce_scatter of 14 int32, max",
    "broadcast of 15 float16, root 1",
    "broadcast of 16 bfloat16, root 1",
    "reduce of 17 float32, min, root 1",
    "alltoall of 18 float32",
    "gather of 19 float32, root 1",
    "scatter of 20 float32, root 1",
    "all_reduce of 21 float32, avg, configured",
    "all_gather of 22 float32, configured",
    "reduce_scatter of 23 float32, sum, configured",
    "broadcast of 24 float32, root 1, configured",
    "reduce of 25 float32, sum, root 1, configured",
    "alltoall of 26 float32, configured",
    "gather of 27 float32, root 1, configured",
    "scatter of 28 float32, root 1, configured",
    "all_reduce of 31 float32, an operator of the program",
    "send of 41 int8, peer {other}, group",
    "recv of 41 int8, peer {other}, group",
    "all_reduce of 42 float32, sum, group, failed",
    "all_reduce of 61 float32, sum, in place",
    "put_signal of 51 float32, peer {other}, failed",
    "signal of 0 int8, peer {other}, failed",
    "wait_signal of 3 int8, failed",
    "reduce of 52 float32, sum, root 99, failed",
]
MADE = {
    "first": "rank {me} of 2 by init, alive",
    "71": "rank {me} of 2 by init, destroyed",
    "72": "rank {me} of 2 by split, colour 5, aborted",
    "77": "rank 0 of 1 by split, colour 6, alive",
    "73": "rank {me} of 2 by init, revoked",
    "74": "rank 0 of 1 by init_all, alive",
    "75": "rank 0 of 1 by shrink, alive",
    "76": "rank {me} of 2 by grow, alive",
}
ONLY_RANK_0 = {"77", "75"}


def lines(recording: Recording, place: int) -> list[str]:
    """The calls of a communicator as words."""
    return [
        str(call.shape)
        + ", in place" * call.in_place
        + ", configured" * call.configured
        + ", group" * bool(call.group)
        + ", failed" * call.failed
        for call in recording.calls()
        if call.communicator == place
    ]


def made(row: Communicator) -> str:
    colour = f", colour {row.color}" if row.made == "split" else ""
    return f"rank {row.rank} of {row.ranks} by {row.made}{colour}, {row.ended}"


def name(recording: Recording, row: Communicator) -> str:
    """By the count of its only call."""
    all_calls = lines(recording, row.place)
    return all_calls[0].split()[2] if len(all_calls) == 1 else "first"


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Recording]]:
    """By rank."""
    folder = tmp_path_factory.mktemp("every_call")
    environ = {**os.environ, "BUSBW_RECORD_DIR": str(folder), "BUSBW_REAL_NCCL": str(NCCL)}
    words = [sys.executable, str(JOB), str(RECORDER)]
    (folder / "job").mkdir()
    ranks = [
        subprocess.Popen([*words, str(rank), str(folder / "job")], env=environ, stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    said = [rank.communicate(timeout=120)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    found = sorted((Recording(path) for path in find(folder)), key=lambda one: one.communicators()[0].rank)
    assert len(found) == 2
    yield found
    for one in found:
        one.close()


@pytest.mark.parametrize("me", [0, 1])
def test_each_call_stands_there_once_as_it_was_called_and_nothing_else_does(
    recordings: list[Recording], me: int
) -> None:
    assert lines(recordings[me], 0) == [line.format(other=1 - me) for line in COLLECTIVES]


@pytest.mark.parametrize("me", [0, 1])
def test_each_way_to_make_and_to_end_a_communicator_is_known(recordings: list[Recording], me: int) -> None:
    found = {name(recordings[me], row): made(row) for row in recordings[me].communicators()}
    wanted = {which: words for which, words in MADE.items() if me == 0 or which not in ONLY_RANK_0}
    assert found == {which: words.format(me=me) for which, words in wanted.items()}


def test_ranks_of_a_communicator_know_it_by_one_identity(recordings: list[Recording]) -> None:
    """And what was made from another one names it. A rank that joins one that grows knows neither, and counts apart."""
    zero, one = ({name(each, row): row for row in each.communicators()} for each in recordings)
    shared = set(zero) - ONLY_RANK_0 - {"74", "76"}
    assert {which for which in shared if zero[which].identity == one[which].identity} == shared
    assert (one["76"].parent, one["72"].parent) == (0, zero["first"].identity)
    assert len({row.identity for row in (*zero.values(), one["74"], one["76"])}) == len(zero) + 2
    parents = {which: zero[which].parent for which in ("72", "77", "75", "76")}
    first = zero["first"].identity
    assert parents == {"72": first, "77": first, "75": first, "76": zero["75"].identity}


def test_what_nccl_refused_is_marked_on_its_communicator_and_a_refused_one_in_the_header(
    recordings: list[Recording],
) -> None:
    for recording in recordings:
        refused = recording.refused()
        assert refused is not None and (refused.how, refused.rank, refused.ranks) == ("init", 99, 2)
        errors = {name(recording, row): row.last_error for row in recording.communicators() if row.last_error}
        assert errors == {"first": 4}
        assert [row.entered - row.returned for row in recording.communicators()] == [0] * len(recording.communicators())
