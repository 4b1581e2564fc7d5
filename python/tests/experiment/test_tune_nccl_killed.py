"""A search that is killed at any moment goes on: the same table, nothing measured twice, and one budget for it all."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tune_nccl_machine import FACTS, MadeUpNccl

from busbw.base.errors import UsageError, UserError
from busbw.base.lock import alone_in
from busbw.experiment.clock import Clock
from busbw.experiment.loop import TRIALS_NAME, append_trial, read_trials
from busbw.experiment.plan import Plan
from busbw.experiment.trial import Outcome, Trial
from busbw.experiment.tune_nccl.rules import Way
from busbw.experiment.tune_nccl.search import Search
from busbw.experiment.tune_nccl.stage import STAGE_NAME, Stage, begin, unused, with_kept
from busbw.experiment.tune_nccl.ways import Asked, plan_to_prove

PROGRAM = str(Path(__file__).with_name("killed_search.py"))
KILLS = 6


def run(folder: Path, budget: float, moment: int | None = None) -> subprocess.CompletedProcess[str]:
    folder.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, PROGRAM, str(folder), str(budget), *([str(moment)] if moment else [])]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)


def measured(folder: Path) -> Counter[str]:
    return Counter((folder / "measured").read_text().splitlines())


@pytest.mark.parametrize("budget", [130.0, 1e6])
def test_killed_at_any_moment_it_comes_to_the_same_table(tmp_path: Path, budget: float) -> None:
    whole = run(tmp_path / "whole", budget)
    assert whole.returncode == 0, whole.stderr
    table, once = (tmp_path / "whole" / "out.txt").read_text(), measured(tmp_path / "whole")
    assert table.count("rule ") >= 1 and (budget > 1e5 or once.total() <= budget + 1)
    moments, chance, killed = int(whole.stdout), random.Random(budget), 0
    for trial in range(2):
        folder = tmp_path / str(trial)
        for _ in range(KILLS // 2):
            killed += run(folder, budget, chance.randrange(1, moments)).returncode == -signal.SIGKILL
        rest = run(folder, budget)
        assert rest.returncode == 0, rest.stderr
        assert (folder / "out.txt").read_text() == table
        # What a kill cut off was not kept; nothing else is measured again, and nothing that was not measured before.
        again = measured(folder)
        assert set(again) == set(once) and again.total() <= once.total() + KILLS // 2
    assert killed >= 2


def test_a_search_that_is_over_begins_nothing_under_the_same_budget_and_goes_on_under_a_larger(tmp_path: Path) -> None:
    nccl = MadeUpNccl(worse={"all_reduce": "ring/ll"}, noise=0.05)

    def measure(plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Trial:
        nccl.now += 0.25  # what is spent between trials, which no trial has in its seconds
        return nccl.measure(plan, number, variant, folder, limit_s)

    def looked(budget: float) -> int:
        nccl.now, before = 0.0, nccl.trials
        one = Search(Asked(("all_reduce",), 4, 1024, 1 << 20), FACTS, tmp_path, 3, Clock(budget, lambda: nccl.now),
                     measure)  # fmt: skip
        one.collective("all_reduce")
        return nccl.trials - before

    first = looked(60.0)
    assert 40 <= first <= 49 and looked(60.0) == 0 and looked(50.0) == 0
    assert 40 <= looked(120.0) <= 64 and looked(120.0) == 0


def test_ways_keep_their_numbers_whatever_a_later_look_adds(tmp_path: Path) -> None:
    first = with_kept([Way(), Way("tree/ll"), Way("tree/ll", 4)], tmp_path)
    assert with_kept([Way(), Way("ring/ll"), Way("tree/ll", 4)], tmp_path) == [*first, Way("ring/ll")]
    assert with_kept([Way()], tmp_path) == [*first, Way("ring/ll")]
    for text in ("[]", "{", '{"ways": 7}', '{"ways": [["a", "b", 1]]}', "[" * 100_000):
        (tmp_path / STAGE_NAME).write_text(text)
        with pytest.raises(UserError, match="begin a new search"):
            with_kept([Way()], tmp_path)


def test_a_proof_counts_for_the_table_that_was_proven_alone(tmp_path: Path) -> None:
    place = unused(tmp_path / "proof", "one")
    assert place == tmp_path / "proof"
    place.mkdir()
    (place / "table.txt").write_text("one")
    assert unused(tmp_path / "proof", "two") == place  # nothing was measured with it yet
    append_trial(place, Trial(0, 0, Outcome.MEASURED, 1.0))
    assert unused(tmp_path / "proof", "one") == place
    other = unused(tmp_path / "proof", "two")
    assert other == tmp_path / "proof-2"


def test_rounds_to_come_do_not_count_for_a_decision(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("busbw-tuner 1\nend 0\n")
    nccl = MadeUpNccl()
    plan = plan_to_prove(Asked(("all_reduce",), 4, 1024, 4096), "all_reduce", tmp_path / "t", seed=1)
    stage = Stage(plan, tmp_path, nccl.measure, Clock(1e6), lambda _: None)
    for number in range(3):
        assert stage.round(number, (0, 1), 1.0)
    stage.trials += [Trial(3, 1, Outcome.WRONG, 1.0)]
    assert stage.failed(3) == set() and stage.failed() == {1}
    for before in (1, 2, 3):
        assert {len(values) for by in stage.times(before).values() for values in by.values()} == {before}
        assert {len(v) for by in stage.pairs(before).values() for v in by.values()} == {before}


def test_other_words_and_another_process_are_told(tmp_path: Path) -> None:
    said = {"first": 1024, "loosened": ["NCCL_ALGO"], "beside": ""}
    begin(tmp_path, said, {"first": "-b"})
    begin(tmp_path, said, {"first": "-b"})
    with pytest.raises(UsageError, match="holds another search: -b was 1024 there and is 4096 now"):
        begin(tmp_path, {**said, "first": 4096}, {"first": "-b"})
    with pytest.raises(UsageError, match="loosened was NCCL_ALGO there and is not set now"):
        begin(tmp_path, {**said, "loosened": []}, {})
    with alone_in(tmp_path), pytest.raises(UserError, match="another process works in"), alone_in(tmp_path):
        pass
    with alone_in(tmp_path):
        pass


def test_a_line_that_was_cut_off_is_taken_away_and_what_stands_is_not_written_again(tmp_path: Path) -> None:
    append_trial(tmp_path, Trial(0, 0, Outcome.MEASURED, 1.0))
    path = tmp_path / TRIALS_NAME
    whole = path.read_bytes()
    for more in (b'{"rou', b'{"reason": "\xc3', b"\x00"):
        with path.open("ab") as stream:
            stream.write(more)
        inode = path.stat().st_ino
        assert [trial.round for trial in read_trials(tmp_path)] == [0]
        assert path.read_bytes() == whole and path.stat().st_ino == inode
