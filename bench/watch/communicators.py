"""Communicators of ranks that share a folder, made by the NCCL API of a library."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path


class UniqueId(ctypes.Structure):
    """As ncclUniqueId."""

    _fields_ = [("internal", ctypes.c_char * 128)]


def communicator(nccl: ctypes.CDLL, ranks: int, me: int, file: Path) -> ctypes.c_void_p:
    """Of all ranks. Rank 0 writes the id into `file`."""
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    unique, comm = UniqueId(), ctypes.c_void_p()
    if me == 0:
        assert nccl.ncclGetUniqueId(ctypes.byref(unique)) == 0
        file.with_suffix(".part").write_bytes(bytes(unique))
        file.with_suffix(".part").rename(file)
    else:
        end = time.monotonic() + 60
        while not file.exists() and time.monotonic() < end:
            time.sleep(0.005)
        unique = UniqueId.from_buffer_copy(file.read_bytes())
    assert nccl.ncclCommInitRank(ctypes.byref(comm), ranks, unique, me) == 0
    return comm
