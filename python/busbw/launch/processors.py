"""How many processors a node has, and whether the masks made of them can be right: disjoint, and near their GPUs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence

from busbw.base.errors import UsageError
from busbw.base.programs import ask
from busbw.launch.affinity import Near
from busbw.machine.topology.cpulist import write_list

SLURM = frozenset({"slurm", "srun", "sbatch"})
HERE = frozenset({"local", "torchrun"})
_ASK_SECONDS = 10.0

Ask = Callable[[Sequence[str]], str]


def _ask(argv: Sequence[str]) -> str:
    return ask(argv, _ASK_SECONDS).stdout


def processors_of_node(
    launcher: str,
    near: Sequence[Near],
    place: Mapping[str, str | None],
    environ: Mapping[str, str] = os.environ,
    question: Ask = _ask,
) -> int:
    """How many processors a node of the job has; UsageError where nobody says it and the topology leaves it open.

    `place` is what the user says of nodes: partition and nodelist.
    """
    named = 1 + max((cpu for each in near for cpu in each.cpus), default=-1)
    if launcher in HERE:
        return max(named, os.cpu_count() or 1)
    told = _of_slurm(place, environ, question) if launcher in SLURM else []
    if len(told) > 1 and not _is_whole(near):
        raise UsageError(
            f"the nodes that Slurm may give have {' or '.join(map(str, told))} processors, and one set of masks cannot "
            "fit them all. Name nodes of one kind with --nodelist or --partition, or say --cpus-per-node N"
        )
    if told:
        return max(told[0], named)
    if not _is_whole(near):
        raise UsageError(
            "how many processors has a node? The topology names memory nodes and not all of their processors; "
            "say --cpus-per-node N"
        )
    return named


def _is_whole(near: Sequence[Near]) -> bool:
    """Whether the topology names processors of its own for every GPU, in numbers that its memory nodes allow."""
    if not all(each.cpus for each in near):
        return False
    fewest = min(len(each.cpus) for each in near)
    return fewest > max((len(each.numa) for each in near), default=0)


def _of_slurm(place: Mapping[str, str | None], environ: Mapping[str, str], question: Ask) -> list[int]:
    """The numbers of processors that nodes have which Slurm may give, the fewest first, as its own commands say."""
    inside = environ.get("SLURM_JOB_CPUS_PER_NODE", "") if environ.get("SLURM_JOB_ID") else ""
    counts = [int(found) for found in re.findall(r"(?:^|,)(\d{1,6})", inside)]
    nodes = environ.get("SLURM_JOB_NODELIST") if environ.get("SLURM_JOB_ID") else place.get("nodelist")
    words = ["sinfo", "--noheader", "--format=%c"]
    words += [f"--nodes={nodes}"] if nodes else []
    words += [f"--partition={place['partition']}"] if place.get("partition") and not nodes else []
    # All processors of a node number its masks, also where the job has a part of them.
    total = [int(each) for each in re.findall(r"^[ \t]*(\d{1,6})\+?[ \t]*$", question(words), re.MULTILINE)]
    return sorted(set(total or counts))


def check_sets(sets: Sequence[frozenset[int]], near: Sequence[Near]) -> None:
    """UsageError where ranks would share processors or have none, or run where none of their GPU's processors are."""
    seen: dict[int, int] = {}
    for rank, cpus in enumerate(sets):
        if not cpus:
            raise UsageError(f"the topology leaves no processor to local rank {rank}; say --cpus-per-node N")
        for cpu in cpus:
            if cpu in seen:
                shared = write_list(cpus & sets[seen[cpu]])
                raise UsageError(
                    f"local ranks {seen[cpu]} and {rank} would share processors {shared}: the topology names too few "
                    "of a node's processors; say --cpus-per-node N, or --bind none"
                )
            seen[cpu] = rank
        own = near[rank % len(near)]
        if len(own.cpus) > len(own.numa) and not cpus & own.cpus:
            raise UsageError(
                f"local rank {rank} would run on processors {write_list(cpus)}, none of them next to its GPU"
            )
