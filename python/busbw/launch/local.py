"""Plans ranks as processes of this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from busbw.launch.job import Bind, JobSpec
from busbw.launch.plan import LaunchPlan, ProcessPlan


def plan(job: JobSpec, cpus: Sequence[int] | None = None) -> LaunchPlan:
    """One process per rank; `cpus` are the processors to share out, neighbours first."""
    available = usable_cpus() if cpus is None and job.bind is Bind.CORES else list(cpus or ())
    return LaunchPlan(
        processes=tuple(
            ProcessPlan(
                name=f"rank {rank}",
                argv=(str(job.engine), *job.arguments),
                environment={
                    **job.environment,
                    "BUSBW_RANK": str(rank),
                    "BUSBW_WORLD_SIZE": str(job.ranks),
                    "BUSBW_LOCAL_RANK": str(rank),
                    "BUSBW_LOCAL_SIZE": str(job.ranks),
                },
                cpus=_cpus(job, available, rank),
                listens=rank == 0,
            )
            for rank in range(job.ranks)
        ),
        meets=True,
    )


def _cpus(job: JobSpec, available: Sequence[int], rank: int) -> frozenset[int]:
    if job.cpu_sets:
        return job.cpu_sets[rank % len(job.cpu_sets)]
    return share(available, rank, job.ranks) if job.bind is Bind.CORES else frozenset()


def share(cpus: Sequence[int], rank: int, ranks: int) -> frozenset[int]:
    """The processors of one rank: an equal, contiguous part, or nothing where there are more ranks than processors."""
    if ranks > len(cpus):
        return frozenset()
    return frozenset(cpus[rank * len(cpus) // ranks : (rank + 1) * len(cpus) // ranks])


def usable_cpus(topology: Path = Path("/sys/devices/system/cpu")) -> list[int]:
    """The processors this process may use, siblings of one core beside each other, cores of one package together."""

    def position(cpu: int) -> tuple[int, int, int]:
        folder = topology / f"cpu{cpu}" / "topology"
        return (_number(folder / "physical_package_id"), _number(folder / "core_id"), cpu)

    return sorted(os.sched_getaffinity(0), key=position)


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0  # containers often hide the topology; plain order is what is left
