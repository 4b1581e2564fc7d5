"""A real Slurm of two nodes on this machine: submit, watch, collect, cancel, lose, and say why not."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from jobs import NASTY

from busbw.records import Record, read_record

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUSBW_BUILD", ROOT / "build"))
ENGINE = BUILD / "bin" / "busbw-engine"
SBIN = f"{os.environ['PATH']}:/usr/sbin"
# Both nodes are this machine, whose name for them nobody can look up.
TWO_NODES = ("--nodes", "2", "--ranks", "2", "--env", "BUSBW_ADDRESS=127.0.0.1")
SHORT = ("-b", "64", "-e", "64", "-n", "2", "-w", "1")
ENDLESS = ("-b", "8M", "-e", "8M", "-n", "5", "-w", "1", "-c", "0", "-N", "0")


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, str]]:
    """What a user's environment needs to reach the cluster."""
    if not ENGINE.exists():
        pytest.skip(f"the engine is not built in {BUILD}")
    if any(shutil.which(name, path=SBIN) is None for name in ("slurmctld", "slurmd", "munged", "sbatch")):
        pytest.skip("Slurm is not installed; as root, `tools/slurm_cluster install` installs slurm-wlm and munge")
    if os.geteuid() != 0:
        pytest.skip("the daemons of Slurm need root")
    # Sockets have short names: pytest's own folders are too deep for them.
    with tempfile.TemporaryDirectory(prefix="busbw-slurm-") as folder:
        control = str(ROOT / "tools" / "slurm_cluster")
        started = subprocess.run([control, "start", folder], capture_output=True, text=True, timeout=90, check=False)
        try:
            assert started.returncode == 0, started.stderr
            yield {**os.environ, "SLURM_CONF": started.stdout.strip(), "PYTHONPATH": str(ROOT / "python")}
        finally:
            subprocess.run([control, "stop", folder], timeout=90, check=True)


@pytest.fixture
def user(cluster: dict[str, str], runs_of_this_test: Path) -> dict[str, str]:
    """The environment of one test, with its own folder of runs."""
    return {**cluster, "BUSBW_RUNS": str(runs_of_this_test), "BUSBW_ENGINE": str(ENGINE)}


def busbw(user: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "busbw", *words]
    return subprocess.run(argv, env=user, capture_output=True, text=True, timeout=90, check=False)


def slurm(user: dict[str, str], *words: str) -> str:
    return subprocess.run(words, env=user, capture_output=True, text=True, timeout=30, check=True).stdout


def the_record(user: dict[str, str]) -> Record:
    [path] = Path(user["BUSBW_RUNS"]).glob("*/record.jsonl")
    return read_record(path)


def wait_until(condition: Callable[[], object], limit: float = 30) -> None:
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


@contextlib.contextmanager
def endless_job(user: dict[str, str], *words: str) -> Iterator[subprocess.Popen[str]]:
    """A job that measures until somebody ends it; handed out once it has measured something."""
    argv = [sys.executable, "-m", "busbw", "all_reduce", *ENDLESS, "--launcher", "slurm", *TWO_NODES, *words]
    with subprocess.Popen(argv, env=user, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: b'"case"' in b"".join(p.read_bytes() for p in Path(user["BUSBW_RUNS"]).glob("*/rec*")))
            yield process
        finally:
            process.kill()
            subprocess.run(["scancel", "--user=root"], env=user, timeout=30, check=False)


def nothing_is_left(user: dict[str, str], record: Record) -> bool:
    def ended(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
        except FileNotFoundError:
            return True

    return not slurm(user, "squeue", "-h") and all(ended(rank.pid) for rank in record.run.ranks if rank.pid)


@pytest.mark.parametrize("mpi", ["none", "pmix", "pmi2"])
def test_a_batch_job_over_two_nodes_leaves_one_record_of_all_ranks(mpi: str, user: dict[str, str]) -> None:
    if mpi == "pmix" and "pmix" not in slurm(user, "srun", "--mpi=list"):
        pytest.skip("this Slurm has no PMIx plugin")
    words = ("--partition", "main", "--mpi", mpi, "--env", f"NCCL_NOTE={NASTY}", "--job-name", "ours")
    done = busbw(user, "all_reduce", *SHORT, "--launcher", "slurm", *TWO_NODES, *words)
    if mpi == "pmix" and "can not load PMIx" in done.stderr:
        pytest.skip("this Slurm's PMIx plugin finds no libpmix.so")
    assert done.returncode == 0, done.stderr
    assert "Collective test concluded" in done.stdout
    record = the_record(user)
    assert (record.run.launcher, len(record.run.ranks)) == ("slurm", 2)
    assert {case.wrong for case in record.cases} == {0}
    assert record.run.environment["NCCL_NOTE"] == NASTY
    assert "BUSBW_SECRET" not in record.run.environment
    assert nothing_is_left(user, record)


def test_inside_an_allocation_it_is_one_step(user: dict[str, str]) -> None:
    words = ["all_reduce", *SHORT, "--launcher", "slurm", *TWO_NODES]
    argv = ["salloc", "--nodes=2", "--ntasks=2", sys.executable, "-m", "busbw", *words]
    done = subprocess.run(argv, env=user, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    record = the_record(user)
    assert (record.run.launcher, len(record.run.ranks)) == ("slurm", 2)
    assert not list(Path(user["BUSBW_RUNS"]).glob("*/job.sbatch"))


def test_masks_reach_the_ranks(user: dict[str, str], tmp_path: Path) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2 or cpus != list(range(len(cpus))):
        pytest.skip("binding to different processors needs two that are numbered from 0")
    topology = tmp_path / "topo.txt"
    matrix = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\tX\tSYS\t0\t0\nGPU1\tSYS\tX\t1\t0\n"
    topology.write_text(matrix)
    shown = tmp_path / "shown"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntaskset -cp $$ >> {shown}.$SLURM_LOCALID\n")
    program.chmod(0o755)
    words = ("--launcher", "slurm", "--ranks", "2", "--topology", str(topology))
    done = busbw({**user, "BUSBW_ENGINE": str(program)}, "all_reduce", "--no-record", *words)
    assert done.returncode == 0, done.stderr
    found = [Path(f"{shown}.{rank}").read_text().rsplit(": ", 1)[1].strip() for rank in (0, 1)]
    assert found == ["0", "1"]


def test_ctrl_c_cancels_the_job_and_keeps_what_was_measured(user: dict[str, str]) -> None:
    with endless_job(user) as process:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    assert "SIGINT: cancelling job" in err
    record = the_record(user)
    assert record.cases and record.end and record.end.outcome == "interrupted", record.end
    assert nothing_is_left(user, record)


def test_a_job_that_somebody_cancels_says_so(user: dict[str, str]) -> None:
    with endless_job(user) as process:
        slurm(user, "scancel", "--user=root")
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "was cancelled; what was measured until then is kept" in err
    assert the_record(user).cases


def test_a_lost_rank_ends_the_job_and_is_named(user: dict[str, str]) -> None:
    with endless_job(user) as process:
        lost = the_record(user).run.ranks[1].pid
        assert lost
        os.kill(lost, signal.SIGKILL)
        _, err = process.communicate(timeout=60)
    assert process.returncode not in {0, 130}
    assert f"process 1 (pid {lost}" in err and "was lost" in err
    record = the_record(user)
    assert record.cases and record.end and record.end.outcome == "failed"
    assert nothing_is_left(user, record)


def test_a_folder_that_no_node_can_write_to_is_one_sentence_and_leaves_nothing(user: dict[str, str]) -> None:
    done = busbw(user, "all_reduce", *SHORT, "--launcher", "slurm", *TWO_NODES, "--record", "/proc/none/record.jsonl")
    assert done.returncode not in {0, 124, 130}
    assert "the folder '/proc/none' for the record cannot be made" in done.stderr
    assert not slurm(user, "squeue", "-h")
    assert not list(Path(user["BUSBW_RUNS"]).glob("*")), "an empty run stayed"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--partition", "nowhere"), "Slurm took no job: Invalid partition name specified"),
        (("--partition", "short", "--time-limit", "2h"), "does not allow so long a time limit"),
        (("--partition", "short", "--nodes", "2", "--ranks", "2"), "so many nodes"),
        (("--nodelist", "n9"), "Slurm took no job: Invalid node name specified"),
    ],
)
def test_what_slurm_cannot_do_is_one_sentence_and_no_job_stays(
    words: tuple[str, ...], why: str, user: dict[str, str]
) -> None:
    ranks = () if "--ranks" in words else ("--ranks", "1")
    done = busbw(user, "all_reduce", *SHORT, "--launcher", "slurm", *ranks, *words)
    assert done.returncode == 1
    assert why in done.stderr.splitlines()[-1]
    assert not slurm(user, "squeue", "-h")
    assert not list(Path(user["BUSBW_RUNS"]).glob("*")), "an empty run stayed"


@pytest.mark.skipif(not os.environ.get("BUSBW_SLOW"), reason="Slurm counts minutes; BUSBW_SLOW=1 waits for one")
def test_slurms_time_limit_ends_the_job_and_keeps_what_was_measured(user: dict[str, str]) -> None:
    with endless_job(user, "--time-limit", "1m") as process:
        _, err = process.communicate(timeout=180)
    assert process.returncode == 124
    assert "at its time limit of 00:01:00; what was measured until then is kept" in err
    assert nothing_is_left(user, the_record(user))


@pytest.mark.skipif(not os.environ.get("BUSBW_SLOW"), reason="Slurm misses a node after half a minute; BUSBW_SLOW=1")
def test_a_lost_node_ends_the_job_and_is_named(user: dict[str, str]) -> None:
    with endless_job(user) as process:
        lost = the_record(user).run.ranks[1].pid
        step = Path(f"/proc/{lost}/stat").read_text().rsplit(")", 1)[1].split()[1]
        daemon = (Path(user["SLURM_CONF"]).parent / "slurmd.n2.pid").read_text()
        for pid in (int(daemon), int(step), lost):
            assert pid
            os.kill(pid, signal.SIGKILL)
        _, err = process.communicate(timeout=120)
    assert process.returncode not in {0, 130}
    assert "lost" in err and "n2" in err
    assert the_record(user).cases
