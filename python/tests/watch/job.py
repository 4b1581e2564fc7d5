"""A job for tests: RANKS processes that all-reduce through whatever stands for NCCL at the path given, with one fault.

    job.py NCCL RANKS STEPS FAULT FOLDER

The first process starts the others. NCCL works in host memory. A fault happens in rank 2 at two thirds of the steps.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

FLOAT32, INT32, SUM, MAX = 7, 2, 0, 2
FAULTY = 2


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def shared_id(nccl: ctypes.CDLL, file: Path, first: bool) -> UniqueId:
    made = UniqueId()
    if first:
        assert nccl.ncclGetUniqueId(ctypes.byref(made)) == 0
        part = file.with_suffix(".part")
        part.write_bytes(bytes(made))
        part.rename(file)
        return made
    for _ in range(1000):
        if file.exists():
            return UniqueId.from_buffer_copy(file.read_bytes())
        time.sleep(0.01)
    raise SystemExit("no unique id")


def rank(nccl_path: str, ranks: int, steps: int, fault: str, folder: Path) -> None:
    me = int(os.environ["RANK"])
    nccl = ctypes.CDLL(nccl_path)
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    comms = []
    for name in ("first", "second"):
        comm = ctypes.c_void_p()
        unique = shared_id(nccl, folder / name, me == 0)
        assert nccl.ncclCommInitRank(ctypes.byref(comm), ranks, unique, me) == 0
        comms.append(comm)
    values = (ctypes.c_float * 64)(*([1.0] * 64))
    count = ctypes.c_size_t

    def all_reduce(comm: ctypes.c_void_p, elements: int = 64, kind: int = FLOAT32, op: int = SUM) -> None:
        assert nccl.ncclAllReduce(values, values, count(elements), kind, op, comm, None) == 0

    def broadcast() -> None:
        nccl.ncclBroadcast(values, values, count(64), FLOAT32, 0, comms[0], None)

    faults = {
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
        "exit": lambda: sys.exit(3),
        "sleep": lambda: time.sleep(600),
        "count": lambda: all_reduce(comms[0], 32),
        "type": lambda: all_reduce(comms[0], 64, INT32),
        "operator": lambda: all_reduce(comms[0], 64, FLOAT32, MAX),
        "collective": broadcast,
        "pause": lambda: time.sleep(1.0),
    }
    orders = {"order": comms[::-1], "skip": comms[1:]}
    for step in range(steps):
        faulty = me == FAULTY and step == steps * 2 // 3
        if faulty and fault in faults:
            faults[fault]()
        for comm in orders.get(fault, comms) if faulty else comms:
            all_reduce(comm)
    for comm in comms:
        nccl.ncclCommDestroy(comm)


def main() -> int:
    path, ranks, steps, fault, folder = sys.argv[1:6]
    if "RANK" in os.environ:
        rank(path, int(ranks), int(steps), fault, Path(folder))
        return 0
    processes = [
        subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "RANK": str(i)}) for i in range(int(ranks))
    ]
    return max(abs(process.wait()) for process in processes)


if __name__ == "__main__":
    sys.exit(main())
