"""Jobs for the tests of planning: one plain, one with everything that must not reach a shell unquoted."""

from __future__ import annotations

from pathlib import Path

from busbw.launch.job import Bind, Host, JobSpec, KubernetesOptions, SlurmOptions, TorchrunOptions

NASTY = 'it\'s "quoted"; $(touch /tmp/no) `id`\n#SBATCH --account=theirs'

JOB = JobSpec(
    ranks=16,
    engine=Path("/opt/bus bw/engine"),
    arguments=("all_reduce", "-b", "8", "-e", "8G", "-f", "2", "--record", "/runs/one run/record.jsonl"),
    environment={"BUSBW_RUN_ID": "one", "NCCL_NOTE": NASTY},
    bind=Bind.GPU,
    nodes=2,
    gpus_per_node=8,
    cpu_sets=tuple(frozenset(range(12 * rank, 12 * rank + 12)) for rank in range(8)),
    hosts=(Host("a", 8), Host("b", 8)),
    forward=("LD_LIBRARY_PATH", "NCCL_DEBUG"),
    time_limit=1230.0,
    folder=Path("/runs/one run"),
    name="busbw",
    slurm=SlurmOptions(
        partition="ndv4",
        nodelist="ndv4-pg0-[1-2]",
        account="me",
        exclusive=True,
        mpi="pmix",
        container_image="nvcr.io#nvidia/pytorch:24.05-py3",
        container_mounts="/shared:/shared",
    ),
    torchrun=TorchrunOptions("a:29500"),
    kubernetes=KubernetesOptions(image="registry/busbw:1", namespace="bench"),
)
PLAIN = JobSpec(2, Path("/opt/engine"), ("all_reduce", "-b", "8"), folder=Path("/runs/one"))
