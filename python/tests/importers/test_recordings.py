"""Recordings of `busbw watch` become runs: times where calls return when they are done, host times elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_recordings import Made, Row, write

from busbw.importers import FileReport, ImportedSweep, import_folder, import_path
from busbw.importers.recordings import version_text
from busbw.records import Record

US = 1000


def imported(path: Path) -> tuple[list[Record], FileReport]:
    sweeps: list[ImportedSweep] = []
    read = import_folder if path.is_dir() else import_path
    report = read(path, sweeps.append)
    return [sweep.record() for sweep in sweeps], report


def test_calls_that_return_when_done_have_times_and_bandwidths(tmp_path: Path) -> None:
    for rank, took in enumerate((64 * US, 128 * US)):
        calls = [Made(n * 10**6, took, count=1 << 18) for n in range(9)]
        write(tmp_path, rank, [Row(rank, 2)], calls)
    (record,), report = imported(tmp_path)
    (case,) = record.cases
    assert (case.collective, case.bytes, case.type, case.ranks) == ("all_reduce", 1 << 20, "float", 2)
    assert case.time_us == 96.0
    assert case.algbw_GBps == pytest.approx((1 << 20) / 96e-6 / 1e9, rel=1e-5)
    assert case.busbw_GBps == case.algbw_GBps, "of two ranks the factor is 1"
    assert case.range == {"time_us": (64.0, 128.0)}
    assert case.iterations == 18
    assert [rank.host for rank in record.run.ranks] == ["node", "node"]
    assert record.run.library is not None
    assert record.run.library.version == "2.28.9"
    assert any("rank 1 is 100 % above" in note for note in record.run.notes)
    assert (report.sweeps, report.rows, report.problems) == (1, 1, [])


def test_calls_that_return_before_they_run_have_host_times_and_no_bandwidth(tmp_path: Path) -> None:
    write(tmp_path, 0, [Row(0, 8)], [Made(n * 10**6, 6400) for n in range(5)], synchronous=False)
    (record,), _ = imported(next(tmp_path.iterdir()))
    (case,) = record.cases
    assert (case.time_us, case.algbw_GBps, case.busbw_GBps) == (None, None, None)
    assert case.cpu_time_us == 6.4
    assert case.context["times"] == "host"
    assert any("host's time in the call only" in note for note in record.run.notes)


def test_calls_in_a_group_are_host_times_on_a_synchronous_library_too(tmp_path: Path) -> None:
    write(tmp_path, 0, [Row(0, 2)], [Made(0, 640, group=3), Made(10**6, 64000)])
    (record,), _ = imported(tmp_path)
    timed = {case.time_us: case.cpu_time_us for case in record.cases}
    assert timed == {64.0: None, None: 0.64}


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    calls = [Made(0), Made(1, None), Made(2, flags=1), Made(3, flags=4), Made(4, kind="send", root=1)]
    write(tmp_path, 0, [Row(0, 2)], calls, lost=7)
    (record,), _ = imported(tmp_path)
    (case,) = record.cases
    assert case.iterations == 1
    notes = "\n".join(record.run.notes)
    assert "3 calls captured into a graph, refused, or not come back are left out" in notes
    assert "1 sends, receives and signals are left out" in notes
    assert "7 calls that were lost for want of room are left out" in notes


def test_sizes_are_those_of_nccl_tests_and_communicators_are_told_apart(tmp_path: Path) -> None:
    calls = [
        Made(0, kind="all_gather", count=100),
        Made(1, kind="reduce_scatter", count=100, type="bfloat16"),
        Made(2, kind="broadcast", count=100, root=2, place=1),
    ]
    write(tmp_path, 0, [Row(0, 8), Row(0, 4, identity=9)], calls)
    records, _ = imported(tmp_path)
    found = {(case.collective, case.bytes, case.ranks, case.variant) for each in records for case in each.cases}
    assert found == {
        ("all_gather", 3200, 8, None),
        ("reduce_scatter", 1600, 8, None),
        ("broadcast", 400, 4, "root 2"),
    }


def test_a_recording_without_calls_and_a_damaged_one_are_sentences(tmp_path: Path) -> None:
    write(tmp_path, 0, [Row(0, 2)], [])
    _, report = imported(tmp_path)
    assert report.sweeps == 0
    assert any("a recording without collectives" in problem for problem in report.problems)
    (tmp_path / "node-1-1.busbwrec").write_bytes(b"BUSBWREC" + bytes(4000))
    _, report = imported(tmp_path)
    assert any("version 0" in problem for problem in report.problems)


def test_versions_of_nccl() -> None:
    assert [version_text(code) for code in (22809, 2708, 21403)] == ["2.28.9", "2.7.8", "2.14.3"]
