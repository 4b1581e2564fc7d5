"""Which calls of a rank follow each other in a replay, and which threads of the job made beside each other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from made_recordings import Made, Row, write

from busbw.watch.recording import Recording, find
from busbw.watch.replay import plan

ROOT = Path(__file__).resolve().parents[3]
CPU = Path(os.environ.get("BUSBW_BUILD", ROOT / "build")) / "lib" / "libbusbw_cpu.so"
needs_library = pytest.mark.skipif(not CPU.exists(), reason="the CPU library is not built; BUSBW_BUILD names a build")
US = 1000


def threads(folder: Path, *, long_us: int, synchronous: bool = True) -> None:
    """Two ranks, each with a thread that is long in calls of one communicator, and one that calls on another.

    Rank 1 comes to the calls of the two in another order than rank 0.
    """
    for rank in range(2):
        rows = [Row(rank, 2), Row(rank, 2, identity=8), Row(rank, 2, identity=9)]
        calls = []
        for step in range(20):
            at = step * 1000 * US
            long, short = Made(at, long_us * US), Made(at + 50 * US, 10 * US, place=1)
            calls += [long, short] if rank == 0 else [Made(at, 10 * US, place=1), Made(at + 50 * US, long_us * US)]
            calls.append(Made(at + 800 * US, 10 * US, place=2))
        write(folder, rank, rows, calls, synchronous=synchronous)


def lanes(folder: Path) -> list[list[int]]:
    """Of each rank, of the communicators in their order."""
    recordings = [Recording(path) for path in find(folder)]
    try:
        made = plan(recordings, None)
    finally:
        for each in recordings:
            each.close()
    return [[next(step[8] for step in rank.steps if step[1] == number) for number in range(3)] for rank in made.ranks]


def test_communicators_that_threads_called_beside_each_other_are_replayed_so(tmp_path: Path) -> None:
    threads(tmp_path, long_us=500)
    for one, other, third in lanes(tmp_path):
        assert one != other, "rank 1 has not shown it, but rank 0 has"
        assert third not in {one, other}


@pytest.mark.parametrize(("long_us", "synchronous"), [(50, True), (500, False)])
def test_calls_that_follow_each_other_keep_their_order(tmp_path: Path, long_us: int, synchronous: bool) -> None:
    """Over NCCL a call is over before it has run: that it was long says nothing of threads."""
    threads(tmp_path, long_us=long_us, synchronous=synchronous)
    assert all(len(set(each)) == 1 for each in lanes(tmp_path))


@needs_library
def test_two_threads_in_another_order_on_each_rank_do_not_hang_the_replay(tmp_path: Path) -> None:
    threads(tmp_path, long_us=500)
    words = [sys.executable, "-m", "busbw", "replay", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    took = re.search(r"120 calls of 2 ranks in (\S+) s", done.stdout)
    assert took is not None and float(took[1]) > 0, "ranks begin together, and the time counts from there"
