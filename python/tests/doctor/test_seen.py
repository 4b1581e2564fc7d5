"""What the doctor says first of a log in which no fault was found: that the job went on, and how it ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from busbw.cli.main import main

_STEPS = [f"step {each} loss {3 - each / 100:.2f}" for each in range(60)]


def _said(lines: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    path = folder / "job.log"
    path.write_text("\n".join(lines) + "\n")
    code = main(["doctor", str(path)])
    return code, " ".join(capsys.readouterr().out.split())


def test_what_was_seen_stands_before_what_was_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = _said([*_STEPS, "training complete"], tmp_path, capsys)
    seen = "the job went on (60 lines of progress, up to line 61) and ended as it should; no fault was found in it"
    assert code == 3 and seen in said
    assert said.index(seen) < said.index("verdict: cannot judge more than that") < said.index("no line of NCCL")


def test_a_log_that_ends_at_work_is_not_said_to_have_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = _said(_STEPS, tmp_path, capsys)
    assert code == 3 and "up to line 60); the log ends while it goes on; no fault" in said


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["reading the data set", "opening shard 3"], 3),
        (["step 1 loss 2.1", "ERROR 10:00:00 worker: the frobnicator cannot reach its lamp"], 3),
        (["step 1 loss 2.1", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"], 1),
    ],
    ids=["silent", "an error is last", "a fault"],
)
def test_nothing_is_promised_of_other_logs(
    lines: list[str], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, said = _said(lines, tmp_path, capsys)
    assert found == code and "no fault was found in it" not in said


def test_json_tells_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.log"
    path.write_text("\n".join([*_STEPS, "training complete"]) + "\n")
    assert main(["doctor", "--json", str(path)]) == 3
    verdict = json.loads(capsys.readouterr().out)["verdict"]
    assert verdict["outcome"] == "cannot judge" and "ended as it should" in verdict["seen"][0]
