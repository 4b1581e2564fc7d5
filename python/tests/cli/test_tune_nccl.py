"""The words of `busbw tune nccl`: what is planned, and what is refused before anything is measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from busbw.analysis.verdict import of_rounds
from busbw.base.errors import UserError
from busbw.base.lock import alone_in
from busbw.base.words import parse
from busbw.cli import tune_nccl
from busbw.cli.main import main
from busbw.experiment.plan import Plan
from busbw.experiment.trial import Outcome, Trial
from busbw.experiment.tune_nccl.rules import Place, Rule, Way, table_text
from busbw.experiment.tune_nccl.search import Proven
from busbw.experiment.tune_nccl.ways import Asked


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


def proven(size: int, *logs: float) -> Proven:
    return Proven(size, Way("tree/ll"), of_rounds([each + 0.001 * (-1) ** n for n, each in enumerate(logs * 8)]))


def test_a_rule_falls_back_where_it_is_surely_slower_or_surely_gains_less() -> None:
    rule = Rule("all_reduce", 0, 99, Way("tree/ll"), (1.2, 1.3))
    gains, noise = proven(10, 0.25), proven(20, -0.3, 0.35)
    slower, gone = proven(20, -0.1), proven(20, 0.0)
    assert noise.judgement.interval and noise.judgement.interval.high > 1.2
    assert tune_nccl.held_of(rule, [gains, noise]) == ("pay", rule, [rule])
    assert tune_nccl.held_of(rule, [noise]) == ("undecided", rule, [rule])
    assert tune_nccl.held_of(rule, []) == ("unmeasured", rule, [])
    for bad in (slower, gone):
        standing, _, left = tune_nccl.held_of(rule, [gains, bad, proven(30, 0.25), proven(40, 0.25)])
        assert standing == "fell back"
        assert [(each.first, each.last) for each in left] == [(0, 10), (30, 99)]
        assert tune_nccl.held_of(rule, [bad])[2] == []
    # A rule that says no gain was kept so that nothing gets slower.
    modest = replace(rule, gain=None)
    assert tune_nccl.held_of(modest, [gone])[0] == "pay"
    assert tune_nccl.held_of(modest, [slower])[0] == "fell back"


def test_a_foreign_file_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("my notes\n")
    words = ["tune", "nccl", "--ranks", "2", "all_reduce", "--output", str(tmp_path / "mine.txt")]
    assert main([*words, "--runs", str(tmp_path / "runs")]) == 1
    assert "is no table for NCCL's tuner" in capsys.readouterr().err
    assert (tmp_path / "mine.txt").read_text() == "my notes\n"


def kept(tmp_path: Path, *places: Place) -> Path:
    path = tmp_path / "table.txt"
    path.write_text(table_text(places))
    return path


def at(ranks: int, nodes: int = 1) -> Place:
    facts = {"nccl": "2.28.9", "gpu": "X", "driver": "1", "topology": "0" * 16, "ranks": str(ranks)}
    return Place({**facts, "nodes": str(nodes)}, (Rule("all_reduce", 0, 9, Way("tree/ll")),))


def test_a_table_says_with_how_many_ranks_it_is_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def says(*places: Place) -> str:
        code = main(["tune", "nccl", "--verify", str(kept(tmp_path, *places)), "--dry-run"])
        out, err = capsys.readouterr()
        assert (code == 0) == bool(out)
        return out or err

    assert says(at(3), at(16, 2)).startswith("3 ranks")
    assert "has rules for 3 and 4 ranks; say with --ranks" in says(at(3), at(4))
    assert "several nodes alone; say with --launch" in says(at(16, 2))
    assert "has no rule" in says()


@pytest.mark.parametrize("text", [None, "busbw-tuner 1\nend 1\n", table_text([at(4)])[:-9]])
def test_a_table_that_is_none_is_told_before_gpus_are_counted(
    text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.txt"
    if text is not None:
        path.write_text(text)

    def count() -> int:
        pytest.fail("GPUs were counted")

    words = parse("tune", ["nccl", "--verify", str(path), "--runs", str(tmp_path / "runs")])
    with pytest.raises(UserError, match=r"t\.txt"):
        tune_nccl.run(words, count)
    assert "kept in" not in capsys.readouterr().err and not (tmp_path / "runs").exists()


@pytest.mark.parametrize("verb", [["tune", "nccl", "--ranks", "2"], ["overlap"], ["experiment", "--vary", "A=1,2"]])
@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_a_product_that_is_none_is_told_before_anything_is_kept(
    verb: list[str], more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rest = ["--", "all_reduce"] if verb[0] != "tune" else []
    words = [*verb, "--beside", "product:0x1x1", "--runs", str(tmp_path / "runs"), *more, *rest]
    assert main(words) == 2
    said = capsys.readouterr()
    assert "--beside takes product" in said.err and "kept in" not in said.err + said.out
    assert not (tmp_path / "runs").exists()


def test_a_foreign_output_is_told_before_anything_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("my notes\n")
    words = ["tune", "nccl", "--ranks", "2", "--output", str(tmp_path / "mine.txt"), "--runs", str(tmp_path / "runs")]
    assert main(words) == 1
    assert "kept in" not in capsys.readouterr().err and not (tmp_path / "runs").exists()


FACTS = {"nccl": "2.28.9", "gpu": "G", "driver": "570", "topology": "0" * 16, "ranks": "4", "nodes": "1"}


def test_trials_of_another_driver_do_not_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = dict(FACTS)

    def trial(plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Trial:
        facts = plan.variants[variant].environment["BUSBW_TUNER_FACTS"]
        Path(str(facts)).write_text("\n".join(Place(here).lines()) + "\n")
        return Trial(number, variant, Outcome.MEASURED, limit_s)

    monkeypatch.setattr("busbw.experiment.runner.run_trial", trial)
    folder = tmp_path / "kept"
    folder.mkdir()
    wanted = Asked(("all_reduce",), 4, 1024, 4096)
    assert tune_nccl._facts(wanted, folder) == (wanted, FACTS) == tune_nccl._facts(wanted, folder)
    here["driver"] = "580"
    with pytest.raises(UserError, match=r"were measured with driver 570 \(now 580\); begin a new search"):
        tune_nccl._facts(wanted, folder)
    here["driver"] = "570"
    assert tune_nccl._facts(wanted, folder) == (wanted, FACTS)


def test_a_folder_of_another_search_is_told_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    words = ["tune", "nccl", "--ranks", "2", "all_reduce", "--resume", str(folder), "-e", "4K"]
    assert main([*words, "-b", "1K"]) == 1
    assert "cannot be measured" in capsys.readouterr().err
    assert main([*words, "-b", "2K"]) == 2
    assert "-b was 1024 there and is 2048 now; --resume goes on with the same words" in capsys.readouterr().err
    with alone_in(folder):
        assert main([*words, "-b", "1K"]) == 1
    assert "another process works in" in capsys.readouterr().err


def test_where_graphs_cannot_be_measured_calls_are_started_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried = []

    def trial(plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Trial:
        settings = plan.variants[variant].environment
        tried.append("-G" in plan.words)
        if tried[-1]:
            return Trial(number, variant, Outcome.CRASHED, limit_s, reason="no graph")
        assert "NCCL_GRAPH_REGISTER" not in settings
        Path(str(settings["BUSBW_TUNER_FACTS"])).write_text("\n".join(Place(FACTS).lines()) + "\n")
        return Trial(number, variant, Outcome.MEASURED, limit_s)

    monkeypatch.setattr("busbw.experiment.runner.run_trial", trial)
    wanted = Asked(("all_reduce",), 4, 1024, 4096, graphs=tune_nccl.GRAPHS)
    found, facts = tune_nccl._facts(wanted, tmp_path)
    assert facts == FACTS and found.graphs == 0 and tried == [True, False]
    assert "started one by one: no graph" in capsys.readouterr().err


def test_a_table_of_another_place_is_told_by_what_is_nearest() -> None:
    here = {**FACTS, "gpu": "H"}
    assert tune_nccl._elsewhere([Place(dict.fromkeys(FACTS, "1")), Place(FACTS)], here) == (
        "it was measured with gpu G (here H)"
    )
    assert "gpu H" in tune_nccl._elsewhere([], here)
