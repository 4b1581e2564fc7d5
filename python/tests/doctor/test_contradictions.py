"""A table whose columns contradict each other is no health: which rows do is told, or which columns are swapped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.cli.main import main

HEAD = """# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 67108864 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 \
validation: 1 graph: 0
#
# Using devices
"""
COLUMNS = """#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
Figures = tuple[float, float, float]
"""Time, algorithm and bus bandwidth."""
BUSBW = {26: 330.0, 27: 380.0, 28: 420.0, 29: 445.0, 30: 460.0, 31: 470.0, 32: 475.0, 33: 478.0}


def _said(path: Path, change: Callable[[int, Figures], Figures], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code and words of the doctor about a table of 8 H100 in which figures are changed."""
    ranks = "".join(
        f"#  Rank  {rank} Group  0 Pid {20000 + rank} on node1 device  {rank} [0x{rank + 1}9] NVIDIA H100 80GB HBM3\n"
        for rank in range(8)
    )
    rows = ""
    for at, busbw in BUSBW.items():
        time, algbw, bus = change(at, ((1 << at) / busbw * 1.75 / 1e3, busbw / 1.75, busbw))
        figures = f"{time:.1f} {algbw:.2f} {bus:.2f} 0"
        rows += f" {1 << at} {(1 << at) // 4} float sum -1 {figures} {figures}\n"
    path.write_text(f"{HEAD}{ranks}{COLUMNS}{rows}# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 432.25\n")
    code = main(["doctor", str(path)])
    return code, " ".join(capsys.readouterr().out.split())


def test_the_table_itself_is_healthy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = _said(tmp_path / "job.log", lambda _, figures: figures, capsys)
    assert code == 0 and "healthy" in said


def test_swapped_bandwidths_are_told_and_nothing_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = _said(tmp_path / "job.log", lambda _, each: (each[0], each[2], each[1]), capsys)
    assert code == 3 and "algbw and busbw contradict each other and the time in all rows, as if they were swap" in said


def test_a_time_in_the_place_of_a_bandwidth_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = _said(tmp_path / "job.log", lambda _, each: (each[1], each[0], each[2]), capsys)
    assert code == 3 and "bandwidths and collective contradict each other" in said


@pytest.mark.parametrize("times", [2.0, 1.07])
def test_times_that_all_contradict_size_and_bandwidth_are_a_finding(
    times: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = _said(tmp_path / "job.log", lambda _, each: (each[0] * times, each[1], each[2]), capsys)
    assert code == 1 and "impossible: 16 figures of the table cannot be true" in said
    assert "contradicts its size and time" in said


def test_a_time_of_one_row_that_contradicts_its_bandwidth_leaves_that_row_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = _said(
        tmp_path / "job.log", lambda at, each: (each[0] * (1.2 if at == 30 else 1), each[1], each[2]), capsys
    )
    assert code == 3 and "the row of 1,073,741,824 bytes contradicts itself: size over time is" in said


def test_a_factor_that_is_not_that_of_the_ranks_in_the_list_is_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = _said(tmp_path / "job.log", lambda _, each: (each[0], each[1], each[1] * 1.6), capsys)
    assert code == 1 and "bus over algorithm bandwidth is 1.6, and all_reduce on 8 ranks has 1.75" in said


def test_a_few_rows_that_are_right_tell_what_the_others_should_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = _said(tmp_path / "job.log", lambda at, each: (each[0], each[2], each[1]) if at < 31 else each, capsys)
    assert code == 3 and "the row of 67,108,864 bytes contradicts itself: size over time is 188.6 GB/s" in said
    assert "8,589,934,592 bytes contradicts" not in said
