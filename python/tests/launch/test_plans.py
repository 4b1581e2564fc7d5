"""Every launcher's plan is the one that is kept here, and no text of a user's becomes part of a command."""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from jobs import JOB, NASTY, PLAIN

from busbw.launch import sbatch, slurm, slurm_queue
from busbw.launch.launchers import LAUNCHERS, PROGRAMS, planner
from busbw.launch.plan import LaunchPlan

GOLDEN = Path(__file__).parent / "golden"


def plan_of(name: str) -> LaunchPlan:
    """The plan of the rich job; what asks the environment asks an empty one."""
    return slurm.plan(JOB, {}) if name == "slurm" else planner(name).plan(JOB)


@pytest.mark.parametrize("name", LAUNCHERS)
def test_the_plan_is_the_golden_one(name: str) -> None:
    shown = "\n".join(plan_of(name).lines()) + "\n"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("BUSBW_GOLDEN"):  # BUSBW_GOLDEN=1 pytest writes them anew; read the difference before you keep it
        path.write_text(shown)
    assert shown == path.read_text()


@pytest.mark.parametrize("name", LAUNCHERS)
def test_a_launcher_needs_no_more_than_ranks_and_a_program(name: str) -> None:
    plan = slurm.plan(PLAIN, {}) if name == "slurm" else planner(name).plan(PLAIN)
    assert plan.processes or plan.submission


@pytest.mark.parametrize("name", sorted({*LAUNCHERS} - {"local", "slurm"}))
def test_a_launcher_starts_the_program_by_which_it_is_found(name: str) -> None:
    plan = planner(name).plan(PLAIN)
    assert (plan.submission.submit if plan.submission else plan.processes[0].argv)[0] == PROGRAMS[name]


@pytest.mark.parametrize("name", ["mpirun", "hydra", "torchrun", "srun"])
def test_a_value_travels_in_the_environment_and_in_no_argument(name: str) -> None:
    [process] = plan_of(name).processes
    assert process.environment["NCCL_NOTE"] == NASTY
    assert not any("NCCL_NOTE=" in word or NASTY in word for word in process.argv)


@pytest.mark.parametrize("name", LAUNCHERS)
def test_no_plan_holds_a_secret(name: str) -> None:
    for process in plan_of(name).processes:
        assert "BUSBW_SECRET" not in process.environment
        assert not any(word.startswith("BUSBW_SECRET=") for word in process.argv)


def test_a_batch_script_gives_the_program_its_words_and_its_variables_as_they_are(tmp_path: Path) -> None:
    fake = tmp_path / "srun"
    fake.write_text(
        '#!/bin/sh\nfor word; do printf "%s\\0" "$word"; done; printf "%s\\0" "$NCCL_NOTE" "$BUSBW_SECRET"\n'
    )
    fake.chmod(0o755)
    script = tmp_path / "script"
    script.write_text(sbatch.script(JOB))
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", str(script)], env=environment, capture_output=True, text=True, check=True)
    *words, note, secret, rest = done.stdout.split("\0")
    assert words[-len(JOB.argv) :] == list(JOB.argv)
    assert (note, rest, len(secret)) == (NASTY, "", 32)
    assert not Path("/tmp/no").exists()


def test_a_directive_in_a_value_is_no_directive() -> None:
    lines = sbatch.script(JOB).splitlines()
    first_command = next(n for n, line in enumerate(lines) if line and not line.startswith("#"))
    assert not any("theirs" in line for line in lines[:first_command])  # Slurm reads no directive below it


def test_slurms_own_signs_in_a_files_name_stay_signs() -> None:
    assert sbatch.escaped("/runs/50%j\\x") == "/runs/50%%j\\\\x"


def test_inside_an_allocation_slurm_means_a_step() -> None:
    assert slurm.plan(JOB, {"SLURM_JOB_ID": "7"}).processes[0].argv[0] == "srun"
    assert slurm.plan(JOB, {}).submission is not None


@pytest.mark.parametrize("name", ["mpirun", "hydra", "torchrun"])
def test_a_rank_is_bound_to_the_processors_of_its_local_rank(name: str) -> None:
    [process] = plan_of(name).processes
    at = process.argv.index("sh")
    assert process.argv[at + 3 :] == ("busbw-bind", *JOB.argv)
    cpus = min(os.sched_getaffinity(0))
    script = process.argv[at + 2].replace("cpus=12-23;;", f"cpus={cpus};;")
    words = ["sh", "-c", script, "busbw-bind", "sh", "-c", 'echo "$1"; taskset -cp $$', "x", NASTY]
    done = subprocess.run(words, env={**os.environ, "LOCAL_RANK": "1"}, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(NASTY + "\n")
    assert done.stdout.endswith(f": {cpus}\n")


def test_a_shown_line_can_be_pasted_into_a_shell() -> None:
    [process] = plan_of("mpirun").processes
    line = next(iter(plan_of("mpirun").lines()))
    assert shlex.split(line)[-len(process.argv) :] == list(process.argv)


def test_a_secret_variable_comes_with_the_environment_of_sbatch_and_not_with_the_script(tmp_path: Path) -> None:
    sbatch_of_the_test = tmp_path / "sbatch"
    sbatch_of_the_test.write_text(f'#!/bin/sh\nprintf %s "$SITE_TOKEN" >{tmp_path}/got\necho 17\n')
    sbatch_of_the_test.chmod(0o755)
    environment = {**JOB.environment, "SITE_TOKEN": "canary-0123456789"}
    job = replace(JOB, environment=environment, launcher_program=str(sbatch_of_the_test), folder=tmp_path)
    text = sbatch.script(job)
    assert "canary" not in text and "NCCL_NOTE" in text
    submission = sbatch.plan(job).submission
    assert submission and "canary" not in repr(submission)
    assert slurm_queue.submit(submission) == "17"
    assert (tmp_path / "got").read_text() == "canary-0123456789"
    guard = next(line for line in text.splitlines() if "SITE_TOKEN" in line)
    missing = subprocess.run(["sh", "-c", guard], env={}, capture_output=True, text=True, timeout=60, check=False)
    assert missing.returncode != 0 and "sbatch did not hand SITE_TOKEN on" in missing.stderr
    assert subprocess.run(["sh", "-c", guard], env={"SITE_TOKEN": "x"}, timeout=60, check=False).returncode == 0
