"""One rank of a replay, in a process of its own: the recorded calls over a library of the NCCL API in host memory.

Started by `busbw replay` as `python -m busbw.watch.replay_rank LIBRARY FOLDER PLAN RESULT`; PLAN is read and RESULT
written, each one JSON object.
"""

from __future__ import annotations

import ctypes
import json
import struct
import sys
import time
from pathlib import Path
from typing import Any

WAIT_S = 60.0
SAMPLES = 4096
WIDTHS = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)
_FORMATS = {0: "<b", 1: "<B", 2: "<i", 3: "<I", 4: "<q", 5: "<Q", 6: "<e", 7: "<f", 8: "<d"}
_BFLOAT16 = 9
FUNCTIONS = {
    "all_reduce": "ncclAllReduce", "all_gather": "ncclAllGather", "reduce_scatter": "ncclReduceScatter",
    "broadcast": "ncclBroadcast", "reduce": "ncclReduce", "alltoall": "ncclAlltoAll", "gather": "ncclGather",
    "scatter": "ncclScatter",
}  # fmt: skip


class UniqueId(ctypes.Structure):
    """As ncclUniqueId."""

    _fields_ = [("internal", ctypes.c_char * 128)]


def encoded(type_: int, value: int) -> bytes | None:
    """A number as an element; None for the 8-bit floats, which are not checked."""
    if type_ == _BFLOAT16:
        return struct.pack("<f", float(value))[2:]
    if type_ not in _FORMATS:
        return None
    return struct.pack(_FORMATS[type_], value)


class Rank:
    """The library, the communicators and two buffers."""

    def __init__(self, library: str, folder: Path, communicators: list[list[int]], largest: int) -> None:
        self._nccl = ctypes.CDLL(library)
        self._nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
        self.communicators = communicators
        self._comms: list[ctypes.c_void_p | None] = []
        for number, (size, rank) in enumerate(communicators):
            self._comms.append(self._made(folder / f"id{number}", size, rank) if size else None)
        self.send = ctypes.create_string_buffer(max(largest, 1))
        self.receive = ctypes.create_string_buffer(max(largest, 1))
        self._ones: int | None = None

    def _made(self, file: Path, size: int, rank: int) -> ctypes.c_void_p:
        unique = UniqueId()
        if rank == 0:
            self.must(self._nccl.ncclGetUniqueId(ctypes.byref(unique)), "ncclGetUniqueId")
            file.with_suffix(".part").write_bytes(bytes(unique))
            file.with_suffix(".part").rename(file)
        else:
            end = time.monotonic() + WAIT_S
            while not file.exists():
                if time.monotonic() > end:
                    raise SystemExit("the first rank of a communicator did not come")
                time.sleep(0.002)
            unique = UniqueId.from_buffer_copy(file.read_bytes())
        comm = ctypes.c_void_p()
        self.must(self._nccl.ncclCommInitRank(ctypes.byref(comm), size, unique, rank), "ncclCommInitRank")
        return comm

    @staticmethod
    def must(result: int, what: str) -> None:
        """End where the library refuses."""
        if result != 0:
            raise SystemExit(f"{what} returned {result}")

    def group(self, *, start: bool) -> None:
        """Begin or end a group."""
        self.must(self._nccl.ncclGroupStart() if start else self._nccl.ncclGroupEnd(), "a group")

    def call(self, step: list[Any]) -> int:
        """One call; how long it took in ns."""
        _, place, kind, count, type_, op, root, _ = step
        function = getattr(self._nccl, FUNCTIONS[kind])
        comm, many = self._comms[place], ctypes.c_size_t(count)
        words: list[Any] = [self.send, self.receive, many, type_]
        if kind in ("all_reduce", "reduce_scatter", "reduce"):
            words.append(op)
        if kind in ("broadcast", "reduce", "gather", "scatter"):
            words.append(root)
        began = time.perf_counter_ns()
        result = function(*words, comm, None)
        took = time.perf_counter_ns() - began
        self.must(result, FUNCTIONS[kind])
        return took

    def checked(self, step: list[Any]) -> tuple[int, int]:
        """One call whose result is looked at: how long it took, and how many of three elements are wrong."""
        _, place, kind, count, type_, op, root, _ = step
        size, rank = self.communicators[place]
        one = encoded(type_, 1)
        if one is None or count == 0:
            return self.call(step), 0
        if self._ones != type_:
            elements = len(self.send) // len(one)
            ctypes.memmove(self.send, one * elements, elements * len(one))
            self._ones = type_
        ctypes.memset(self.receive, 0, len(self.receive))
        took = self.call(step)
        if kind in ("reduce", "gather") and rank != root:
            return took, 0
        received = count * (size if kind in ("all_gather", "alltoall", "gather") else 1)
        sums = kind in ("all_reduce", "reduce_scatter", "reduce") and op == 0
        bits = 8 * len(one)
        value = size % (1 << (bits - 1)) if sums and type_ < 6 else size if sums else 1
        wanted = encoded(type_, value)
        start = ctypes.addressof(self.receive)
        found = [ctypes.string_at(start + at * len(one), len(one)) for at in (0, received // 2, received - 1)]
        return took, sum(each != wanted for each in found)


def largest(plan: dict[str, Any]) -> int:
    """Bytes of the larger buffer of any call."""
    sizes = [size for size, _ in plan["communicators"]]
    return max((step[3] * WIDTHS[step[4]] * max(sizes[step[1]], 1) for step in plan["steps"]), default=1)


def replayed(rank: Rank, steps: list[list[Any]], *, gaps: bool) -> dict[str, Any]:
    """Every call in its order; times by communicator, kind, count and type."""
    times: dict[str, list[int]] = {}
    wrong = checks = 0
    group = 0
    start = time.perf_counter_ns()
    for step in steps:
        if step[7] != group:
            if group:
                rank.group(start=False)
            if step[7]:
                rank.group(start=True)
            group = step[7]
        if gaps and (ahead := step[0] - (time.perf_counter_ns() - start)) > 0:
            time.sleep(ahead / 1e9)
        key = f"{step[1]} {step[2]} {step[3]} {step[4]}"
        samples = times.setdefault(key, [])
        if group:
            rank.call(step)
        elif not samples:
            took, bad = rank.checked(step)
            wrong, checks = wrong + bad, checks + 1
            samples.append(took)
        else:
            took = rank.call(step)
            if len(samples) < SAMPLES:
                samples.append(took)
    if group:
        rank.group(start=False)
    # The first call is the one that was checked, and it waits for ranks that start later.
    return {"times": {key: each[1:] or each for key, each in times.items()}, "wrong": wrong, "checks": checks,
            "took_ns": time.perf_counter_ns() - start}  # fmt: skip


def main() -> int:
    """Words and files as above."""
    plan = json.loads(Path(sys.argv[3]).read_text())
    rank = Rank(sys.argv[1], Path(sys.argv[2]), plan["communicators"], largest(plan))
    Path(sys.argv[4]).write_text(json.dumps(replayed(rank, plan["steps"], gaps=plan["gaps"])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
