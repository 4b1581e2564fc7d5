"""Plans ranks under Slurm: a step where we are inside an allocation, else a batch job."""

from __future__ import annotations

import os
from collections.abc import Mapping

from busbw.launch import sbatch, srun
from busbw.launch.job import JobSpec
from busbw.launch.plan import LaunchPlan


def plan(job: JobSpec, environ: Mapping[str, str] = os.environ) -> LaunchPlan:
    """`srun` or `sbatch`, as SLURM_JOB_ID says."""
    return srun.plan(job) if environ.get("SLURM_JOB_ID") else sbatch.plan(job)
