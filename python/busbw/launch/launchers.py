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
KUBERNETES = "k8s"
PROGRAMS: dict[str, str] = {
    "mpirun": "mpirun",
    "hydra": "mpiexec.hydra",
    "torchrun": "torchrun",
    "slurm": "srun",
    "srun": "srun",
    "sbatch": "sbatch",
    "k8s": "kubectl",
}
"""What each starts unless --launcher-program names another; `local` needs none, `slurm` may take sbatch."""


def in_pods(launcher: str | None) -> bool:
    """Whether the ranks run in pods: they write no file of ours, and their image brings the engine."""
    return launcher == KUBERNETES


class Planner(Protocol):
    """What a launcher's module offers."""

    def plan(self, job: JobSpec) -> LaunchPlan:
        """Decide what to start; starts nothing."""
        ...


def planner(name: str) -> Planner:
    """The launcher of that name."""
    return cast(Planner, import_module(LAUNCHERS[name]))
