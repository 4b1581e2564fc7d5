"""Every function of the NCCL API that stands in a recording, by what two processes called once each."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from every_call import ROWS

from busbw.watch.recording import Communicator, Recording, find

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUSBW_BUILD", ROOT / "build"))
JOB = Path(__file__).with_name("every_call_job.py")
RECORDER, NCCL = BUILD / "lib" / "libbusbw_record.so", BUILD / "lib" / "libbusbw_cpu.so"

KEPT = ROOT / "library" / "tests" / "gpu" / "nccl_calls.txt"

pytestmark = pytest.mark.skipif(not (RECORDER.exists() and NCCL.exists()), reason="not built; see BUSBW_BUILD")

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


def test_each_function_that_is_kept_is_called_here() -> None:
    kept = {line.split()[0] for line in KEPT.read_text().splitlines() if line and not line.startswith("#")}
    assert {row.function for row in ROWS} == kept


@pytest.mark.parametrize("me", [0, 1])
def test_each_call_stands_there_once_as_it_was_called_and_nothing_else_does(
    recordings: list[Recording], me: int
) -> None:
    assert lines(recordings[me], 0) == [row.line.format(other=1 - me) for row in ROWS]


@pytest.mark.parametrize("me", [0, 1])
def test_each_way_to_make_and_to_end_a_communicator_is_known(recordings: list[Recording], me: int) -> None:
    found = {name(recordings[me], row): made(row) for row in recordings[me].communicators()}
    wanted = {which: words for which, words in MADE.items() if me == 0 or which not in ONLY_RANK_0}
    assert found == {which: words.format(me=me) for which, words in wanted.items()}


def test_ranks_of_a_communicator_know_it_by_one_identity(recordings: list[Recording]) -> None:
    """And what was made from another one names it; a rank that joins one that grows knows no parent."""
    zero, one = ({name(each, row): row for row in each.communicators()} for each in recordings)
    shared = set(zero) - ONLY_RANK_0 - {"74"}
    assert {which for which in shared if zero[which].identity == one[which].identity} == shared
    assert (one["76"].parent, one["72"].parent) == (0, zero["first"].identity)
    assert len({row.identity for row in (*zero.values(), one["74"])}) == len(zero) + 1
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
