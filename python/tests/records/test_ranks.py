"""A record whose cases have no possible number of ranks is refused in one sentence, by every verb that reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from busbw.cli.main import main

RUN = {"schema": 1, "kind": "run", "run": "r", "started": None, "tool": {"name": "busbw"}, "library": None,
       "ranks": [], "environment": {}}  # fmt: skip
CASE = {"schema": 1, "kind": "case", "run": "r", "case": 0, "collective": "all_reduce", "bytes": 1024,
        "placement": "in_place", "outcome": "measured", "time_us": 9.0, "algbw_GBps": 0.1,
        "busbw_GBps": 0.1}  # fmt: skip


@pytest.mark.parametrize("ranks", [-2, 0])
@pytest.mark.parametrize("verb", [["doctor"], ["import", "--dry-run"], ["report"]])
def test_a_number_of_ranks_below_one_is_refused(
    ranks: int, verb: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "record.jsonl"
    path.write_text("\n".join(json.dumps(each) for each in (RUN, {**CASE, "ranks": ranks})) + "\n")
    assert main([*verb, str(path)]) != 0
    assert f"record.jsonl:2: ranks: {ranks} is no number of ranks" in capsys.readouterr().err
