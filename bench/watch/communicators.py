"""Communicators of ranks that share a folder, made by the NCCL API of a library."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path


class UniqueId(ctypes.Structure):
    """As ncclUniqueId."""

    _fields_ = [("internal", ctypes.c_char * 128)]


def shared_id(nccl: ctypes.CDLL, file: Path, first: bool) -> UniqueId:
    """The first rank makes it and writes it into `file`; the others wait a minute for it."""
    unique, part = UniqueId(), file.with_suffix(".part")
    if first:
        assert nccl.ncclGetUniqueId(ctypes.byref(unique)) == 0
        part.write_bytes(bytes(unique))
        part.rename(file)
        return unique
    for _ in range(6000):
        if file.exists():
            return UniqueId.from_buffer_copy(file.read_bytes())
        time.sleep(0.01)
    raise SystemExit("no unique id")


def join(nccl: ctypes.CDLL, ranks: int, me: int, unique: UniqueId) -> tuple[int, ctypes.c_void_p]:
    """What ncclCommInitRank ends with, and the communicator it made."""
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    comm = ctypes.c_void_p()
    return int(nccl.ncclCommInitRank(ctypes.byref(comm), ranks, unique, me)), comm


def communicator(nccl: ctypes.CDLL, ranks: int, me: int, file: Path) -> ctypes.c_void_p:
    """Of all ranks. Rank 0 writes the id into `file`."""
    code, comm = join(nccl, ranks, me, shared_id(nccl, file, me == 0))
    assert code == 0
    return comm
