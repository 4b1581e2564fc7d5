"""Calls every function of the NCCL API that a recording keeps, once each, in a job of two processes in host memory.

every_call_job.py NCCL RANK FOLDER
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import byref, c_int, c_size_t, c_void_p
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench" / "watch"))

from communicators import UniqueId, communicator, join, shared_id
from every_call import FLOAT32, ROWS, SUM

RANKS = 2


class Job:
    """One rank, its library and its buffers."""

    def __init__(self, path: str, me: int, folder: Path) -> None:
        self.nccl, self.me, self.folder = ctypes.CDLL(path), me, folder
        self.send, self.recv = (ctypes.c_char * 65536)(), (ctypes.c_char * 65536)()

    def must(self, name: str, *words: Any) -> None:
        if code := getattr(self.nccl, name)(*words):
            raise SystemExit(f"{name}: {code}")

    def calls(self, when: str, comm: c_void_p, **more: Any) -> None:
        """The rows of this part, in their order."""
        here = {"send": self.send, "recv": self.recv, "other": 1 - self.me, "comm": comm, **more}
        for row in ROWS:
            if row.when != when:
                continue
            words = [here[word] if isinstance(word, str) else word for word in row.words]
            code = getattr(self.nccl, row.function)(*words)
            if bool(code) != (when == "refused"):
                raise SystemExit(f"{row.function}: {code}")

    def own_operator(self, comm: c_void_p) -> None:
        made, factor = c_int(), ctypes.c_float(0.5)
        self.must("ncclRedOpCreatePreMulSum", byref(made), byref(factor), FLOAT32, 1, comm)
        self.calls("with an operator of its own", comm, operator=made)
        self.must("ncclRedOpDestroy", made, comm)

    def groups(self, comm: c_void_p) -> None:
        """A pair in a group, one in a group within it, and a call that a simulated end never makes."""
        self.must("ncclGroupStart")
        self.calls("in a group", comm)
        self.must("ncclGroupStart")
        self.calls("in one within it", comm)
        self.must("ncclGroupEnd")
        self.must("ncclGroupEnd")
        self.must("ncclGroupStart")
        self.calls("simulated", comm)
        self.must("ncclGroupSimulateEnd", None)

    def memory(self, comm: c_void_p) -> None:
        """Nothing of it is a call."""
        memory, window, handle = c_void_p(), c_void_p(), c_void_p()
        self.must("ncclMemAlloc", byref(memory), c_size_t(4096))
        self.must("ncclCommWindowRegister", comm, memory, c_size_t(4096), byref(window), 0)
        self.must("ncclCommRegister", comm, memory, c_size_t(4096), byref(handle))
        self.calls("in registered memory", comm, memory=memory)
        self.must("ncclCommDeregister", comm, handle)
        self.must("ncclCommWindowDeregister", comm, window)
        self.must("ncclMemFree", memory)

    def one(self, comm: c_void_p, count: int) -> None:
        """Tells the communicator in the recording."""
        self.must("ncclAllReduce", self.send, self.recv, c_size_t(count), FLOAT32, SUM, comm, None)

    def communicators(self, first: c_void_p) -> None:
        """A further one by each function that makes one, and each way of its end."""
        ids = (UniqueId * 1)(shared_id(self.nccl, self.folder / "scalable", self.me == 0))
        scalable, split, configured, alone, shrunk, grown = (c_void_p() for _ in range(6))
        self.must("ncclCommInitRankScalable", byref(scalable), RANKS, self.me, 1, ids, None)
        self.one(scalable, 71)
        self.must("ncclCommFinalize", scalable)
        self.must("ncclCommDestroy", scalable)
        self.must("ncclCommSplit", first, 5, self.me, byref(split), None)
        self.one(split, 72)
        self.must("ncclCommAbort", split)
        apart = c_void_p()
        self.must("ncclCommSplit", first, -1 if self.me else 6, self.me, byref(apart), None)
        if self.me == 0:
            self.one(apart, 77)
        self.nccl.ncclCommInitRankConfig.argtypes = [c_void_p, c_int, UniqueId, c_int, c_void_p]
        unique = shared_id(self.nccl, self.folder / "configured", self.me == 0)
        self.must("ncclCommInitRankConfig", byref(configured), RANKS, unique, self.me, None)
        self.one(configured, 73)
        self.must("ncclCommRevoke", configured, 0)
        self.must("ncclCommInitAll", byref(alone), 1, None)
        self.one(alone, 74)
        if self.me == 0:
            self.must("ncclCommShrink", first, (c_int * 1)(1), 1, byref(shrunk), None, 0)
            self.one(shrunk, 75)
            new = UniqueId()
            self.must("ncclCommGetUniqueId", shrunk, byref(new))
            part = self.folder / "grown.part"
            part.write_bytes(bytes(new))
            part.rename(self.folder / "grown")
            self.must("ncclCommGrow", shrunk, RANKS, byref(new), -1, byref(grown), None)
        else:
            new = shared_id(self.nccl, self.folder / "grown", False)
            self.must("ncclCommGrow", None, RANKS, byref(new), 1, byref(grown), None)
        self.one(grown, 76)

    def run(self) -> None:
        first = communicator(self.nccl, RANKS, self.me, self.folder / "first")
        self.calls("plain", first)
        self.own_operator(first)
        self.groups(first)
        self.memory(first)
        self.communicators(first)
        self.calls("refused", first)
        code, _ = join(self.nccl, RANKS, 99, UniqueId())
        assert code != 0


if __name__ == "__main__":
    Job(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])).run()
