"""Which rank this process is, from whatever launcher started it, and where its ranks meet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from busbw.base.errors import UserError

FOLDER = "BUSBW_RUN_FOLDER"
"""Folder of the run, which all ranks share: busbw sets it, and the ranks meet through a file in it."""

# launcher, rank, size, local rank: the one that started this very process counts, not one around it.
LAUNCHERS = (
    ("busbw", "BUSBW_RANK", "BUSBW_WORLD_SIZE", "BUSBW_LOCAL_RANK"),
    ("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
)


@dataclass(frozen=True)
class Place:
    """One rank among its like. `store` is a URL as torch.distributed has them."""

    launcher: str
    rank: int
    size: int
    local_rank: int
    store: str


def find_place(environ: Mapping[str, str]) -> Place | None:
    """The place that a launcher gave us, None without a launcher."""
    for launcher, rank, size, local in LAUNCHERS:
        if rank in environ and size in environ:
            numbers = [_number(environ, name) for name in (rank, size, local) if name in environ]
            if not numbers[0] < numbers[1]:
                raise UserError(f"{rank} is {numbers[0]} but {size} is {numbers[1]}: ranks count from 0 below the size")
            return Place(launcher, numbers[0], numbers[1], (*numbers, 0)[2], _store(environ))
    return None


def _store(environ: Mapping[str, str]) -> str:
    if "MASTER_ADDR" in environ and "MASTER_PORT" in environ:
        return "env://"
    if environ.get(FOLDER):
        return (Path(environ[FOLDER]) / "torch.store").absolute().as_uri()
    raise UserError(
        "the ranks do not know where to meet; start them with `busbw torch-bench --launcher NAME` or torchrun, or set "
        "MASTER_ADDR and MASTER_PORT"
    )


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ[name]
    if not text.isdecimal() or len(text) > 6:
        raise UserError(f"{name} is '{text}', which is no rank or size; correct the launcher's environment")
    return int(text)
