"""Lines made from the text of a run before are those that the writer gives for each alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.records import Device, End, Library, Rank, Run, Source, Tool, to_json
from busbw.records import alike as module
from busbw.records.alike import RunLines, end_to_json

RANKS = (Rank(0, "a", pid=1, device=Device("gpu", 0, "H100", "0000:01:00")), Rank(1, "b"))
RUN = Run(
    run="nccl-tests-a.log-0123", started=None, tool=Tool("nccl-tests"), library=None, ranks=RANKS,
    environment={"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}, options={"check": 1, "iters": 20},
    source=Source("a.log", "nccl-tests text", 7),
)  # fmt: skip
RUNS = [
    RUN,
    replace(RUN, run="other", ranks=RANKS[:1], source=replace(RUN.source, line=8)),
    replace(RUN, run='with "quotes" and \\'),
    replace(RUN, run="\u00e4"),
    replace(RUN, options={"check": True, "iters": 20}),
    replace(RUN, options={"check": 1.0, "iters": 20}),
    replace(RUN, options={"iters": 20, "check": 1}),
    replace(RUN, options={"list": [1, 2]}),
    replace(RUN, environment={"NCCL_PROTO": "LL", "NCCL_ALGO": "Ring"}),
    replace(RUN, library=Library("NCCL", version="2.27")),
    replace(RUN, notes=('"ranks":[]', '"run":"busbw-no-name"')),
    replace(RUN, source=Source("a.log", '"line":7777777777777', 9, heading='"ranks":[]')),
    replace(RUN, source=None),
    replace(RUN, source=Source("a.log", "x")),
    replace(RUN, extra={"more": [], "line": 1}),
    replace(RUN, tags=("t",), processes=2, program="all_reduce_perf", machine="nc48v4"),
]
ENDS = [
    End("a", "completed", 2), End("b", "completed", 2), End("b", "completed", 2, average_busbw_GBps=1.0),
    End("b", "completed", 2, average_busbw_GBps=1), End("b", "failed", 2, reason='"run":"busbw-no-name"'),
    End('"', "completed", 2), End("b", "completed", 2, phases_s={"a": 1.0}), End("b", "completed", 2, extra={"x": 1}),
]  # fmt: skip


def test_the_lines_of_runs_are_those_of_the_writer_in_any_order() -> None:
    lines = RunLines()
    for run in [*RUNS, *reversed(RUNS), *RUNS]:
        assert lines.of(run) == to_json(run)


def test_the_lines_of_ends_are_those_of_the_writer() -> None:
    assert list(map(end_to_json, ENDS + ENDS)) == list(map(to_json, ENDS + ENDS))


def test_runs_that_are_alike_are_put_into_json_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, made = RunLines(), []
    original = module.run_to_json
    monkeypatch.setattr(module, "run_to_json", lambda run: made.append(run) or original(run))  # type: ignore[func-returns-value]
    for line in range(5):
        lines.of(replace(RUN, run=f"run-{line}", source=replace(RUN.source, line=line)))
    assert len(made) == 1
