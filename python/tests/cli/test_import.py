"""`busbw import`: what it prints, where it writes, how it ends."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from busbw.cli import import_
from busbw.cli.main import main
from busbw.importers import handover
from busbw.records import read_records
from busbw.runs import store

SAMPLES = Path(__file__).parents[1] / "importers" / "samples"


def test_every_file_ends_with_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files = [str(SAMPLES / name) for name in ("nccl-2.19.txt", "osu.txt")]
    assert main(["import", *files, "--runs", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert [line.split(": ", 1)[1] for line in out.splitlines()] == [
        "1 sweep, 3 rows; nccl-tests text: alltoall on 2 ranks",
        "3 sweeps, 5 rows; OSU micro-benchmarks: all_reduce on 4 ranks, alltoall on 4 ranks, barrier on 4 ranks; "
        "1 line not read",
    ]
    assert "not read: " in err and "converted: " in err
    assert len(list(tmp_path.iterdir())) == 4


def test_importing_twice_keeps_once(tmp_path: Path) -> None:
    for _ in range(2):
        assert main(["import", str(SAMPLES / "nccl-2.19.txt"), "--runs", str(tmp_path), "--quiet"]) == 0
    assert len(list(tmp_path.iterdir())) == 1


def test_an_output_file_takes_all_records_with_tags_and_address(tmp_path: Path) -> None:
    output = tmp_path / "all.jsonl"
    files = [str(SAMPLES / name) for name in ("nccl-2.19.txt", "torch-table.txt")]
    assert main(["import", *files, "-o", str(output), "--tag", "t", "--url", "https://example.org/x"]) == 0
    records = read_records(output)
    assert [record.run.tags for record in records] == [("t",), ("t",)]
    assert {record.run.source.url for record in records if record.run.source} == {"https://example.org/x"}
    assert list(tmp_path.iterdir()) == [output]


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    assert main(["import", str(SAMPLES / "osu.txt"), "--dry-run", "--runs", str(tmp_path / "runs")]) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_read_does_not_stop_the_others(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\x7fELF")
    assert main(["import", str(binary), str(tmp_path / "none"), str(SAMPLES / "osu.txt"), "--dry-run"]) == 2
    out, err = capsys.readouterr()
    assert "osu.txt: 3 sweeps" in out
    assert "is a program" in err and "No such file" in err and "Traceback" not in err


def test_a_file_without_results_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("nothing\n", encoding="utf-8")
    assert main(["import", str(path), "--dry-run"]) == 1


def test_an_output_that_cannot_be_written_is_a_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["import", str(SAMPLES / "osu.txt"), "-o", str(tmp_path / "no" / "x.jsonl")]) == 2
    assert "cannot be written" in capsys.readouterr().err


@pytest.fixture
def large_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log of 100 sweeps that counts as large, whatever cores there are."""
    monkeypatch.setattr(import_, "MANY_CASES", 12)
    monkeypatch.setattr(handover, "is_possible", lambda: sys.platform == "linux")
    log = tmp_path / "large.log"
    log.write_bytes((SAMPLES / "nccl-2.19.txt").read_bytes() * 100)
    return log


def test_a_large_log_is_kept_by_a_second_process_as_by_one(
    large_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["import", str(large_log), "--runs", str(tmp_path / "two"), "--tag", "t"]) == 0
    monkeypatch.setattr(import_, "MANY_CASES", 1_000_000)
    assert main(["import", str(large_log), "--runs", str(tmp_path / "one"), "--tag", "t"]) == 0
    one, two = (
        {path.parent.name: path.read_bytes() for path in (tmp_path / name).glob("*/record.jsonl")}
        for name in ("one", "two")
    )
    assert one == two and len(one) == 100


def test_a_large_log_becomes_runs(large_log: Path, tmp_path: Path) -> None:
    assert main(["import", str(large_log), "--runs", str(tmp_path / "runs"), "--quiet"]) == 0
    assert len(list((tmp_path / "runs").iterdir())) == 100
    assert {each.name for each in (tmp_path / "runs").glob("*/*")} == {"record.jsonl"}


def test_one_file_is_written_without_a_second_process(
    large_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "Handover", None)
    assert main(["import", str(large_log), "-o", str(tmp_path / "one.jsonl")]) == 0
    assert len(read_records(tmp_path / "one.jsonl")) == 100


def test_what_goes_wrong_in_the_second_process_is_said_once(
    large_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(import_, "MANY_CASES", 1)
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    assert main(["import", str(large_log), "--runs", str(tmp_path / "file" / "runs")]) != 0
    assert capsys.readouterr().err.count("cannot be kept in") == 1


def test_a_second_process_that_is_killed_ends_the_import_with_a_sentence(
    large_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(store, "add_lines", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    monkeypatch.setattr(import_, "MANY_CASES", 1)
    assert main(["import", str(large_log), "--runs", str(tmp_path / "runs")]) != 0
    assert "the process that writes the sweeps was killed" in capsys.readouterr().err


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_sees_how_much_was_read_and_a_pipe_does_not(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter(range(0, 1000, 2))
    monkeypatch.setattr(import_.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    assert main(["import", str(SAMPLES / "nccl-2.19.txt"), "--dry-run", "--quiet"]) == 0
    said = capsys.readouterr().err
    assert ("0 MB read" in said, said.endswith("\r\x1b[K")) == (is_terminal, is_terminal)


def test_what_many_sweeps_say_alike_is_told_a_few_times_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = "".join((SAMPLES / "nccl-2.19.txt").read_text(encoding="utf-8").splitlines(keepends=True))
    log = tmp_path / "many.log"
    log.write_text(
        "\n".join(line for line in (table * 40).splitlines() if "Collective test" not in line), encoding="utf-8"
    )
    assert main(["import", str(log), "--dry-run", "--collective", "alltoall"]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "nothing names the collective" in line]
    assert len(said) == 6 and "35 times more: nothing names the collective" in said[-1]
