"""Steps beside work: what the sides are, what ranks say, and the figures that follow."""

from __future__ import annotations

import json

import pytest
from gpu_library.report import markdown, passed
from gpu_library.session import Wanted
from gpu_library.stages import beside


def said(rank, **values):
    return json.dumps({"beside": {"rank": rank, **values}})


def step(side, ms, gpus=4, what="ddp"):
    return {"side": side, "gpus": gpus, "what": what, "exit": 0, "reason": "", "step_ms": ms, "work_ms": 30.0,
            "exposed_ms": ms - 30.0}  # fmt: skip


def test_sides_are_nccl_ours_and_ours_with_settings():
    found = beside.sides(["staged:BUSBW_PREFER=overlap;BUSBW_ALGORITHM=all_reduce=staged/copy,nccl"])
    assert list(found) == ["NCCL", "ours", "staged"]
    assert found["staged"] == {"BUSBW_PREFER": "overlap", "BUSBW_ALGORITHM": "all_reduce=staged/copy,nccl"}


def test_ours_itself_may_have_settings():
    assert beside.sides(["ours:BUSBW_PREFER=latency"]) == {"NCCL": {}, "ours": {"BUSBW_PREFER": "latency"}}


@pytest.mark.parametrize("text", ["", "name", "name:", "name:A", ":A=1", "NCCL:A=1", "x:A=1;=2"])
def test_a_side_that_is_none_is_refused_with_a_sentence(text):
    with pytest.raises(ValueError, match=r"is no side; write NAME:VARIABLE=VALUE"):
        beside.sides([text])


def test_only_rank_0_is_heard_as_its_times_are_those_of_the_slowest():
    text = "\n".join(["noise", said(1, what="ddp", step_ms=9.0), said(0, what="ddp", step_ms=8.0), '{"beside'[:4]])
    assert [each["step_ms"] for each in beside.parse([text])] == [8.0]


def test_a_step_is_compared_by_medians_over_starts():
    results = [step("NCCL", ms) for ms in (40.0, 41.0, 60.0)] + [step("ours", ms) for ms in (39.0, 43.05, 70.0)]
    found = beside.summarise(results)[4, "ddp"]
    assert (found["NCCL"]["step_ms"], found["ours"]["step_ms"], found["ours"]["starts"]) == (41.0, 43.05, 3)
    (line,) = [line for line in beside.table(results) if "| ours |" in line]
    assert line == "| ddp | 4 | ours | 43.05 | 30.00 | 13.05 | +5.0% | 3 |"


def test_products_beside_a_collective_have_a_table_of_their_own():
    values = {"call_us": 320.0, "efficiency": 0.6, "slowdown": 1.25, "processor_us": 4000.0}
    result = {"side": "ours", "gpus": 2, "what": "overlap all_reduce 64 MiB", "exit": 0, "reason": "", **values}
    lines = beside.table([result])
    assert "| all_reduce 64 MiB | 2 | ours | 320.0 | 0.60 | +25.0% | 4000 |" in lines


def test_a_start_that_failed_is_told_and_makes_the_call_fail():
    lost = {"side": "ours", "gpus": 4, "what": "", "exit": 1, "reason": "busbw: it hung"}
    assert "4 GPUs, ours: exit 1: busbw: it hung" in "\n".join(beside.table([step("NCCL", 40.0), lost]))
    call = {"machine": {}, "stages": {"beside": [step("NCCL", 40.0), lost]}, "broken": {}}
    assert not passed(call)
    assert "## Beside work" in markdown([call])
    assert passed({**call, "stages": {"beside": [step("NCCL", 40.0)]}})


def test_five_starts_of_each_side_unless_somebody_says_otherwise():
    assert Wanted().starts == 5
