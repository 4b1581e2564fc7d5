"""Which rank this is, where rank 0 may be, and what a program that is no rank must not see, by launchers' variables."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from busbw.base.errors import UserError
from busbw.launch.place import Place, find_place, hosts_of_rank_0, job_secret, ports_of, without_rank
from busbw.launch.pmi import handed_around

# As `env` printed them below mpirun of Open MPI 4.1.4 and mpiexec of MPICH 4.0.2, without those that do not matter.
OPEN_MPI_4 = {
    "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_UNIVERSE_SIZE": "8", "OMPI_COMMAND": "env", "OMPI_FIRST_RANKS": "0", "OMPI_APP_CTX_NUM_PROCS": "8",
    "OMPI_FILE_LOCATION": "/tmp/ompi.a.0/1/0/3", "OMPI_NUM_APP_CTX": "1",
    "OMPI_MCA_orte_hnp_uri": "1218772992.0;tcp://192.0.2.2,10.1.0.2:33421;tcp6://[fd00::2]:45841",
    "OMPI_MCA_orte_precondition_transports": "9413e706a2e23a94-3da60f04998f60be", "OMPI_MCA_ess": "^singleton",
    "OMPI_MCA_ess_base_jobid": "1218772993", "OMPI_MCA_initial_wdir": "/", "OMPI_MCA_shmem_RUNTIME_QUERY_hint": "mmap",
    "OMPI_MCA_mpi_oversubscribe": "0", "OMPI_MCA_pmix": "^s1,s2,cray,isolated", "PMIX_NAMESPACE": "1218772993",
    "PMIX_RANK": "3", "PMIX_SERVER_URI41": "1218772992.0;tcp4://127.0.0.1:40517", "PMIX_ID": "1218772993.3",
}  # fmt: skip
HYDRA = {
    "PMI_RANK": "1", "PMI_SIZE": "4", "PMI_FD": "6", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1",
    "HYDI_CONTROL_FD": "7", "MPIR_CVAR_CH3_INTERFACE_HOSTNAME": "n2",
}  # fmt: skip
OPEN_MPI_5 = {
    "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": "prterun-login-7.site.org-4711@1",
    "PRTE_LAUNCHED": "1", "PMIX_SERVER_URI5": "x",
}  # fmt: skip
STEP = {"SLURM_PROCID": "2", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_JOB_ID": "9",
        "SLURM_STEP_NODELIST": "gpu[007-009,12]"}  # fmt: skip
SETTINGS = {
    "OMPI_MCA_btl": "self,tcp", "OMPI_MCA_plm_rsh_agent": "ssh", "OMPI_ALLOW_RUN_AS_ROOT": "1", "PMIX_MCA_gds": "hash",
    "I_MPI_FABRICS": "shm:ofi", "I_MPI_HYDRA_BOOTSTRAP": "ssh", "NCCL_DEBUG": "INFO", "PATH": "/bin",
    "PRTE_MCA_plm_ssh_agent": "ssh", "SLURM_JOB_ID": "9",
}  # fmt: skip


@pytest.mark.parametrize(
    ("environ", "place", "hosts"),
    [
        (OPEN_MPI_4, Place("mpirun", 3, 8), ("192.0.2.2", "10.1.0.2")),
        (OPEN_MPI_5, Place("mpirun", 0, 2), ("login-7.site.org",)),
        (HYDRA, Place("mpiexec", 1, 4), ()),
        (STEP, Place("srun", 2, 4), ("gpu007",)),
        ({**STEP, "SLURM_STEP_ID": "4294967291"}, Place(), ()),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "9"}, Place(), ()),
        ({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.4", "MASTER_PORT": "29500"},
         Place("torchrun", 1, 2), ("10.0.0.4",)),
        ({**OPEN_MPI_4, "AZ_BATCHAI_MPI_MASTER_NODE": "10.0.0.9"},
         Place("mpirun", 3, 8), ("10.0.0.9", "192.0.2.2", "10.1.0.2")),
        ({**OPEN_MPI_4, "AZ_BATCH_MASTER_NODE": "10.0.0.7:6000", "AZ_BATCHAI_MPI_MASTER_NODE": "localhost"},
         Place("mpirun", 3, 8), ("10.0.0.7", "localhost", "192.0.2.2", "10.1.0.2")),
        ({**OPEN_MPI_4, "BUSBW_ADDRESS": "n1:2000"}, Place("mpirun", 3, 8), ("n1:2000",)),
        ({"RANK": "3"}, Place(), ()),
        ({}, Place(), ()),
    ],
)  # fmt: skip
def test_launchers_say_who_this_is_and_where_rank_0_may_be(environ, place, hosts) -> None:
    assert find_place(environ) == place
    assert hosts_of_rank_0(environ) == hosts


def test_the_first_node_that_was_named_comes_before_where_mpirun_runs() -> None:
    assert hosts_of_rank_0(OPEN_MPI_4, ("n1", "n2")) == ("n1", "192.0.2.2", "10.1.0.2")


def test_numbers_that_contradict_each_other_are_one_sentence() -> None:
    for wrong in ({"PMI_RANK": "4", "PMI_SIZE": "4"}, {"PMI_RANK": "x", "PMI_SIZE": "4"}):
        with pytest.raises(UserError, match="PMI_RANK is"):
            find_place(wrong)


@pytest.mark.parametrize("environ", [OPEN_MPI_4, OPEN_MPI_5, HYDRA])
def test_a_program_sees_no_rank_and_every_setting(environ) -> None:
    assert without_rank({**environ, **SETTINGS}) == SETTINGS


def test_what_two_jobs_know_differs_and_so_do_their_ports() -> None:
    other = {**OPEN_MPI_4, "OMPI_MCA_orte_precondition_transports": "0-1"}
    one, two = job_secret(OPEN_MPI_4, "mpirun"), job_secret(other, "mpirun")
    assert one != two and job_secret({**other, "BUSBW_SECRET": "s"}, "mpirun") == "s"
    assert set(ports_of({}, one)).isdisjoint(ports_of({}, two)) and len(ports_of({}, one)) == 4
    assert ports_of({"BUSBW_PORT": "9"}, one) == (9,) and ports_of({"BUSBW_PORT_RANGE": "7-8"}, one) in {(7, 8), (8, 7)}
    with pytest.raises(UserError, match="share no secret"):
        job_secret({}, "busbw")


def test_a_proxy_that_only_waits_for_its_ranks_is_left_by_them(tmp_path: Path) -> None:
    rank = (
        "import os, socket, time; from busbw.launch.pmi import handed_around; from busbw.launch.place import Place; "
        "ours, theirs = socket.socketpair(); "
        "handed_around(Place('mpiexec', 1, 2), '', {'PMI_FD': str(ours.fileno())}, 9.0)"
    )
    proxy = tmp_path / "hydra_pmi_proxy"
    proxy.symlink_to(shutil.which("bash") or "/bin/bash")
    for line, expected in (('"$@"; exit $?', "was told to end"), ('"$@" & read -t 5 x <&9', "in time")):
        ends = os.pipe()  # the second one waits for what never comes
        done = subprocess.run(
            [proxy, "-c", f"exec 9<&{ends[0]}; {line}", "proxy", sys.executable, "-c", rank.replace("9.0", "4.0")],
            capture_output=True, text=True, pass_fds=ends[:1], timeout=60, check=False,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        )  # fmt: skip
        for end in ends:
            os.close(end)
        assert expected in done.stderr, done.stderr


def test_pmi_hands_a_text_around_and_a_closed_one_is_a_sentence() -> None:
    ours, theirs = socket.socketpair()
    answers = {
        "init": "response_to_init rc=0", "get_my_kvsname": "my_kvsname kvsname=kvs_1", "put": "put_result rc=0",
        "barrier_in": "barrier_out", "get": "get_result rc=0 value=secret,4711,n1", "finalize": "finalize_ack",
    }  # fmt: skip
    asked: list[str] = []

    def serve() -> None:
        for line in theirs.makefile("r"):
            asked.append(line.strip())
            theirs.sendall(f"cmd={answers[line.split()[0].partition('=')[2]]}\n".encode())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    environ = {"PMI_FD": str(ours.fileno())}
    assert handed_around(Place("mpiexec", 1, 2), "", environ, 5.0) == "secret,4711,n1"
    assert handed_around(Place("mpiexec", 0, 2), "mine", environ, 5.0) == "mine"
    assert "cmd=put kvsname=kvs_1 key=busbw-fleet value=mine" in asked
    theirs.shutdown(socket.SHUT_RDWR)
    thread.join(5)
    theirs.close()
    with pytest.raises(UserError, match="PMI_FD is not open"):
        handed_around(Place("mpiexec", 1, 2), "", environ, 5.0)
    ours.close()
    assert handed_around(Place("mpirun", 1, 2), "", os.environ, 5.0) is None
