"""The local plan is a value that says everything but the secret."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.cli.main import main
from busbw.launch.job import Bind, JobSpec
from busbw.launch.launchers import LAUNCHERS, planner
from busbw.launch.local import plan, share, usable_cpus
from busbw.launch.plan import LaunchPlan, ProcessPlan

JOB = JobSpec(2, Path("/opt/engine"), ("all_reduce", "-b", "8"), {"BUSBW_RUN_ID": "one"})


def test_the_plan_of_two_ranks_is_these_two_processes() -> None:
    common = {"BUSBW_RUN_ID": "one", "BUSBW_WORLD_SIZE": "2", "BUSBW_LOCAL_SIZE": "2"}
    argv = ("/opt/engine", "all_reduce", "-b", "8")
    assert plan(JOB) == LaunchPlan(
        processes=(
            ProcessPlan("rank 0", argv, {**common, "BUSBW_RANK": "0", "BUSBW_LOCAL_RANK": "0"}, listens=True),
            ProcessPlan("rank 1", argv, {**common, "BUSBW_RANK": "1", "BUSBW_LOCAL_RANK": "1"}),
        ),
        meets=True,
    )


@pytest.mark.parametrize("name", LAUNCHERS)
def test_every_launcher_gives_the_same_plan_for_the_same_job(name: str) -> None:
    assert planner(name).plan(JOB) == planner(name).plan(JOB)


def test_a_shown_plan_quotes_words_and_hides_what_is_made_at_start() -> None:
    job = JobSpec(1, Path("/opt/my engine"), ("all_reduce", "--tag", "a b"))
    assert list(plan(job).lines()) == [
        "BUSBW_RANK=0 BUSBW_WORLD_SIZE=1 BUSBW_LOCAL_RANK=0 BUSBW_LOCAL_SIZE=1 BUSBW_ADDRESS=<chosen at start> "
        "BUSBW_SECRET=<made at start> BUSBW_LISTEN_FD=<inherited> '/opt/my engine' all_reduce --tag 'a b'"
    ]


@given(st.lists(st.integers(0, 500), unique=True, min_size=1, max_size=64), st.integers(1, 64))
def test_bound_ranks_share_all_processors_and_no_two_share_one(cpus: list[int], ranks: int) -> None:
    parts = [share(cpus, rank, ranks) for rank in range(ranks)]
    if ranks > len(cpus):
        assert not any(parts)
        return
    assert all(parts)
    assert sorted(cpu for part in parts for cpu in part) == sorted(cpus)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_siblings_of_a_core_stand_beside_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for cpu, core in {0: 0, 1: 1, 2: 0, 3: 1}.items():
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text("0\n")
        (folder / "core_id").write_text(f"{core}\n")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3})
    assert usable_cpus(tmp_path) == [0, 2, 1, 3]


def test_a_plan_with_binding_shows_it() -> None:
    job = JobSpec(2, Path("e"), ("reduce",), bind=Bind.CORES)
    shown = list(plan(job, cpus=[0, 2, 1, 3]).lines())
    assert "taskset -c 0,2 e reduce" in shown[0]
    assert "taskset -c 1,3 e reduce" in shown[1]


def test_dry_run_prints_the_plan_and_starts_nothing(
    fake_engine: Path, tmp_path: Path, runs_of_this_test: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--ranks", "2", "--dry-run", "all_reduce", "--tell", str(tmp_path), "-n", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert f"{fake_engine} all_reduce --tell {tmp_path} -n 5 --record {runs_of_this_test}" in lines[1]
    assert not list(tmp_path.glob("*.json"))
    assert not runs_of_this_test.exists()
