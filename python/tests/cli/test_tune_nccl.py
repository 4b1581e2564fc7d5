"""The words of `busbw tune nccl`: what is planned, and what is refused before anything is measured."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from busbw.cli import tune_nccl
from busbw.cli.main import main
from busbw.experiment.tune_nccl.rules import Rule, Way
from busbw.experiment.tune_nccl.search import Proven


@pytest.fixture(autouse=True)
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / tune_nccl.PLUGIN).touch()
    monkeypatch.setenv("BUSBW_ENGINE", str(tmp_path / "bin" / "busbw-engine"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "busbw-engine").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "bin" / "busbw-engine").chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("NCCL_ALGO", "BUSBW_TUNER_TABLE"):
        monkeypatch.delenv(name, raising=False)


def test_a_dry_run_lists_the_ways_and_what_hinders(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NCCL_ALGO", "Tree")
    assert main(["tune", "nccl", "--ranks", "4", "--dry-run", "all_reduce"]) == 0
    said = capsys.readouterr().out
    assert "all_reduce: default, ring/ll, ring/ll128" in said
    assert "NCCL_ALGO" in said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nccl", "--ranks", "4", "alltoall"], "NCCL asks no tuner about 'alltoall'"),
        (["nccl", "--ranks", "1"], "one rank moves nothing"),
        (["nccl", "--ranks", "2", "-b", "2M", "-e", "1M"], "the last no smaller"),
        (["--verify", "t.txt", "all_reduce"], "put nccl before the collectives"),
    ],
)
def test_words_that_mean_nothing_are_refused(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_a_search_that_is_not_there_does_not_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tune", "nccl", "--ranks", "2", "all_reduce", "--resume", str(tmp_path / "tnue")]
    assert main(words) == 1
    assert "no such folder" in capsys.readouterr().err
    assert not (tmp_path / "tnue").exists()


def test_a_rule_pays_only_where_it_was_measured() -> None:
    rules = [Rule("all_reduce", first, first + 9, Way("tree/ll")) for first in (0, 10, 20)]
    proven = [
        SimpleNamespace(size=size, holds=holds) for size, holds in ((1, True), (9, True), (10, True), (19, False))
    ]
    assert tune_nccl.held_of(rules, cast("list[Proven]", proven)) == (rules[:1], rules[2:])
    assert tune_nccl.held_of(rules, []) == ([], rules)


def test_a_foreign_file_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("my notes\n")
    words = ["tune", "nccl", "--ranks", "2", "all_reduce", "--output", str(tmp_path / "mine.txt")]
    assert main([*words, "--runs", str(tmp_path / "runs")]) == 1
    assert "is no table for NCCL's tuner" in capsys.readouterr().err
    assert (tmp_path / "mine.txt").read_text() == "my notes\n"
