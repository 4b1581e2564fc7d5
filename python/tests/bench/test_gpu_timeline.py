"""The timelines of bench/gpu: what they say of calls made for the test, and that the real engine's calls are noted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUSBW_BUILD", ROOT / "build"))
sys.path.insert(0, str(ROOT / "bench" / "gpu"))

import timeline  # noqa: E402 - a script's folder, not a package


def one_rank(thread: int, starts: int) -> list[str]:
    """One operation that is awaited, then two calls of 300 ns that begin 1 us apart, and three polls 500 ns apart."""
    first = [f"7 {thread} c 2 {starts - 9000} {starts - 8700}", f"7 {thread} p 0 {starts - 8000} {starts - 7990}"]
    calls = [f"7 {thread} c 2 {begin} {begin + 300}" for begin in (starts, starts + 1000)]
    polls = [f"7 {thread} p 0 {begin} {begin + 10}" for begin in (starts + 1500, starts + 2000, starts + 2500)]
    return [*first, *calls, *polls]


def test_means_are_over_the_ranks_of_each_timed_batch() -> None:
    (row,) = timeline.summary(timeline.read([*one_rank(0, 10_000), *one_rank(1, 14_000)]), iterations=2)
    assert row == {"count": 2, "wait": 2.0, "call": 0.3, "between": 1.0, "poll": 0.5, "batch": 1.255}


def test_an_operation_that_no_poll_found_running_is_no_part_of_the_batch_behind_it() -> None:
    lines = [line for line in one_rank(0, 10_000) if not line.startswith("7 0 p 0 2")]
    (row,) = timeline.summary(timeline.read(lines), iterations=2)
    assert row["between"] == 1.0


def test_ranks_that_made_different_batches_are_refused() -> None:
    with pytest.raises(ValueError, match="not the same number"):
        timeline.summary(timeline.read([*one_rank(0, 10_000), *one_rank(1, 14_000), *one_rank(1, 34_000)]), 2)


def test_every_call_of_the_engine_is_noted(tmp_path: Path) -> None:
    notes = BUILD / "lib" / "libbusbw_test_timeline.so"
    library = BUILD / "lib" / "libbusbw_cpu.so"
    if not notes.exists() or not library.exists():
        pytest.skip("the test libraries are not built")
    file = tmp_path / "timeline"
    words = ("-b", "8", "-e", "64", "-f", "8", "-t", "2", "-w", "3", "-n", "20", "-c", "0", "--library", str(library))
    env = {**os.environ, "LD_PRELOAD": str(notes), "BUSBW_TIMELINE": str(file)}
    argv = [str(BUILD / "bin" / "all_reduce_perf"), *words]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    ranks = timeline.read(file.read_text().splitlines())
    # The warm-up goes over four sizes; of two sizes, each placement has one operation and twenty timed ones.
    assert [len(events) for events in ranks.values()] == [3 * 4 + 2 * 2 * 21] * 2
    assert all(event.end > event.begin for events in ranks.values() for event in events)
