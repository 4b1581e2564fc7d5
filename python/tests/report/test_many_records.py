"""A report of many sweeps looks at each of its cases so often and no more."""

# ruff: noqa: E501 - the lines are as wide as the tools print them

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.report import judging

pytest.importorskip("numpy")

HEAD = """\
# nThread 1 nGpus {gpus} minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
     1048576        262144     float     sum      -1    20.00   52.43   {bus}      0    20.00   52.43   {bus}      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : {bus}
#
"""


def test_cases_are_not_searched_for_each_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls, before = Counter[str](), judging._comparable

    def counted(*given: object, **more: object) -> object:
        calls["made"] += 1
        return before(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(judging, "_comparable", counted)
    for name, gpus, bus in (("a", 2, "52.43"), ("b", 4, "78.64")):
        (tmp_path / f"{name}.log").write_text(HEAD.format(gpus=gpus, bus=bus) * 40)
    assert main(["report", str(tmp_path / "a.log"), str(tmp_path / "b.log")]) == 0
    capsys.readouterr()
    cases = 2 * 2 * 40
    assert 0 < calls["made"] <= 4 * cases
