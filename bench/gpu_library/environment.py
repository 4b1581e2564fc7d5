"""The environment of every program that is started here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

# NVLink multicast stays off everywhere: on a host whose NVSwitch is shared, it can put GPUs out of service for others.
MULTICAST_OFF = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
    "MSCCLPP_FORCE_DISABLE_NVLS": "1",
}

# Settings that a caller's shell may hold and that would decide what is to be measured.
_DECIDING = ("BUSBW_ALGORITHM", "BUSBW_TABLE", "BUSBW_PREFER", "BUSBW_REAL_NCCL", "LD_PRELOAD",
             "NCCL_GRAPH_MIXING_SUPPORT", "NCCL_ALGO", "NCCL_PROTO", "BUSBW_TURNS", "BUSBW_RANK",
             "BUSBW_WORLD_SIZE")  # fmt: skip


def environment(base: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """What a program gets: the caller's variables but for those that decide, the changes, and multicast off."""
    kept = {name: value for name, value in base.items() if name not in _DECIDING}
    # Open MPI starts nothing as root without these two, and a rented machine has nobody else.
    mpi = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {**kept, **mpi, **changes, **MULTICAST_OFF}


def preloaded(ours: Path, nccl: Path, base: Mapping[str, str]) -> dict[str, str]:
    """Changes that put our library in front of NCCL under a program that knows nothing of it."""
    return {
        "LD_PRELOAD": str(ours),
        "BUSBW_REAL_NCCL": str(nccl),
        "LD_LIBRARY_PATH": _first(nccl.parent, base),
    }


def plain(nccl: Path, base: Mapping[str, str]) -> dict[str, str]:
    """The same program with NCCL alone."""
    return {"LD_LIBRARY_PATH": _first(nccl.parent, base)}


def _first(folder: Path, base: Mapping[str, str]) -> str:
    return ":".join(each for each in (str(folder), base.get("LD_LIBRARY_PATH", "")) if each)
