"""`busbw overlap` with the real engine where it is built: the same work in every trial, one table, one plot."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from busbw.analysis.overlap import Overlap
from busbw.cli import overlap
from busbw.cli.main import main
from busbw.records import read_record

BUILD = Path(os.environ.get("BUSBW_BUILD") or Path(__file__).resolve().parents[3] / "build")
ENGINE = BUILD / "bin" / "busbw-engine"
built = pytest.mark.skipif(not ENGINE.exists(), reason="the engine is not built; `make build` builds it")
MEASURED = ["--", "all_reduce", "-b", "1K", "-e", "4K", "-f", "4", "-t", "2", "--library", "cpu"]


@built
def test_every_trial_does_the_same_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], runs_of_this_test: Path
) -> None:
    monkeypatch.setenv("BUSBW_ENGINE", str(ENGINE))
    plot = tmp_path / "o.html"
    words = ["overlap", "--rounds", "2", "--vary", "BUSBW_CPU_ALGO=auto,staged", "--json", "--plot", str(plot)]
    assert main([*words, "--beside", "product:16x16x16", *MEASURED]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["variant"], row["bytes"]) for row in rows] == [
        (variant, size) for variant in ("baseline", "BUSBW_CPU_ALGO=staged") for size in (1024, 4096)
    ]  # fmt: skip
    for row in rows:
        assert row["trials"] == 2 and row["product"] == "16x16x16" and row["efficiency"] > 0
    assert [row["calls"] for row in rows[:2]] == [row["calls"] for row in rows[2:]]
    assert "Exposed time of a call" in plot.read_text()
    record = read_record(next(runs_of_this_test.glob("overlap-*/trials/r0001-v001/record.jsonl")))
    placed = {case.placement: case for case in record.cases if case.bytes == 1024}
    assert not placed["in_place"].beside and len(placed["out_of_place"].beside["calls_alone_us"]) == 3
    # What is reported else stays the time of the calls by themselves.
    assert placed["out_of_place"].wrong == 0 and placed["out_of_place"].iterations == 20


@built
def test_an_experiment_compares_both_together(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], runs_of_this_test: Path
) -> None:
    monkeypatch.setenv("BUSBW_ENGINE", str(ENGINE))
    words = ["experiment", "--beside", "product", "--rounds", "3", "--vary", "BUSBW_CPU_ALGO=auto,staged", "--json"]
    assert main([*words, *MEASURED]) in {0, 3}
    (effect,) = json.loads(capsys.readouterr().out)["effects"]
    assert {point["placement"] for point in effect["points"]} == {"beside"}
    plan = json.loads(next(runs_of_this_test.glob("experiment-*/experiment.json")).read_text())
    assert "--beside-amounts" in plan["words"]


@pytest.mark.parametrize(("words", "sentence"), [
    (["--plot", "x.pdf", *MEASURED], "ends in .html, .svg or .png"),
    (["--plot", "/nowhere/at/all/x.svg", *MEASURED], "there is no folder /nowhere/at/all"),
    (["--beside", "product:16385x1x1", *MEASURED], "sides from 1 to 16384"),
    (["--", "all_redux"], "'all_redux' is none"),
    (["--rounds", "0", *MEASURED], "--rounds"),
    (["--beside", "banana", *MEASURED], "not 'banana'"),
    (["--beside", "product:0x1x1", *MEASURED], "sides from 1 to 16384"),
])  # fmt: skip
def test_words_that_mean_nothing(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["overlap", *words]) == 2
    assert sentence in capsys.readouterr().err


@built
@pytest.mark.parametrize("words", [["--beside", "x"], ["--beside", "product:0x1x1"], ["--beside-amounts", "8:10:"],
                                   ["--beside-amounts", "8:1:1,"]])  # fmt: skip
def test_the_engine_refuses_products_that_are_none(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUSBW_ENGINE", str(ENGINE))
    assert main(["run", "--ranks", "1", "all_reduce", "-b", "8", "-e", "8", *words, "--library", "cpu"]) == 2
    assert f"{words[0]} takes" in capfd.readouterr().err


def test_what_cannot_be_is_marked_and_explained(capsys: pytest.CaptureFixture[str]) -> None:
    good = Overlap("1x1x1", 1, 1, 100.0, 50.0, 110.0, 60.0, 110.0)
    found = [{("all_reduce", 1024): [good], ("all_reduce", 4096): [replace(good, together_us=70.0)]}]
    plan = cast(Any, SimpleNamespace(variants=[SimpleNamespace(name="baseline")]))
    overlap._print(cast(Any, SimpleNamespace(json=False)), plan, cast(Any, found), cast(Any, None))
    _, first, second, note = capsys.readouterr().out.splitlines()
    assert "*" not in first
    assert " 1.43 * " in second
    assert note.startswith("* above 1: both together took less than one of them alone.")
