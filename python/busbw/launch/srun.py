"""Plans ranks as one step of srun, inside an allocation or in a batch script."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.launch.binding import mask
from busbw.launch.job import Bind, JobSpec
from busbw.launch.launchers import PROGRAMS
from busbw.launch.plan import LaunchPlan, ProcessPlan


def plan(job: JobSpec) -> LaunchPlan:
    """One srun, to be started inside an allocation (or to wait for one of its own)."""
    program = job.launcher_program or PROGRAMS["srun"]
    argv = (program, *step_words(job), *placement_words(job), *job.launcher_arguments, *job.argv)
    return LaunchPlan(processes=(ProcessPlan("srun", argv, dict(job.environment)),), secret=True, grace=8.0)


def step_words(job: JobSpec) -> Iterator[str]:
    """What a step needs to be told in a batch script too."""
    yield f"--nodes={job.nodes}"
    yield f"--ntasks={job.ranks}"
    yield f"--ntasks-per-node={job.ranks_per_node}"
    if job.gpus_per_node:
        yield f"--gpus-per-node={job.gpus_per_node}"
    yield from processor_words(job)
    yield f"--mpi={job.slurm.mpi or 'none'}"
    if job.cpu_sets:
        yield "--cpu-bind=mask_cpu:" + ",".join(mask(cpus) for cpus in job.cpu_sets)
    elif job.bind is Bind.CORES:
        yield "--cpu-bind=cores"
    else:
        yield "--cpu-bind=none"
    yield "--export=ALL"  # a site or a script may have made NONE the default, and the ranks need their secret
    yield "--kill-on-bad-exit=1"  # who is lost must not leave the others waiting for Slurm's own patience
    yield "--quit-on-interrupt"  # one Ctrl-C is enough
    yield "--unbuffered"
    if job.slurm.container_image:
        yield f"--container-image={job.slurm.container_image}"
    if job.slurm.container_mounts:
        yield f"--container-mounts={job.slurm.container_mounts}"


def processor_words(job: JobSpec) -> Iterator[str]:
    """Masks need their processors to be the job's: Slurm refuses a mask outside of what it has given."""
    if job.cpu_sets:
        yield f"--cpus-per-task={max(len(cpus) for cpus in job.cpu_sets)}"


def placement_words(job: JobSpec) -> Iterator[str]:
    """Where and how long, for the allocation that a step or a batch job asks for."""
    yield f"--job-name={job.name}"
    for name, value in (
        ("partition", job.slurm.partition),
        ("nodelist", job.slurm.nodelist),
        ("account", job.slurm.account),
    ):
        if value:
            yield f"--{name}={value}"
    if job.slurm.exclusive:
        yield "--exclusive"
    if job.time_limit is not None:
        yield f"--time={clock(job.time_limit)}"


def clock(seconds: float) -> str:
    """A time limit as Slurm writes it, rounded up to its own unit, the minute."""
    minutes = max(1, -(-int(-(-seconds // 1)) // 60))
    return f"{minutes // 60:02d}:{minutes % 60:02d}:00"
