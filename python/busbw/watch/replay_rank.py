"""One rank of a replay, in a process of its own: the recorded calls over a library of the NCCL API.

Started by `busbw replay` as `python -m busbw.watch.replay_rank LIBRARY FOLDER PLAN RESULT`; PLAN is read and RESULT
written, each one JSON object. Where the plan names a GPU, buffers lie there and LIBRARY is the recorder, which takes
the times; else they lie in host memory, and calls are done when they return.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from busbw.watch.gpu_memory import Gpu, GpuError
from busbw.watch.replay_memory import Buffer, GpuMemory, HostMemory, Memory

WAIT_S = 60.0
SAMPLES = 4096
WIDTHS = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)
_FORMATS = {0: "<b", 1: "<B", 2: "<i", 3: "<I", 4: "<q", 5: "<Q", 6: "<e", 7: "<f", 8: "<d"}
_BFLOAT16 = 9
FUNCTIONS = {
    "all_reduce": "ncclAllReduce", "all_gather": "ncclAllGather", "reduce_scatter": "ncclReduceScatter",
    "broadcast": "ncclBroadcast", "reduce": "ncclReduce", "alltoall": "ncclAlltoAll", "gather": "ncclGather",
    "scatter": "ncclScatter", "send": "ncclSend", "recv": "ncclRecv",
}  # fmt: skip
MESSAGES = frozenset({"send", "recv"})
REDUCING = frozenset({"all_reduce", "reduce_scatter", "reduce"})
ROOTED = frozenset({"broadcast", "reduce", "gather", "scatter"})
MAX_CHECKED = 1 << 14
LATE_NS = 200_000
SOON_NS = 20_000_000
UNDER_WAY = 64
"""Calls and groups that a lane hands to a GPU before it waits: the recorder has events for 512 at once."""


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
    """The library and the communicators; each lane has buffers of its own."""

    gpu: Gpu | None = None

    def __init__(self, library: str, folder: Path, communicators: list[list[int]], gpu: Gpu | None = None) -> None:
        self.nccl = ctypes.CDLL(library)
        self.gpu = gpu
        self.nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
        self.communicators = communicators
        self.most = max((size for size, _ in communicators), default=1)
        self.comms: list[ctypes.c_void_p | None] = []
        for number, (size, rank) in enumerate(communicators):
            self.comms.append(self._made(folder / f"id{number}", size, rank) if size else None)

    def memory(self) -> Memory:
        """Of one lane."""
        return GpuMemory(self.gpu) if self.gpu else HostMemory()

    def close(self) -> None:
        """Give the communicators back, at which a recorder writes the last times."""
        for comm in filter(None, self.comms):
            must(self.nccl.ncclCommDestroy(comm), "ncclCommDestroy")

    def _made(self, file: Path, size: int, rank: int) -> ctypes.c_void_p:
        unique = UniqueId()
        if rank == 0:
            must(self.nccl.ncclGetUniqueId(ctypes.byref(unique)), "ncclGetUniqueId")
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
        must(self.nccl.ncclCommInitRank(ctypes.byref(comm), size, unique, rank), "ncclCommInitRank")
        return comm


def must(result: int, what: str) -> None:
    """End where the library refuses."""
    if result != 0:
        raise SystemExit(f"{what} returned {result}")


def bytes_of(step: list[Any], communicators: list[list[int]]) -> int:
    """Of the larger buffer of a call."""
    size = 1 if step[2] in MESSAGES else max(communicators[step[1]][0], 1)
    return int(step[3]) * WIDTHS[step[4]] * size


class Prepared(NamedTuple):
    """A call or a group, with what is handed to the library; `function` None where that is put together then."""

    at_ns: int
    pause_ns: int
    on_gpu: bool
    """The pause begins when the GPU has ended the call before."""
    part: list[list[Any]]
    function: Any
    words: list[Any]
    samples: list[int]


def key_of(step: list[Any]) -> str:
    """Of its times: communicator, kind, count and type."""
    return f"{step[1]} {step[2]} {step[3]} {step[4]}"


class Lane:
    """Calls that follow each other: the recorded ones of streams that share a communicator or a group."""

    def __init__(self, rank: Rank, steps: list[list[Any]]) -> None:
        self._rank = rank
        self._parts = parts_of(steps)
        largest = max((bytes_of(step, rank.communicators) for step in steps), default=1)
        self._memory = rank.memory()
        self.send: Buffer = self._memory.buffer(max(largest, 1))
        # Receives of a group lie one after the other.
        group = max(
            (sum(padded(bytes_of(step, rank.communicators)) for step in part) for part in self._parts), default=1
        )
        self.receive: Buffer = self._memory.buffer(max(group, 1))
        self._ones: int | None = None
        self._seen: set[tuple[tuple[Any, ...], ...]] = set()
        self.times: dict[str, list[int]] = {}
        self.groups: list[int] = []
        self.wrong = self.checks = 0
        self.failed: BaseException | None = None
        self._prepared = self._ready()

    def run(self, *, gaps: bool, start_ns: int, exact: bool = False) -> None:
        """Every call in its order; a failure is kept for the main thread."""
        try:
            self._memory.begin()
            ended_ns = 0
            for number, one in enumerate(self._prepared, 1):
                if gaps and one.on_gpu:
                    self._memory.wait()
                    ended_ns = time.monotonic_ns()
                # A rank that lost its processor for a while goes on at its pace, as the job did.
                moment_ns = start_ns + one.at_ns if one.pause_ns < 0 else ended_ns + one.pause_ns
                if gaps and moment_ns > time.monotonic_ns():
                    wait_until(moment_ns, exact=exact)
                if one.function is None:
                    self._slowly(one.part)
                else:
                    began = time.perf_counter_ns()
                    result = one.function(*one.words)
                    took = time.perf_counter_ns() - began
                    if result != 0:
                        must(result, FUNCTIONS[one.part[0][2]])
                    if len(one.samples) < SAMPLES:
                        one.samples.append(took)
                ended_ns = time.monotonic_ns()
                if number % UNDER_WAY == 0:
                    self._memory.wait()
            self._memory.wait()
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            self.failed = error

    def _ready(self) -> list[Prepared]:
        """Each part with what its call takes, so that little is left to do between two calls.

        Groups and the first call of each shape go without: they take longer.
        """
        known: dict[tuple[Any, ...], tuple[Any, list[Any], list[int]]] = {}
        made = []
        for part in self._parts:
            step = part[0]
            shape = (*step[1:7], step[11])
            function, words, samples = (None, [], []) if step[7] else known.get(shape, (None, [], []))
            made.append(Prepared(step[0], step[9], step[10], part, function, words, samples))
            if not step[7] and shape not in known:
                known[shape] = (*self._call(step), self.times.setdefault(key_of(step), []))
        return made

    def _slowly(self, part: list[list[Any]]) -> None:
        self._group(part) if part[0][7] else self._single(part[0])

    def _call(self, step: list[Any], at: int = 0) -> tuple[Any, list[Any]]:
        _, place, kind, count, type_, op, root = step[:7]
        many, comm, stream = ctypes.c_size_t(count), self._rank.comms[place], self._memory.stream
        receive = self.receive.at(at)
        send = receive if step[11] else self.send.at(0)
        function = getattr(self._rank.nccl, FUNCTIONS[kind])
        if kind in MESSAGES:
            return function, [send if kind == "send" else receive, many, type_, root, comm, stream]
        words: list[Any] = [send, receive, many, type_]
        if kind in REDUCING:
            words.append(op)
        if kind in ROOTED:
            words.append(root)
        return function, [*words, comm, stream]

    def _single(self, step: list[Any]) -> None:
        samples = self.times.setdefault(key_of(step), [])
        check = self._is_first([step])
        if check:
            self._prepare(step)
        function, words = self._call(step)
        began = time.perf_counter_ns()
        result = function(*words)
        took = time.perf_counter_ns() - began
        must(result, FUNCTIONS[step[2]])
        if check:
            self._look(step, 0)
        if len(samples) < SAMPLES:
            samples.append(took)

    def _group(self, part: list[list[Any]]) -> None:
        nccl = self._rank.nccl
        one_type = len({step[4] for step in part}) == 1
        check = one_type and self._is_first(part)
        if check:
            self._prepare(part[0])
        places = []
        at = 0
        for step in part:
            places.append(at)
            at += padded(bytes_of(step, self._rank.communicators))
        calls = [self._call(step, place) for step, place in zip(part, places, strict=True)]
        began = time.perf_counter_ns()
        must(nccl.ncclGroupStart(), "ncclGroupStart")
        for (function, words), step in zip(calls, part, strict=True):
            must(function(*words), FUNCTIONS[step[2]])
        must(nccl.ncclGroupEnd(), "ncclGroupEnd")
        if len(self.groups) < SAMPLES:
            self.groups.append(time.perf_counter_ns() - began)
        for step, place in zip(part, places, strict=True):
            if check:
                self._look(step, place)

    def _is_first(self, part: list[list[Any]]) -> bool:
        shape = tuple((*step[1:7], step[11]) for step in part)
        if shape in self._seen or len(self._seen) >= MAX_CHECKED or encoded(part[0][4], 1) is None:
            return False
        self._seen.add(shape)
        return True

    def _prepare(self, step: list[Any]) -> None:
        one = encoded(step[4], 1) or b"\0"
        if self._ones != step[4]:
            self.send.fill(one)
            self._ones = step[4]
        if step[11]:
            self.receive.fill(one)
        else:
            self.receive.clear()

    def _look(self, step: list[Any], at: int) -> None:
        """Three elements of what was received."""
        _, place, kind, count, type_, op, root = step[:7]
        size, rank = self._rank.communicators[place]
        if count == 0 or kind == "send" or (kind in {"reduce", "gather"} and rank != root):
            return
        one = encoded(type_, 1) or b"\0"
        received = count * (size if kind in {"all_gather", "alltoall", "gather"} else 1)
        sums = kind in REDUCING and op == 0
        value = size % (1 << (8 * len(one) - 1)) if sums and type_ < 6 else size if sums else 1
        wanted = encoded(type_, value)
        where = (at + each * len(one) for each in (0, received // 2, received - 1))
        found = [self.receive.read(each, len(one)) for each in where]
        self.checks += 1
        self.wrong += sum(each != wanted for each in found)


def wait_until(moment_ns: int, *, exact: bool) -> None:
    """Of the monotonic clock. A sleep ends some 50 us late: `exact` takes the processor for the last of it."""
    ahead = moment_ns - time.monotonic_ns()
    if ahead > LATE_NS * exact:
        time.sleep((ahead - LATE_NS * exact) / 1e9)
    while exact and time.monotonic_ns() < moment_ns:
        pass


def begun_together(folder: Path, number: int, ranks: int) -> int:
    """The moment at which all ranks of this host begin, once all are ready."""
    agreed = folder / "begin"
    (folder / f"ready{number}").touch()
    end = time.monotonic() + WAIT_S
    if number == 0:
        while not all((folder / f"ready{each}").exists() for each in range(ranks)):
            if time.monotonic() > end:
                raise SystemExit("not all ranks of the replay came")
            time.sleep(0.002)
        agreed.with_suffix(".part").write_text(str(time.monotonic_ns() + SOON_NS), encoding="ascii")
        agreed.with_suffix(".part").rename(agreed)
    while not agreed.exists():
        if time.monotonic() > end:
            raise SystemExit("the first rank of the replay did not come")
        time.sleep(0.002)
    return int(agreed.read_text(encoding="ascii"))


def padded(length: int) -> int:
    """So that every type is aligned."""
    return (length + 63) // 64 * 64


def parts_of(steps: list[list[Any]]) -> list[list[list[Any]]]:
    """Calls alone, and those of a group together."""
    parts: list[list[list[Any]]] = []
    for step in steps:
        if step[7] and parts and parts[-1][0][7] == step[7]:
            parts[-1].append(step)
        else:
            parts.append([step])
    return parts


def replayed(rank: Rank, steps: list[list[Any]], *, gaps: bool, meet: Callable[[], int]) -> dict[str, Any]:
    """Every lane in a thread of its own; times by communicator, kind, count and type."""
    by_lane: dict[int, list[list[Any]]] = {}
    for step in steps:
        by_lane.setdefault(step[8], []).append(step)
    lanes = [Lane(rank, each) for each in by_lane.values()]
    # Pauses of the collector of garbage would come between calls.
    gc.freeze()
    gc.disable()
    start = meet()
    # Of several threads one that takes the processor keeps the others from theirs.
    exact = len(lanes) == 1 and rank.most <= (os.cpu_count() or 1)
    words: dict[str, Any] = {"gaps": gaps, "start_ns": start, "exact": exact}
    wait_until(start, exact=exact)
    threads = [threading.Thread(target=lane.run, kwargs=words) for lane in lanes[1:]]
    for thread in threads:
        thread.start()
    for lane in lanes[:1]:
        lane.run(**words)
    for thread in threads:
        thread.join()
    took = time.monotonic_ns() - start
    for lane in lanes:
        if lane.failed:
            raise lane.failed
    times: dict[str, list[int]] = {}
    for lane in lanes:
        for key, each in lane.times.items():
            # The first call is checked, and waits for ranks that start later.
            times.setdefault(key, []).extend(each[1:] or each)
    return {"times": times, "groups": [ns for lane in lanes for ns in lane.groups], "lanes": len(lanes),
            "wrong": sum(lane.wrong for lane in lanes), "checks": sum(lane.checks for lane in lanes),
            "took_ns": took}  # fmt: skip


def main() -> int:
    """Words and files as above."""
    folder, plan = Path(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text())
    if os.environ.get("BUSBW_REPLAY_PIN") == "1":
        mine = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {mine[plan["number"] % len(mine)]})
    try:
        gpu = None if plan["gpu"] is None else Gpu(plan["gpu"])
        rank = Rank(sys.argv[1], folder, plan["communicators"], gpu)
        result = replayed(
            rank, plan["steps"], gaps=plan["gaps"], meet=lambda: begun_together(folder, plan["number"], plan["ranks"])
        )
    except GpuError as error:
        raise SystemExit(f"busbw replay: {error}") from error
    if gpu:
        rank.close()
    Path(sys.argv[4]).write_text(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
