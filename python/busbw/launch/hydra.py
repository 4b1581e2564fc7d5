"""Plans ranks under hydra, the mpiexec of MPICH, Intel MPI and MVAPICH."""

from __future__ import annotations

from busbw.launch.binding import bound
from busbw.launch.job import Bind, JobSpec
from busbw.launch.launchers import PROGRAMS
from busbw.launch.plan import LaunchPlan, ProcessPlan


def plan(job: JobSpec) -> LaunchPlan:
    """One mpiexec. It hands on the environment of its caller; the ranks find each other through its PMI."""
    argv = (
        job.launcher_program or PROGRAMS["hydra"],
        *("-n", str(job.ranks), "-ppn", str(job.ranks_per_node)),
        *_where(job),
        *_binding(job),
        "-genvall",  # a site may have made -genvnone the default
        *job.launcher_arguments,
        *bound(job.argv, job.cpu_sets),
    )
    return LaunchPlan(processes=(ProcessPlan("mpiexec", argv, dict(job.environment)),), grace=8.0)


def _where(job: JobSpec) -> tuple[str, ...]:
    hosts = ",".join(f"{host.name}:{host.slots or job.ranks_per_node}" for host in job.hosts)
    return ("-hosts", hosts) if hosts else ()


def _binding(job: JobSpec) -> tuple[str, str]:
    return ("-bind-to", "core" if job.bind is Bind.CORES and not job.cpu_sets else "none")
