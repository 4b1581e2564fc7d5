"""A report of runs that share no size says so, on its page and in the terminal, and says nothing of it otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.records import Case, Library, Record, Run, Tool, save_records

SAID = "no verdict, as they share no size. Measure both at the same sizes to compare them."


def run(folder: Path, name: str, powers: range, placement: str = "out_of_place") -> str:
    cases = tuple(
        Case(name, at, "all_reduce", 1 << power, placement, "measured", 10.0 + power, 1.0, 2.0, type="float",  # type: ignore[arg-type]
             op="sum", ranks=2, batches_us=((9.0 + power, 10.0 + power, 11.0 + power),))
        for at, power in enumerate(powers)
    )  # fmt: skip
    path = folder / f"{name}.jsonl"
    save_records([Record(Run(name, None, Tool("busbw"), Library("NCCL", version=name)), cases)], path)
    return str(path)


@pytest.mark.parametrize("kind", ["text", "md", "html"])
def test_two_runs_without_a_size_in_common_have_no_verdict_and_the_reader_is_told(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = run(tmp_path, "2.28.9", range(10, 14)), run(tmp_path, "2.29.2", range(20, 24))
    assert main(["report", first, second, "--format", kind, "--output", str(tmp_path / "out")]) == 0
    text = " ".join((tmp_path / "out").read_text().split())
    assert text.count(SAID) == 1 and "Traceback" not in capsys.readouterr().err


def test_other_placements_of_one_size_are_no_size_in_common(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = run(tmp_path, "2.28.9", range(10, 14)), run(tmp_path, "2.29.2", range(10, 14), "in_place")
    assert main(["report", first, second]) == 0
    assert SAID in " ".join(capsys.readouterr().out.split())


def test_one_size_in_common_is_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = run(tmp_path, "2.28.9", range(10, 14)), run(tmp_path, "2.29.2", range(13, 16))
    assert main(["report", first, second]) == 0
    assert "share no size" not in capsys.readouterr().out


def test_one_run_alone_shares_nothing_with_anybody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", run(tmp_path, "2.28.9", range(10, 14))]) == 0
    assert "share no size" not in capsys.readouterr().out
