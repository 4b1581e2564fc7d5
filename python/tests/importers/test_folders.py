"""Files of many ranks are one run, and a log in which nothing names its collective is told by the user."""

from __future__ import annotations

from pathlib import Path

import pytest
from world_writers import SIZES, Job, flight, inspector, kineto, nccl_tests

from busbw.base.errors import UserError
from busbw.cli.main import main
from busbw.cli.sources import resolve
from busbw.importers import ImportedSweep, import_folder, load
from busbw.records import Record

CALLS = [("AllReduce", SIZES[-1], 2700), ("AllReduce", SIZES[-1], 2710)]


def read(folder: Path) -> tuple[list[Record], str]:
    records: list[Record] = []

    def take(sweep: ImportedSweep) -> None:
        records.append(sweep.record())

    report = import_folder(folder, take)
    return records, "\n".join([*report.notes, *report.problems, report.summary()])


def test_an_inspectors_files_of_many_processes_are_one_run_with_its_slow_rank(tmp_path: Path) -> None:
    for rank in range(64):
        text = inspector(rank, 64, CALLS, wait=900 if rank == 13 else 0)
        (tmp_path / f"node{rank // 8}-pid{rank}.log").write_text(text, encoding="utf-8")
    (record,), said = read(tmp_path)
    (case,) = record.cases
    assert (case.collective, case.ranks, case.iterations, case.time_us) == ("all_reduce", 64, 128, 2710)
    assert case.range["time_us"] == (2705, 3605) and case.context["ranks_reporting"] == 64
    assert "rank 13 is 33 % above the median of 64 ranks" in said and "rank 12 is" not in said


def test_traces_of_two_ranks_are_one_run(tmp_path: Path) -> None:
    for rank in range(2):
        text = kineto(2, [("allreduce", 1 << 20, "Float", 50.0 + 5 * rank)], rank=rank)
        (tmp_path / f"rank{rank}.pt.trace.json").write_text(text, encoding="utf-8")
    (record,), _ = read(tmp_path)
    assert record.cases[0].range["time_us"] == (50.0, 55.0) and record.cases[0].bytes == 4 << 20
    assert record.run.options == {"gpu": "NVIDIA H100 80GB HBM3"}


def test_dumps_of_the_flight_recorder_are_named_by_their_files(tmp_path: Path) -> None:
    for rank in range(4):
        text = flight(4, [("all_reduce", [1 << 20], "Float", 1.0 + (rank == 3))])
        (tmp_path / f"trace_{rank}.json").write_text(text, encoding="utf-8")
    (record,), said = read(tmp_path)
    assert record.cases[0].ranks == 4 and "trace_3 is 100 % above the median of 4 ranks" in said


def test_per_rank_logs_of_torch_are_one_run_without_names_in_them(tmp_path: Path) -> None:
    for rank in range(8):
        text = "duration: 0.0640 sec\nalgo throughput: 1000000000000.0000 bps, 1000.0000 Gbps\nbusbw: 875.0000  Gbps\n"
        (tmp_path / f"rank-{rank}.out").write_text(
            "".join(f" {line}\n" for line in text.splitlines()), encoding="utf-8"
        )
    (record,), _ = read(tmp_path)
    assert [case.context["rank"] for case in record.cases] == [f"rank-{rank}" for rank in range(8)]
    assert {case.ranks for case in record.cases} == {8}
    (side,) = resolve([str(tmp_path)])
    assert len(side.record.cases) == 8


def test_a_folder_without_results_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n", encoding="utf-8")
    with pytest.raises(UserError, match="it seems to be a folder of 1 files without results"):
        load(tmp_path)


def test_compare_report_and_gate_take_the_collective_of_a_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "job.out"
    log.write_text(nccl_tests(Job("all_gather", 8, named=False, check=False)), encoding="utf-8")
    assert main(["report", str(log)]) != 0
    assert "name it with --collective" in capsys.readouterr().err
    for verb in (["report", str(log)], ["compare", str(log), str(log), "--no-table"], ["baseline", "make", str(log)]):
        assert main([*verb, "--collective", "all_gather"]) == 0
        assert capsys.readouterr().out.strip()


def test_a_shortened_id_can_be_pasted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "a-log-with-a-very-long-name-of-a-job.out"
    log.write_text(nccl_tests(), encoding="utf-8")
    runs = ["--runs", str(tmp_path / "runs")]
    assert main(["import", str(log), *runs]) == 0
    capsys.readouterr()
    assert main(["runs", *runs]) == 0
    shown = next(line.split()[0] for line in capsys.readouterr().out.splitlines() if ".." in line)
    for word in (shown, shown.rsplit("-", 1)[1]):
        assert main(["report", word, *runs]) == 0
        assert main(["runs", "show", word, *runs]) == 0
