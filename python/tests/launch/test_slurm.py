"""A real Slurm on this machine: submit, watch, collect, cancel, lose, preempt, and say why not."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from jobs import NASTY

from busbw.records import Record, read_record, read_records

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
        started = subprocess.run([control, "start", folder], capture_output=True, text=True, timeout=150, check=False)
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


def test_nodes_with_names_of_every_kind_meet_by_these_names(user: dict[str, str]) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no sockets for both kinds of addresses")
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as door:
        meet = f"import socket; [socket.create_connection((n, {door.getsockname()[1]}), 5) for n in {['a1', 'gpu-x']}]"
        ask = ["srun", "-p", "mixed", "-N", "4", sys.executable, "-c", meet]
        known = subprocess.run(ask, env=user, capture_output=True, text=True, check=False, timeout=60)
    if known.returncode != 0:
        pytest.skip("this machine does not let all nodes reach each other by their names (unshare --mount)")
    words = ("--launcher", "slurm", "--partition", "mixed", "--nodes", "4", "--ranks", "4")
    done = busbw(user, "all_reduce", *SHORT, *words)
    assert done.returncode == 0, done.stderr
    assert the_record(user).run.environment["SLURM_STEP_NODELIST"] == "a1,b[03-04],gpu-x"
    assert len(the_record(user).run.ranks) == 4


def test_every_task_of_an_array_keeps_its_own_record(user: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "array.sh"
    program = f"{sys.executable} -m busbw all_reduce {' '.join(SHORT)} --launcher slurm --ranks 2"
    script.write_text(
        "#!/bin/sh\n#SBATCH --array=0-2 --nodes=2 --ntasks-per-node=1\n"
        f"exec {program} --env BUSBW_ADDRESS=127.0.0.1 --env NCCL_NOTE=$SLURM_ARRAY_TASK_ID\n"
    )
    out = tmp_path / "%a.out"
    slurm(user, "sbatch", f"--output={out}", str(script))
    wait_until(lambda: not slurm(user, "squeue", "-h"), limit=180)
    records = [read_record(path) for path in Path(user["BUSBW_RUNS"]).glob("*/record.jsonl")]
    assert sorted(each.run.environment["NCCL_NOTE"] for each in records) == ["0", "1", "2"]
    assert {len(each.run.ranks) for each in records} == {2}
    refused = busbw(user, "all_reduce", "--launcher", "slurm", "--ranks", "1", "--launcher-arg=--array=0-2")
    assert refused.returncode == 2 and "--array would start one run several times" in refused.stderr


def test_exclusive_waits_for_whole_nodes_and_says_so(user: dict[str, str]) -> None:
    held = ["sbatch", "--parsable", "-p", "low", "-N", "2", "-n", "2", "-o", "/dev/null", "--wrap", "sleep 900"]
    holder = slurm(user, *held).strip()
    argv = [sys.executable, "-m", "busbw", "all_reduce", *SHORT, "--launcher", "slurm", *TWO_NODES]
    words = ("--partition", "low", "--exclusive")
    with subprocess.Popen([*argv, *words], env=user, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr
        said = b""
        while b"(Resources)" not in said and (line := process.stderr.readline()):
            said += line
        slurm(user, "scancel", holder)
        said += process.communicate(timeout=120)[1]
    assert process.returncode == 0 and b"waits in the queue (Resources)" in said, said
    assert len(the_record(user).run.ranks) == 2


def test_a_preempted_job_starts_again_and_its_record_holds_both_starts(user: dict[str, str], tmp_path: Path) -> None:
    program = tmp_path / "engine"
    program.write_text(f'#!/bin/sh\n[ "${{SLURM_RESTART_COUNT:-0}}" != 0 ] || set -- "$@" -N 0\nexec {ENGINE} "$@"\n')
    program.chmod(0o755)
    measured = ("-b", "1M", "-e", "1M", "-n", "2", "-w", "1", "-c", "0", "-N", "1")
    argv = [sys.executable, "-m", "busbw", "all_reduce", *measured, "--launcher", "slurm", *TWO_NODES]
    words = ("--partition", "low", "--exclusive", "--requeue")
    environment = {**user, "BUSBW_ENGINE": str(program)}
    with subprocess.Popen(
        [*argv, *words], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_until(lambda: b'"case"' in b"".join(p.read_bytes() for p in Path(user["BUSBW_RUNS"]).glob("*/rec*")))
        subprocess.run(
            ["srun", "--partition=high", "--nodes=2", "--exclusive", "true"], env=user, timeout=120, check=True
        )
        # Slurm holds it back until the credentials of its first start expire; sooner, its step was sometimes refused.
        _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "was put back into the queue and will start again" in err
    [path] = Path(user["BUSBW_RUNS"]).glob("*/record.jsonl*")
    first, second = read_records(path)
    assert second.run.run == f"{first.run.run}-restart-1"
    assert first.cases and first.end and first.end.outcome == "interrupted"
    assert second.end and second.end.outcome == "completed" and len(second.cases) == 2


def test_a_folder_that_shows_a_record_late_is_waited_for(user: dict[str, str], tmp_path: Path) -> None:
    late = tmp_path / "late"
    late.mkdir()
    program = tmp_path / "engine"
    # The record is the last word; it comes to its place only later, as on a file server that is slow to tell.
    program.write_text(
        "#!/bin/sh\nfor word; do record=$word; done\n"
        f'printf %s "$record" >{late}/place\nexec {ENGINE} all_reduce {" ".join(SHORT)} --record {late}/record\n'
    )
    program.chmod(0o755)
    argv = [sys.executable, "-m", "busbw", "all_reduce", "--launcher", "slurm", "--ranks", "1"]
    environment = {**user, "BUSBW_ENGINE": str(program)}
    with subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr
        said = b""
        while b"is seen here" not in said and (line := process.stderr.readline()):
            said += line
        place, data = Path((late / "place").read_text()), (late / "record").read_bytes()
        place.write_bytes(data[: len(data) // 2])  # a part of a file is not yet a record
        time.sleep(1)
        assert process.poll() is None
        place.write_bytes(data)
        said += process.communicate(timeout=60)[1]
    assert process.returncode == 0 and b"waiting up to 90 s until" in said, said
    assert the_record(user).cases


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
