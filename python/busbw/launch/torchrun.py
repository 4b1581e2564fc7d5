"""Plans ranks under torchrun: one for this host, or this host's part of several hosts."""

from __future__ import annotations

from busbw.launch.binding import bound
from busbw.launch.job import JobSpec
from busbw.launch.launchers import PROGRAMS
from busbw.launch.plan import LaunchPlan, ProcessPlan

LOG_FOLDER = "PET_LOG_DIR"
"""torchrun makes a folder at each start, keeps the fates of its ranks there and removes none. --log-dir goes before."""


def plan(job: JobSpec) -> LaunchPlan:
    """One torchrun; on several hosts each of them runs the same command, and --node-rank may number them."""
    argv = (
        job.launcher_program or PROGRAMS["torchrun"],
        *_meeting(job),
        f"--nproc-per-node={job.ranks_per_node}",
        *job.launcher_arguments,
        "--no-python",
        *bound(job.argv, job.cpu_sets),
    )
    # torchrun sets OMP_NUM_THREADS with a warning of four lines where nobody has.
    environment = {"OMP_NUM_THREADS": "1", **job.environment}
    # Alone it may be killed. Where others have agents of their own, these wait for a word from each.
    only = ProcessPlan("torchrun", argv, environment, loud=job.nodes == 1)
    return LaunchPlan(processes=(only,), grace=8.0, scratch=LOG_FOLDER)


def _meeting(job: JobSpec) -> tuple[str, ...]:
    if job.nodes == 1:
        return ("--standalone",)
    endpoint = job.torchrun.endpoint or ""
    if job.torchrun.node_rank is None:
        return (f"--nnodes={job.nodes}", "--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}", f"--rdzv-id={job.name}")
    host, _, port = endpoint.rpartition(":")
    return (
        f"--nnodes={job.nodes}",
        f"--node-rank={job.torchrun.node_rank}",
        f"--master-addr={host}",
        f"--master-port={port}",
    )
