"""What the text of a comparison says beside times: the algorithms of libraries that name theirs."""

from __future__ import annotations

import pytest

from busbw.analysis.comparison import Side, compare
from busbw.records import Case, Library, Record, Run, Tool
from busbw.report.comparison import comparison_json, comparison_text

pytest.importorskip("numpy")


def side(name: str, algorithms: list[str | None]) -> Side:
    cases = [
        Case(name, i, "all_reduce", 1024 << i, "out_of_place", "measured", 10.0 * 2**i, 1.0, 1.0, type="float",
             op="sum", ranks=4, algorithm=word)
        for i, word in enumerate(algorithms)
    ]  # fmt: skip
    return Side(name, (Record(Run(name, None, Tool("busbw"), Library("L")), tuple(cases)),))


def test_a_side_that_names_its_algorithms_has_its_crossings_told() -> None:
    ours: list[str | None] = [
        "one_shot/ll@1x128",
        "one_shot/ll@2x128",
        "two_shot/ll@4x512",
        "nccl: NCCL is faster there",
    ]
    found = compare(side("nccl", [None] * 4), side("ours", ours))
    text = " ".join(comparison_text(found).split())
    assert "B ran one_shot/ll from 1 KiB, two_shot/ll from 4 KiB, nccl from 8 KiB." in text
    assert "A ran" not in text
    assert [case["b_algorithm"] for case in comparison_json(found)["sweeps"][0]["cases"]] == ours


def test_repeats_that_took_different_ways_name_none() -> None:
    mixed = side("ours", ["one_shot/ll"]).records + side("again", ["two_shot/ll"]).records
    found = compare(side("before", ["one_shot/ll"]), Side("ours", mixed))
    text = comparison_text(found)
    assert "A ran one_shot/ll from 1 KiB." in text
    assert "B ran" not in text
