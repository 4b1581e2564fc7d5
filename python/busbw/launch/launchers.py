"""The list of launchers; adding one is its module with `plan(job) -> LaunchPlan` and one line here."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from busbw.launch.job import JobSpec
from busbw.launch.plan import LaunchPlan

LAUNCHERS: dict[str, str] = {
    "local": "busbw.launch.local",
    "mpirun": "busbw.launch.mpirun",
    "hydra": "busbw.launch.hydra",
    "torchrun": "busbw.launch.torchrun",
    "slurm": "busbw.launch.slurm",
    "srun": "busbw.launch.srun",
    "sbatch": "busbw.launch.sbatch",
    "k8s": "busbw.launch.kubernetes",
}


class Planner(Protocol):
    """What a launcher's module offers."""

    def plan(self, job: JobSpec) -> LaunchPlan:
        """Decide what to start; starts nothing."""
        ...


def planner(name: str) -> Planner:
    """The launcher of that name."""
    return cast(Planner, import_module(LAUNCHERS[name]))
