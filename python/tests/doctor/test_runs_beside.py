"""The same test in several runs: a release is judged by the best of its runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.reading.inputs import Inputs, read_inputs


def run(version: str, busbw: float) -> str:
    rows = [f" {8 << n} {2 << n} float sum -1 900.0 {busbw:.2f} {busbw:.2f} 0 900.0 {busbw:.2f} {busbw:.2f} 0"
            for n in (24, 25, 26)]  # fmt: skip
    return "\n".join(["busbw", f"NCCL version {version}+cuda12.2", *rows, "# Avg bus bandwidth : 1.0", ""])


@pytest.mark.parametrize(("again", "told"), [(29.0, False), (10.0, True)])
def test_a_release_is_judged_by_the_best_of_its_runs(again: float, *, told: bool, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(run("2.20.5", 10.0) + run("2.20.5", again) + run("2.18.5", 30.0))
    found = {each.name for each in examine(gather(*read_inputs(Inputs(files=(str(log),)))))}
    assert ("runs-differ" in found) is told
