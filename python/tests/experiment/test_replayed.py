"""An experiment over a replay: what is measured, what is read of it, and that the job as a whole decides."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from made_recordings import Made, Row, write

from busbw.base.errors import UsageError, UserError
from busbw.cli.main import main
from busbw.experiment import runner
from busbw.experiment.effects import find
from busbw.experiment.factors import variable
from busbw.experiment.plan import Plan, check
from busbw.experiment.replayed import times_in
from busbw.experiment.runner import command_of, run_trial
from busbw.experiment.trial import TOTAL, Outcome, Point, Trial
from busbw.watch.recording import SUFFIX

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUSBW_BUILD", ROOT / "build"))
needs_library = pytest.mark.skipif(
    not (BUILD / "lib" / "libbusbw_cpu.so").exists(), reason="the CPU library is not built; BUSBW_BUILD names a build"
)
LINE: dict[str, Any] = {
    "collective": "all_reduce", "count": 4, "type": "float32", "communicator": 0, "ranks": 2, "bytes": 16,
    "recorded_us": None, "replayed_us": 5.5, "busbw_GBps": 0.01,
}  # fmt: skip
TIMES: dict[str, Any] = {"schema": 1, "ranks": 2, "wrong": 0, "rank_us": 12.5, "calls": [LINE]}


def plan(*words: str, ranks: int = 1, launch: tuple[str, ...] = ()) -> Plan:
    return Plan((variable("BUSBW_CPU_CHUNK=unset,65536"),), ("replay", *words), ranks, launch)


def test_a_trial_is_a_replay_with_the_variants_words(tmp_path: Path) -> None:
    made = check(plan("/recordings", "--gaps", ranks=2))
    assert command_of(made, made.variants[1], tmp_path / "t", 60.0)[2:] == [
        "busbw", "replay", "--ranks", "2", "/recordings", "--gaps", "--times", str(tmp_path / "t"),
    ]  # fmt: skip
    assert "--ranks" not in command_of(check(plan("/recordings")), made.variants[0], tmp_path / "t", 60.0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (plan("/a", "--times", "x"), "--times belongs to no experiment"),
        (plan("/a", launch=("--bind", "cores")), "on this host alone"),
        (plan(), "one folder of recordings"),
        (plan("/a", "/b"), "one folder of recordings"),
    ],
)
def test_what_no_replay_can_be_is_refused(wrong: Plan, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check(wrong)


def test_the_times_have_a_point_for_each_call_and_one_for_all(tmp_path: Path) -> None:
    (tmp_path / "t").write_text(json.dumps(TIMES))
    times, rates, wrong = times_in(tmp_path / "t")
    call = Point("all_reduce", 16, "all_reduce of 2 ranks", "float32 0")
    assert (times, wrong) == ({call: 5.5, Point("replay", 0, TOTAL): 12.5}, 0)
    assert rates[call] == 0.01
    assert all(Point.parse(str(point)) == point for point in times)


@pytest.mark.parametrize(
    "bad",
    [
        "", "[]", "{}", json.dumps({**TIMES, "schema": 2}), json.dumps({**TIMES, "calls": [{}]}),
        json.dumps({**TIMES, "calls": [{**LINE, "collective": "a|b"}]}), json.dumps({**TIMES, "rank_us": -1}),
        json.dumps({**TIMES, "calls": [{**LINE, "bytes": 1e300}]}), json.dumps({**TIMES, "rank_us": True}),
    ],
)  # fmt: skip
def test_other_files_are_a_sentence(tmp_path: Path, bad: str) -> None:
    (tmp_path / "t").write_text(bad)
    with pytest.raises(UserError, match="has no times of a replay"):
        times_in(tmp_path / "t")


def test_the_job_decides_and_not_the_number_of_its_shapes() -> None:
    """Three small shapes are faster by half, and the one that takes the time is slower: so is the job."""
    small = [Point("all_reduce", size, "all_reduce of 2 ranks") for size in (8, 16, 32)]
    large, total = Point("all_reduce", 1 << 20, "all_reduce of 2 ranks"), Point("replay", 0, TOTAL)
    trials = []
    for number in range(12):
        noise = 1 + number % 3 / 1000
        for variant, (one, other) in enumerate([(10.0, 1000.0), (5.0, 1300.0)]):
            times = {**dict.fromkeys(small, one * noise), large: other, total: (3 * one + other) * noise}
            trials.append(Trial(number, variant, Outcome.MEASURED, 1.0, times, dict.fromkeys(times, 1.0)))
    effect = find(plan("/a"), trials).effects[0]
    assert effect.judgement.verdict.value == "slower"
    assert effect.ratio == pytest.approx(1030 / 1315, rel=0.01)
    assert len(effect.points) == 5


def recordings(folder: Path) -> None:
    for rank in range(2):
        calls = [Made(n * 10**5, count=64) for n in range(5)] + [Made(10**6, group=1), Made(10**6, group=1)]
        write(folder, rank, [Row(rank, 2)], [*calls, Made(2 * 10**6, kind="broadcast", root=0)])


@needs_library
def test_a_replay_is_measured_over_the_cpu_library(tmp_path: Path) -> None:
    (tmp_path / "recordings").mkdir()
    recordings(tmp_path / "recordings")
    found = run_trial(check(plan(str(tmp_path / "recordings"))), 0, 1, tmp_path / "out", 60.0)
    assert (found.outcome, found.reason) == (Outcome.MEASURED, "")
    assert sorted(str(point) for point in found.times_us) == [
        "all_reduce|256|all_reduce of 2 ranks|float32 0", "broadcast|1024|broadcast of 2 ranks|float32 0",
        f"replay|0|{TOTAL}|",
    ]  # fmt: skip
    # Which rank waits least, and how long, is the machine's.
    assert found.times_us[Point("replay", 0, TOTAL)] > 0


def test_a_folder_without_recordings_is_a_crash_with_its_sentence(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    found = run_trial(check(plan(str(tmp_path / "none"))), 0, 0, tmp_path / "out", 60.0)
    assert found.outcome is Outcome.CRASHED
    assert "holds no recording" in found.reason


def test_the_verb_takes_the_folder_by_its_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rec").mkdir()
    assert main(["experiment", "--vary", "A=1,2", "--replay", "rec", "--dry-run", "--", "--gaps"]) == 1
    assert "rec holds no recording" in capsys.readouterr().err
    (tmp_path / "rec" / f"n1.7.1{SUFFIX}").touch()
    assert main(["experiment", "--vary", "A=1,2", "--replay", "rec", "--dry-run", "--", "--gaps"]) == 0
    assert f"busbw replay {tmp_path}/rec --gaps --times <record>" in capsys.readouterr().out
    assert main(["experiment", "--replay", "rec", "plan.toml"]) == 2


@pytest.mark.parametrize(("wrong", "outcome"), [(2, Outcome.WRONG), (0, Outcome.CRASHED)])
def test_a_replay_with_wrong_results_is_wrong_and_no_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: int, outcome: Outcome
) -> None:
    def replay(command: list[str], *_: object) -> int:
        Path(command[-1]).write_text(json.dumps({**TIMES, "wrong": wrong}))
        return 1

    monkeypatch.setattr(runner, "_run", replay)
    assert run_trial(check(plan("/a")), 0, 1, tmp_path, 60.0).outcome is outcome


@pytest.mark.parametrize("vary", [[], ["--vary", "BUSBW_CPU_CHUNK=unset,65536"]])
def test_recordings_that_are_not_there_are_told_before_anything_else(
    vary: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment", "--replay", str(tmp_path / "nowhere"), *vary]) == 1
    assert f"{tmp_path}/nowhere does not exist" in capsys.readouterr().err
