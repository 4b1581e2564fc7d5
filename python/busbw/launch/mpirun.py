"""Plans ranks under Open MPI's mpirun, versions 4 and 5."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from busbw.launch.binding import bound
from busbw.launch.job import Bind, JobSpec
from busbw.launch.launchers import PROGRAMS
from busbw.launch.plan import LaunchPlan, ProcessPlan


def plan(job: JobSpec) -> LaunchPlan:
    """One mpirun. Values travel in its environment and are named with -x: no text of a user's reaches a parser."""
    environment = dict(job.environment)
    several = job.nodes > 1
    if several and job.hosts:
        environment["BUSBW_ADDRESS"] = job.hosts[0].name
    names = sorted({*environment, *(job.forward if several else ()), *(("BUSBW_SECRET",) if several else ())})
    exports = [word for name in names for word in ("-x", name)]
    program = job.launcher_program or PROGRAMS["mpirun"]
    argv = (
        program,
        # Open MPI 5's own runtime, called directly, tells its ranks what mpirun does only with this.
        *(("--personality", "ompi") if Path(program).name == "prterun" else ()),
        *("-np", str(job.ranks)),
        *_where(job),
        *_binding(job),
        *exports,
        *job.launcher_arguments,
        *bound(job.argv, job.cpu_sets),
    )
    return LaunchPlan(processes=(ProcessPlan("mpirun", argv, environment),), secret=several, grace=8.0)


def _where(job: JobSpec) -> Iterator[str]:
    hosts = ",".join(f"{host.name}:{host.slots or job.ranks_per_node}" for host in job.hosts)
    if hosts or job.nodes == 1:
        yield from ("--host", hosts or f"localhost:{job.ranks}")
    yield from ("--map-by", f"ppr:{job.ranks_per_node}:node")


def _binding(job: JobSpec) -> tuple[str, str]:
    # With processors of our own choice, or none, Open MPI must not choose: by default it gives two ranks a core each.
    return ("--bind-to", "core" if job.bind is Bind.CORES and not job.cpu_sets else "none")
