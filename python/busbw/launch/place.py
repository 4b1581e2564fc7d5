"""Which of several processes of one launcher this is, where process 0 of them may be, and what they alone know.

The same variables in the same order as the engine reads them (docs/reference/rendezvous.md).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw.base.errors import UsageError

FIRST_PORT, LAST_PORT, PORTS = 21000, 28999, 4
FIRST_SHELL = 0xFFFFFFF0
"""Slurm numbers what is no step of srun (batch script, interactive shell) from here up."""
_RANKS = (
    ("busbw", "BUSBW_RANK", "BUSBW_WORLD_SIZE"),
    ("torchrun", "RANK", "WORLD_SIZE"),
    ("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("mpiexec", "PMI_RANK", "PMI_SIZE"),
    ("srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
_IDENTITY = {
    "torchrun": ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"),
    "mpirun": ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_precondition_transports"),
    "srun": ("SLURM_JOB_ID", "SLURM_STEP_ID"),
}
# What tells a program that it is a rank of somebody's: one that starts MPI by itself would look for the others.
# Settings of a user's for MPI (OMPI_MCA_btl, I_MPI_FABRICS, PMIX_MCA_gds, ...) stay.
_OF_A_RANK = re.compile(
    r"OMPI_(?!ALLOW_RUN_AS_ROOT|MCA_)\w+|OMPI_MCA_(orte|prte|ess|pmix|initial)(_\w+)?|"
    r"OMPI_MCA_(shmem_RUNTIME_QUERY_hint|mpi_oversubscribe)|(PMIX|PRTE)_(?!MCA_)\w+|PRTE_MCA_(prte|ess)_\w+|"
    r"PMI2?_\w+|HYD[IT]_\w+|MPI_LOCAL(RANKID|NRANKS)|MPIR_CVAR_CH3_INTERFACE_HOSTNAME|MV2_COMM_WORLD_\w+"
)


@dataclass(frozen=True)
class Place:
    """Rank `rank` of `size` under a launcher; alone: 0 of 1."""

    launcher: str = "none"
    rank: int = 0
    size: int = 1


def find_place(environ: Mapping[str, str]) -> Place:
    """This process among those of its launcher; UsageError where the variables contradict each other."""
    for launcher, rank_name, size_name in _RANKS:
        rank, size = environ.get(rank_name, ""), environ.get(size_name, "")
        if not rank or not size or (launcher == "srun" and not _in_step(environ)):
            continue
        if not (rank.isdecimal() and size.isdecimal() and int(rank) < int(size) < 1 << 20):
            raise UsageError(f"{rank_name} is '{rank[:40]}' and {size_name} '{size[:40]}'; correct them or unset both")
        return Place(launcher, int(rank), int(size))
    return Place()


def _in_step(environ: Mapping[str, str]) -> bool:
    step = environ.get("SLURM_STEP_ID", "")
    return step.isdecimal() and int(step) < FIRST_SHELL


def hosts_of_rank_0(environ: Mapping[str, str], named: Sequence[str] = ()) -> tuple[str, ...]:
    """Where rank 0 may be, likeliest first; `named` are the nodes as their user gave them."""
    found = [
        environ.get("BUSBW_ADDRESS", ""),
        # Azure ML's; with one node the second may be all that there is, with several it need not be right.
        environ.get("AZ_BATCH_MASTER_NODE", "").partition(":")[0],
        environ.get("AZ_BATCHAI_MPI_MASTER_NODE", ""),
        environ.get("AZ_BATCHAI_JOB_MASTER_NODE_IP", ""),
        environ.get("MASTER_ADDR", ""),
        *named[:1],
        *_of_step(environ),
        # Where mpirun itself runs, rank 0 mostly runs too.
        *_of_uri(environ.get("OMPI_MCA_orte_hnp_uri", "")),
        *re.findall(r"prte(?:run)?-(.+)-\d+@\d+", environ.get("PMIX_NAMESPACE", "")),
    ]
    if find_place(environ).launcher == "none":
        return ()
    if environ.get("BUSBW_ADDRESS"):
        return tuple(found[:1])
    return tuple(dict.fromkeys(host for host in found if host))


def _of_uri(uri: str) -> list[str]:
    """Open MPI 4: 1779040256.0;tcp://10.0.0.4,10.1.0.4:38923;tcp6://[fd00::4]:40001."""
    found = re.search(r"tcp://([0-9.,]+):\d+", uri)
    return found[1].split(",") if found else []


def _of_step(environ: Mapping[str, str]) -> list[str]:
    """The first host of `gpu[001-004,7],login` is gpu001."""
    found = re.match(r"([A-Za-z0-9_.-]+)(?:\[(\d+))?", environ.get("SLURM_STEP_NODELIST", ""))
    return [f"{found[1]}{found[2] or ''}"] if found else []


def job_secret(environ: Mapping[str, str], launcher: str) -> str:
    """What only processes of this job know: BUSBW_SECRET, or else a hash of what the launcher tells them all."""
    if given := environ.get("BUSBW_SECRET"):
        return given
    identity = [environ.get(name, "") for name in _IDENTITY.get(launcher, ())]
    if not any(identity):
        raise UsageError(
            "these processes share no secret: set BUSBW_SECRET to the same random text for every process of the job"
        )
    return hashlib.sha256("\n".join(["secret", launcher, *identity]).encode()).hexdigest()


def ports_of(environ: Mapping[str, str], secret: str) -> tuple[int, ...]:
    """Where rank 0 may listen: BUSBW_PORT, or a few neighbours of a range that the secret chooses."""
    if (one := environ.get("BUSBW_PORT", "")).isdecimal() and 0 < int(one) < 65536:
        return (int(one),)
    found = re.fullmatch(r"(\d{1,5})-(\d{1,5})", environ.get("BUSBW_PORT_RANGE", ""))
    first, last = (int(found[1]), int(found[2])) if found else (FIRST_PORT, LAST_PORT)
    width = max(1, min(65535, last) - first + 1)
    seed = int.from_bytes(hashlib.sha256(f"fleet\n{secret}".encode()).digest()[:4], "little")
    return tuple(first + (seed + k) % width for k in range(min(PORTS, width)))


def without_rank(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program that is no rank of the job around us."""
    return {name: value for name, value in environ.items() if not _OF_A_RANK.fullmatch(name)}
