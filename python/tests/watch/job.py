"""A job for tests: RANKS processes that all-reduce through whatever stands for NCCL at the path given, with one fault.

    job.py NCCL RANKS STEPS FAULT FOLDER [FIRST END]

The first process forks the ranks; with FIRST and END only these, where other hosts have the rest. NCCL works in host
memory, or with GPUS=1 on a GPU for each rank, and then each call is waited for. A fault happens in rank 2 (FAULTY) at
two thirds of the steps, or at FAULT_AT. FAULT_AFTER_S lets another process stop, kill or debug that rank so long after
its first step, wherever it is then. COUNT is how many elements a call has. With HOSTS=1 each rank is a host for NCCL.
"""

from __future__ import annotations

import ctypes
import os
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench" / "watch"))

from communicators import communicator

FLOAT32, INT32, SUM, MAX = 7, 2, 0, 2
FAULTY = int(os.environ.get("FAULTY", "2"))
COUNT = int(os.environ.get("COUNT", "64"))
SPIN = b""".version 6.3
.target sm_75
.address_size 64
.visible .entry spin() { again: bra.uni again; }
"""
PTRACE_ATTACH = 16


def attach_debugger(pid: int) -> None:
    """As gdb does: the process stops until this one goes."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(PTRACE_ATTACH, pid, None, None) == 0:
        os.waitpid(pid, 0x40000000)  # __WALL
        while Path(f"/proc/{pid}").exists() and os.getppid() != 1:
            time.sleep(0.1)


def from_outside(fault: str, after_s: float, folder: Path) -> None:
    """A process of its own does it to this one."""
    me = os.getpid()
    if os.fork():
        return
    try:
        time.sleep(after_s)
        tell(folder)
        if fault == "debugger":
            attach_debugger(me)
        else:
            os.kill(me, signal.SIGKILL if fault == "kill" else signal.SIGSTOP)
    finally:
        os._exit(0)


def tell(folder: Path) -> None:
    """When the fault happens, for those who measure the delay."""
    (folder / "fault").write_text(str(time.monotonic()), encoding="ascii")


def run_out_of_memory() -> None:
    """As under a limit of the address space: the next large piece of memory is not to be had."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.RLIM_INFINITY))
    kept = [bytearray(1 << 20) for _ in range(1 << 20)]
    raise AssertionError(f"there was room for {len(kept)} MiB")


def compute_for_ever() -> None:
    while True:
        sum(range(10_000))


def gpu_of(number: int) -> Any:
    """The GPU of a rank, or None where NCCL works in host memory."""
    if not os.environ.get("GPUS"):
        return None
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from busbw.watch.gpu_memory import Gpu

    return Gpu(number)


def fail() -> None:
    raise RuntimeError("the data loader has no more data")


def faults_of_a_process(folder: Path) -> dict[str, Callable[[], object]]:
    """Those that need no communicator."""
    return {
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
        "debugger": lambda: (from_outside("debugger", 0.0, folder), time.sleep(600)),
        "memory": run_out_of_memory,
        "exception": fail,
        "exit": lambda: sys.exit(3),
        "sleep": lambda: time.sleep(600),
        "busy": compute_for_ever,
        "inside": lambda: os.environ.update({"BUSBW_FAULT": "busy"}),
        "link": lambda: os.kill(int(os.environ["PROXY"]), signal.SIGSTOP),
        "pause": lambda: time.sleep(float(os.environ.get("PAUSE_S", "1"))),
    }


def rank(nccl_path: str, ranks: int, steps: int, fault: str, folder: Path) -> None:
    me = int(os.environ["RANK"])
    gpu = gpu_of(me)
    nccl = ctypes.CDLL(nccl_path)
    comms = [communicator(nccl, ranks, me, folder / name) for name in ("first", "second")]
    host = (ctypes.c_float * COUNT)(*([1.0] * COUNT))
    values: Any = ctypes.c_void_p(gpu.allocate(4 * COUNT)) if gpu else host
    stream = gpu.stream() if gpu else None
    count = ctypes.c_size_t

    def finish() -> None:
        if gpu:
            gpu.wait(stream)

    def all_reduce(comm: ctypes.c_void_p, elements: int = COUNT, kind: int = FLOAT32, op: int = SUM) -> None:
        assert nccl.ncclAllReduce(values, values, count(elements), kind, op, comm, stream) == 0
        finish()

    def broadcast() -> None:
        nccl.ncclBroadcast(values, values, count(COUNT), FLOAT32, 0, comms[0], stream)
        finish()

    faults = {
        **faults_of_a_process(folder),
        "spin": lambda: gpu.launch(SPIN, b"spin", stream),
        "spinning": lambda: gpu.launch(SPIN, b"spin", stream),
        "count": lambda: all_reduce(comms[0], COUNT // 2),
        "type": lambda: all_reduce(comms[0], COUNT, INT32),
        "operator": lambda: all_reduce(comms[0], COUNT, FLOAT32, MAX),
        "collective": broadcast,
        # The group is opened and never closed, so that nothing in it is started.
        "group": nccl.ncclGroupStart,
    }
    orders = {"order": comms[::-1], "skip": comms[1:]}
    at = int(os.environ.get("FAULT_AT", str(steps * 2 // 3)))
    outside = os.environ.get("FAULT_AFTER_S")
    # Of all ranks the same numbers, so that each knows who pauses when, without a word.
    chance = random.Random(steps)
    for step in range(steps):
        if fault == "pauses" and step % 50 == 49 and chance.randrange(ranks) == me:
            time.sleep(float(os.environ["PAUSE_S"]))
        faulty = me == FAULTY and step == at and not outside
        if me == FAULTY and step == 1 and outside:
            from_outside(fault, float(outside), folder)
        if faulty and fault != "none":
            tell(folder)
            faults.get(fault, int)()
        if fault == "spinning":
            # As a step that has work to do.
            time.sleep(0.002)
        for comm in orders.get(fault, comms) if faulty else comms:
            all_reduce(comm)
        if fault == "group" and faulty:
            # As a program that wants its result before it goes on.
            time.sleep(600)
    for comm in comms:
        nccl.ncclCommDestroy(comm)


def child(number: int) -> NoReturn:
    path, ranks, steps, fault, folder = sys.argv[1:6]
    os.environ["RANK"] = str(number)
    if os.environ.get("HOSTS"):
        os.environ["NCCL_HOSTID"] = f"host{number}"
    # With its process that forked it, which a watcher may end.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    # Any process of this user may look on, as where Yama is not.
    ctypes.CDLL(None).prctl(0x59616D61, -1)
    try:
        rank(path, int(ranks), int(steps), fault, Path(folder))
    except SystemExit as ended:
        sys.exit(ended.code)
    except Exception:  # noqa: BLE001 - as any program's end by an exception, in a process that was forked
        traceback.print_exc()
        sys.exit(1)
    sys.exit(0)


def main() -> int:
    first, end = (int(word) for word in (*sys.argv[6:8], "0", sys.argv[2])[:2])
    children = []
    for number in range(first, end):
        made = os.fork()
        if made == 0:
            child(number)
        children.append(made)
    codes = [os.waitpid(each, 0)[1] for each in children]
    return max(abs(os.waitstatus_to_exitcode(code)) for code in codes)


if __name__ == "__main__":
    sys.exit(main())
