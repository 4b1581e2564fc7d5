"""Tables in odd files: other encodings and line ends, half of the columns, beside links in a circle."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.reading.inputs import Inputs, listed, read_inputs
from busbw.doctor.verdict import Outcome, verdict

MADE: dict[str, Callable[[str], bytes]] = {
    "utf-8": str.encode,
    "utf-16 of PowerShell": lambda text: text.replace("\n", "\r\n").encode("utf-16"),
    "utf-16, big end first": lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
    "decimal commas": lambda text: re.sub(r"(?<=\d)\.(?=\d\d)", ",", text).encode(),
    "carriage returns alone": lambda text: text.replace("\n", "\r").encode(),
}
NOT_MEASURED = "    N/A     N/A     N/A    N/A"


def table(share: float, in_place: str | None = None) -> str:
    """An all_reduce of eight H100 that reaches that share of what they are known for."""
    lines = ["# nccl-tests version 2.17.1", "# Collective test starting: all_reduce_perf", "# Using devices"]
    lines += [f"#  Rank  {at} Group  0 Pid 40{at} on node1 device  {at} [0000:{at + 1}b:00] NVIDIA H100 80GB HBM3"
              for at in range(8)]  # fmt: skip
    lines.append("#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw"
                 "   busbw #wrong")  # fmt: skip
    for size in (1 << 30, 1 << 31, 1 << 32):
        algbw = 480 * share / 1.75
        half = f"{size / algbw / 1e3:10.2f} {algbw:7.2f} {algbw * 1.75:7.2f}      0"
        lines.append(f"{size:12} {size // 4:12}  float  sum  -1 {half}{in_place or half}")
    return "\n".join([*lines, "# Out of bounds values : 0 OK", f"# Avg bus bandwidth    : {480 * share:.4f}", ""])


def outcome(data: bytes, folder: Path) -> Outcome:
    path = folder / "job.log"
    path.write_bytes(data)
    facts = gather(*read_inputs(Inputs(files=(str(path),))))
    return verdict(facts, examine(facts)).outcome


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("in_place", [None, NOT_MEASURED])
def test_a_table_is_judged_however_it_was_written(made: str, in_place: str | None, tmp_path: Path) -> None:
    assert outcome(MADE[made](table(1.0, in_place)), tmp_path) is Outcome.HEALTHY
    assert outcome(MADE[made](table(0.4, in_place)), tmp_path) is Outcome.FOUND


def test_figures_that_are_missing_here_and_there_are_no_columns_left_out(tmp_path: Path) -> None:
    rows = table(1.0, NOT_MEASURED).split("\n")
    at = max(i for i, row in enumerate(rows) if NOT_MEASURED in row)
    rows[at] = next(row for row in table(1.0).split("\n") if row.split()[:1] == rows[at].split()[:1])
    assert outcome("\n".join(rows).encode(), tmp_path) is Outcome.UNKNOWN


def test_a_link_in_a_circle_is_passed_over_in_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.log").write_text(table(1.0))
    (tmp_path / "circle").symlink_to("circle")
    assert main(["doctor", str(tmp_path)]) == 0
    assert "passed over: " in capsys.readouterr().out.replace("\n", " ")
    assert str(tmp_path / "circle") in listed([str(tmp_path)])
    assert main(["doctor", str(tmp_path / "circle")]) == 2


def test_a_whole_table_is_called_complete_and_no_line_that_shows_something(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a long path would break lines anywhere
    Path("job.log").write_text(table(1.0))
    main(["doctor", "job.log"])
    said = " ".join(capsys.readouterr().out.split())
    assert "job.log: its benchmark's table is complete; no fault" in said and "a line shows it" not in said


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a": "' + "x" * 200_000 + '"}'])
def test_json_without_a_line_of_text_is_no_log(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "odd.json").write_text(text)
    assert main(["doctor", str(tmp_path / "odd.json")]) == 2
    assert "is JSON without any line of text: neither a log nor a record" in capsys.readouterr().err
