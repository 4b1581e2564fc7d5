"""A machine that was renamed stays one series where somebody says so, and dates that cannot be true are told."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from busbw.base.errors import UsageError
from busbw.cli.main import main
from busbw.records import Case, End, Record, Run, Tool
from busbw.runs import store
from busbw.runs.history import Seen, differed, same_names, series
from busbw.runs.index import Index


def keep(folder: Path, number: int, machine: str, time_us: float, *, started: str = "", tool: str = "busbw",
         **system: str) -> None:  # fmt: skip
    name = f"run{number:04d}"
    started = started or (datetime(2026, 5, 1, tzinfo=timezone.utc) + timedelta(days=number)).isoformat()
    case = Case(name, 0, "all_reduce", 1 << 30, "out_of_place", "measured", time_us, ranks=8)
    run = Run(name, started, Tool(tool, "1"), None, machine=machine, system=system)
    store.add(Record(run, (case,), End(name, "completed", 1)), folder)


@pytest.fixture
def renamed(tmp_path: Path) -> Path:
    for number in range(24):
        late = number >= 12
        keep(tmp_path, number, "node07" if late else "gpu7", (4400 if late else 4000) + number % 5, hardware="ab" * 8)
    return tmp_path


def test_two_names_of_one_hardware_are_told_and_no_change_is_seen(
    renamed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", "--runs", str(renamed)]) == 0
    told = capsys.readouterr()
    assert "gpu7 and node07 have the same hardware; --same 'gpu7=node07' makes one series of both" in told.err
    assert [line.partition(",")[0] for line in told.out.splitlines()] == ["gpu7", "node07"]


@pytest.mark.parametrize("said", [["gpu7=node07"], [" gpu7 = node07 "], ["gpu7=x", "node07=x"], ["gpu7=a", "a=node07"]])
def test_who_says_that_two_names_are_one_sees_the_change(
    renamed: Path, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", "--runs", str(renamed), *(f"--same={each}" for each in said)]) == 1
    told = capsys.readouterr()
    line, change = told.out.splitlines()
    assert line.partition(",")[0] == ("x" if "x" in said[0] else "node07") and "24 runs" in line
    assert "10.0 % slower from run run0012" in change
    assert told.err == ""


def test_other_hardware_under_another_name_is_another_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(4):
        keep(tmp_path, number, f"gpu{number}", 4000, **({"hardware": f"{number:016x}"} if number else {}))
    assert main(["history", "--runs", str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""


def test_a_machine_with_other_hardware_than_before_is_told_at_the_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(24):
        late = number >= 12
        keep(tmp_path, number, "gpu7", (4400 if late else 4000) + number % 5, hardware=("b" if late else "a") * 16)
    assert main(["history", "--runs", str(tmp_path)]) == 1
    assert f"hardware {'a' * 16} -> {'b' * 16}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "texts", [["a"], ["=b"], ["a="], ["a=a"], ["a=b", "a=c"], ["a=b", "b=a"], ["a=b", "b=c", "c=b"]]
)
def test_names_that_say_nothing_are_refused(texts: list[str]) -> None:
    with pytest.raises(UsageError, match="--same"):
        same_names(texts)


def test_a_long_chain_of_names_leads_to_the_newest() -> None:
    said = same_names([f"n{number}=n{number + 1}" for number in range(300)])
    assert set(said.values()) == {"n300"}


@pytest.mark.parametrize(
    ("started", "tool", "why"),
    [
        ("2049-01-01T00:00:00Z", "busbw", "is still to come"),
        ("9999-12-31T23:59:59Z", "nccl-tests", "is still to come"),
        ("2025-12-30T00:00:00Z", "busbw", "is before busbw was published"),
        ("2000-01-01T00:00:05Z", "nccl-tests", "is before nccl-tests was published"),
        ("2010-01-01T00:00:00", "some log", "is before NCCL was published"),
    ],
)
def test_a_date_that_cannot_be_true_is_told_and_left_out(
    started: str, tool: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(tmp_path, 1, "gpu7", 4000)
    keep(tmp_path, 2, "gpu7", 9000, started=started, tool=tool)
    assert main(["history", "--runs", str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert f"run run0002, whose {started} {why}" in told.err
    assert "1 run since 2026-05-02" in told.out and "9.00 ms" not in told.out


def test_dates_that_can_be_true_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    now = datetime.now(timezone.utc)
    kept = [((now + timedelta(hours=20)).isoformat(), "busbw"), ("2026-01-01T00:00:00", "busbw"),
            ("2018-06-01T00:00:00Z", "nccl-tests"), ("2016-01-01T00:00:00Z", "own")]  # fmt: skip
    for number, (started, tool) in enumerate(kept):
        keep(tmp_path, number, "gpu7", 4000, started=started, tool=tool)
    assert main(["history", "--runs", str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert "4 runs since 2016" in told.out and told.err == ""


def test_several_wrong_dates_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        keep(tmp_path, number, "gpu7", 4000, started=f"20{50 + number}-01-01T00:00:00Z")
    main(["history", "--runs", str(tmp_path)])
    assert "left out for its date, and 2 more: run run0000" in capsys.readouterr().err


def test_the_size_of_a_class_is_the_one_that_most_runs_measured(tmp_path: Path) -> None:
    for number in range(9):
        keep(tmp_path, number, "gpu7", 4000)
    name = "larger"
    case = Case(name, 0, "all_reduce", 1 << 33, "out_of_place", "measured", 9000.0, ranks=8)
    run = Run(name, "2026-06-01T00:00:00Z", Tool("busbw", "1"), None, machine="gpu7")
    store.add(Record(run, (case,), End(name, "completed", 1)), tmp_path)
    with Index(tmp_path) as index:
        (found,) = series(index)
    assert (found.bytes, len(found.runs)) == (1 << 30, 9)


def test_what_was_usual_shortly_before_a_change_counts_and_not_what_was_long_before(tmp_path: Path) -> None:
    def seen(library: str, count: int) -> list[Seen]:
        return [Seen("run", "2026-05-01", 1.0, library, "", "", "") for _ in range(count)]

    with Index(tmp_path) as index:
        found = differed(index, [*seen("A", 20), *seen("B", 6)], [*seen("C", 6), *seen("D", 20)], lambda _: True)
    assert found == ["library B -> C"]
