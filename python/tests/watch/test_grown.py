"""A communicator that two ranks have and a third one joins is one communicator, whoever of them is looked at."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw.watch.arrivals import Arrivals, Meeting
from busbw.watch.grown import by_parent, two_names
from busbw.watch.processes import snapshot
from busbw.watch.recording import Recording, find
from busbw.watch.replay import plan
from busbw.watch.share import merged

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUSBW_BUILD", ROOT / "build"))
RECORDER, NCCL = BUILD / "lib" / "libbusbw_record.so", BUILD / "lib" / "libbusbw_cpu.so"
JOB = """
import ctypes, sys
from ctypes import byref, c_size_t, c_void_p
from pathlib import Path
sys.path.insert(0, sys.argv[4])
from communicators import UniqueId, communicator, shared_id
nccl, me, folder = ctypes.CDLL(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
def must(code):
    if code: raise SystemExit(f"{code}")
buffer, grown = (ctypes.c_char * 4096)(), c_void_p()
if me < 2:
    first = communicator(nccl, 2, me, folder / "first")
    must(nccl.ncclAllReduce(buffer, buffer, c_size_t(9), 7, 0, first, None))
new = UniqueId()
if me == 0:
    must(nccl.ncclCommGetUniqueId(first, byref(new)))
    (folder / "grown.part").write_bytes(bytes(new))
    (folder / "grown.part").rename(folder / "grown")
if me == 2:
    new = shared_id(nccl, folder / "grown", False)
must(nccl.ncclCommGrow(first if me < 2 else None, 3, None if me == 1 else byref(new), 2 if me == 2 else -1,
                       byref(grown), None))
for number in range(1, 4):
    must(nccl.ncclAllReduce(buffer, buffer, c_size_t(number), 7, 0, grown, None))
"""

pytestmark = pytest.mark.skipif(not (RECORDER.exists() and NCCL.exists()), reason="not built; see BUSBW_BUILD")


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Recording]]:
    folder = tmp_path_factory.mktemp("grown")
    (folder / "job").mkdir()
    environ = {**os.environ, "BUSBW_RECORD_DIR": str(folder), "BUSBW_REAL_NCCL": str(NCCL)}
    start = [sys.executable, "-c", JOB, str(RECORDER)]
    words = [str(folder / "job"), str(ROOT / "bench" / "watch")]
    ranks = [
        subprocess.Popen(
            [*start, str(rank), *words],
            env=environ,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(3)
    ]
    said = [rank.communicate(timeout=60)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0, 0], said
    found = [Recording(path) for path in find(folder)]
    yield found
    for one in found:
        one.close()


def test_the_row_of_the_root_says_what_the_other_old_ranks_know_it_by(recordings: list[Recording]) -> None:
    grown = {row.rank: row for each in recordings for row in each.communicators() if row.made == "grow"}
    assert grown[0].identity == grown[2].identity
    assert grown[1].identity == by_parent(grown[1].parent, grown[1].color) != grown[0].identity
    assert two_names(grown.values()) == {grown[1].identity: grown[0].identity}


def test_verdicts_arrivals_and_replays_see_one_communicator_of_three(recordings: list[Recording]) -> None:
    rows = [row for process in snapshot(recordings) for row in process.communicators if row.ranks == 3]
    assert sorted(row.rank for row in rows) == [0, 1, 2]
    assert len({row.identity for row in rows}) == 1
    meetings = [each for each in Arrivals().look(recordings) if isinstance(each, Meeting)]
    assert sorted(len(each.arrivals) for each in meetings) == [2, 3, 3, 3]
    assert sorted({size for rank in plan(recordings, None).ranks for size, _ in rank.communicators}) == [0, 2, 3]


@pytest.mark.parametrize("here", range(3))
def test_hosts_that_share_a_folder_see_one_communicator_of_three(recordings: list[Recording], here: int) -> None:
    """Each host reads its own recordings alone, so only the root's host knows both names."""
    alone = [process for each in recordings for process in snapshot([each])]
    rows = [row for process in merged([alone[here]], [*alone[:here], *alone[here + 1 :]])
            for row in process.communicators if row.ranks == 3]  # fmt: skip
    assert sorted(row.rank for row in rows) == [0, 1, 2]
    assert len({row.identity for row in rows}) == 1
