"""A job of RANKS processes with one fault of the kind that programs have: see strange.py beside it.

    strange_job.py NCCL RANKS STEPS FAULT FOLDER

Each step is an all-reduce on two communicators of all ranks. The fault is in rank 2, at two thirds of the steps.
"""

from __future__ import annotations

import ctypes
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tests" / "watch"))

from communicators import communicator
from job import FLOAT32, SUM, tell

FAULTY = 2
COUNT = 64
MIN = 3
LONG_S = 600


class Job:
    """One rank: its communicators, and the calls it makes on them."""

    def __init__(self, path: str, ranks: int, me: int, folder: Path) -> None:
        self.nccl = ctypes.CDLL(path)
        self.ranks, self.me, self.folder = ranks, me, folder
        self.values = (ctypes.c_float * COUNT)(*([1.0] * COUNT))
        self.others = (ctypes.c_float * (COUNT * ranks))()
        self.comms = [self.init(name) for name in ("first", "second")]

    def init(self, name: str, ranks: int | None = None, me: int | None = None) -> ctypes.c_void_p:
        """A communicator, of all ranks unless told otherwise; the first of them names it."""
        number = self.me if me is None else me
        return communicator(self.nccl, ranks or self.ranks, number, self.folder / name)

    def split(self, colour: int) -> ctypes.c_void_p:
        comm = ctypes.c_void_p()
        assert self.nccl.ncclCommSplit(self.comms[0], colour, self.me, ctypes.byref(comm), None) == 0
        return comm

    def all_reduce(self, comm: ctypes.c_void_p, count: int = COUNT, op: int = SUM, into: Any = None) -> None:
        size = ctypes.c_size_t(count)
        assert self.nccl.ncclAllReduce(self.values, into or self.values, size, FLOAT32, op, comm, None) == 0

    def reduce(self, root: int) -> None:
        size = ctypes.c_size_t(COUNT)
        done = self.nccl.ncclReduce(self.values, self.others, size, FLOAT32, SUM, root, self.comms[0], None)
        assert done == 0

    def send(self, peer: int) -> None:
        assert self.nccl.ncclSend(self.values, ctypes.c_size_t(COUNT), FLOAT32, peer, self.comms[0], None) == 0

    def recv(self, peer: int) -> None:
        assert self.nccl.ncclRecv(self.others, ctypes.c_size_t(COUNT), FLOAT32, peer, self.comms[0], None) == 0

    def step(self) -> None:
        for comm in self.comms:
            self.all_reduce(comm)


def in_a_lock(_: Job) -> None:
    lock = threading.Lock()
    threading.Thread(target=lambda: (lock.acquire(), time.sleep(LONG_S)), daemon=True).start()
    time.sleep(0.05)
    lock.acquire()


def in_io(job: Job) -> None:
    fifo = job.folder / "fifo"
    os.mkfifo(fifo)
    fifo.read_bytes()


def in_a_handler(_: Job) -> None:
    signal.signal(signal.SIGUSR2, lambda *_: time.sleep(LONG_S))
    os.kill(os.getpid(), signal.SIGUSR2)
    time.sleep(0.01)


def in_a_queue(_: Job) -> None:
    batches: queue.Queue[int] = queue.Queue()
    worker = threading.Thread(target=lambda: None)
    worker.start()
    batches.get()


def with_a_child(_: Job) -> None:
    """The child has a copy of a lock that a thread of ours holds, and we wait for the child."""
    lock = threading.Lock()
    threading.Thread(target=lambda: (lock.acquire(), time.sleep(LONG_S)), daemon=True).start()
    time.sleep(0.05)
    child = os.fork()
    if child == 0:
        lock.acquire()
        os._exit(0)
    os.waitpid(child, 0)


def with_the_gil(_: Job) -> None:
    ctypes.PyDLL(None).sleep(LONG_S)


def in_segv(_: Job) -> None:
    """Python's handler never runs: the instruction fails again and again."""
    signal.signal(signal.SIGSEGV, lambda *_: None)
    ctypes.string_at(8)


def another_program(_: Job) -> None:
    os.execvp("sleep", ["sleep", str(LONG_S)])


def no_more_data(job: Job) -> None:
    """Uneven data: this rank is through, and waits for the others by other means."""
    for comm in job.comms:
        job.nccl.ncclCommDestroy(comm)
    while not (job.folder / "everybody is through").exists():
        time.sleep(0.05)


def aborted(job: Job) -> None:
    for comm in job.comms:
        job.nccl.ncclCommAbort(comm)
    time.sleep(LONG_S)


def in_init(job: Job) -> None:
    job.init("alone", 2, 0)


def in_a_ring(job: Job) -> None:
    """Pairs of ranks, of which everybody takes the one with the next rank first."""
    pairs = {}
    for one in range(3):
        pair = tuple(sorted((one, (one + 1) % 3)))
        if job.me in pair:
            pairs[pair] = job.init(f"pair {pair}", 2, pair.index(job.me))
    if job.me >= 3:
        return
    if job.me == FAULTY:
        tell(job.folder)
    first = tuple(sorted((job.me, (job.me + 1) % 3)))
    for pair in sorted(pairs, key=lambda each: each != first):
        job.all_reduce(pairs[pair])


def messages(job: Job, turned: bool, wrong: str) -> None:
    """Rank 2 and rank 1 exchange; others do nothing."""
    if job.me not in {1, FAULTY}:
        return
    peer = FAULTY if job.me == 1 else 1
    sends_first = (job.me == 1) != turned
    if job.me == FAULTY:
        tell(job.folder)
        if wrong == "peer":
            peer = 0
        if wrong == "missing":
            return
    (job.send if sends_first else job.recv)(peer)
    (job.recv if sends_first else job.send)(peer)


def both_receive(job: Job) -> None:
    if job.me in {1, FAULTY}:
        tell(job.folder)
        job.recv(FAULTY if job.me == 1 else 1)


def reduced(job: Job) -> None:
    if job.me == FAULTY:
        tell(job.folder)
    job.reduce(1 if job.me == FAULTY else 0)


def split_without(job: Job) -> None:
    """Rank 2 leaves the split out."""
    if job.me == FAULTY:
        tell(job.folder)
        time.sleep(LONG_S)
    job.split(0)


def split_no_colour(job: Job) -> None:
    """Rank 2 is not in the new communicator, and calls on it as if it were."""
    if job.me == FAULTY:
        tell(job.folder)
    job.all_reduce(job.split(-1 if job.me == FAULTY else 0))


def split_colour(job: Job) -> None:
    """Rank 2 goes with ranks 0 and 1; then it exchanges with rank 3 in the old communicator, as in the plan."""
    job.all_reduce(job.split(0 if job.me < 3 else 1))
    if job.me == 3:
        job.recv(FAULTY)
    if job.me == FAULTY:
        tell(job.folder)
        time.sleep(LONG_S)


def crossed(job: Job) -> None:
    """Of two threads each has a communicator; in rank 2 the second has none to call."""
    if job.me == FAULTY:
        tell(job.folder)
    mine = job.comms if job.me != FAULTY else [job.comms[0], job.comms[0]]
    for comm in mine:
        job.all_reduce(comm)


def in_a_thread(_: Job) -> None:
    """The thread that works has died of an exception, and the main one waits for its result."""
    results: queue.Queue[int] = queue.Queue()
    threading.excepthook = lambda _: None
    threading.Thread(target=lambda: 1 // 0, daemon=True).start()
    results.get()


def extra(job: Job) -> None:
    """One call more than the others make."""
    job.all_reduce(job.comms[0])
    job.all_reduce(job.comms[0])


def of_a_part(job: Job) -> None:
    """Ranks 2 and 3 have a communicator of their own, to which rank 2 does not come; all wait for rank 3."""
    if job.me >= FAULTY:
        part = job.init("part", job.ranks - FAULTY, job.me - FAULTY)
        job.all_reduce(part)
        if job.me == FAULTY:
            tell(job.folder)
            time.sleep(LONG_S)
        job.all_reduce(part)


def third(job: Job, before: Callable[[], Any], name: str = "third") -> None:
    """A further communicator, before which something happens to rank 2."""
    if job.me == FAULTY:
        # The unique id is there, as from a store.
        while not (job.folder / "third").exists():
            time.sleep(0.01)
        (job.folder / "wrong").write_bytes(bytes(reversed((job.folder / "third").read_bytes())))
        tell(job.folder)
        before()
    job.init(name if job.me == FAULTY else "third")


def some_stops(job: Job) -> None:
    """Rank 2 is stopped for a while, three times."""
    if job.me == FAULTY:
        me = os.getpid()
        for _ in range(3):
            line = f"sleep {float(os.environ['PAUSE_S']) / 3}; kill -CONT {me}"
            os.spawnlp(os.P_NOWAIT, "sh", "sh", "-c", line)
            os.kill(me, signal.SIGSTOP)
            job.step()
    else:
        for _ in range(3):
            job.step()


def two_die(job: Job) -> None:
    if job.me in {1, FAULTY}:
        tell(job.folder)
        os.kill(os.getpid(), signal.SIGKILL)


def all_stop(job: Job) -> None:
    job.all_reduce(job.comms[0])
    if job.me == FAULTY:
        tell(job.folder)
    if job.me != 0:
        os.kill(os.getpid(), signal.SIGSTOP)


def all_pause(_: Job) -> None:
    time.sleep(float(os.environ["PAUSE_S"]))


ALONE: dict[str, Callable[[Job], Any]] = {
    "lock": in_a_lock,
    "io": in_io,
    "handler": in_a_handler,
    "queue": in_a_queue,
    "child": with_a_child,
    "gil": with_the_gil,
    "segv": in_segv,
    "exec": another_program,
    "uneven": no_more_data,
    "abort": aborted,
    "reinit": in_init,
    "exit0": lambda _: os._exit(0),
    "returns": lambda _: sys.exit(0),
    "op": lambda job: job.all_reduce(job.comms[0], op=MIN),
    "empty": lambda job: job.all_reduce(job.comms[0], count=0),
    "place": lambda job: [job.all_reduce(each, into=job.others) for each in job.comms],
    "sigterm": lambda _: os.kill(os.getpid(), signal.SIGTERM),
    "thread": in_a_thread,
    "extra": extra,
    "fewer": lambda _: None,
    "full": lambda _: time.sleep(LONG_S),
    "wrapped": lambda _: time.sleep(LONG_S),
}
"""What rank 2 does, while the others go on."""
TOGETHER: dict[str, Callable[[Job], Any]] = {
    "ring": in_a_ring,
    "receive": both_receive,
    "peer": lambda job: messages(job, turned=False, wrong="peer"),
    "norecv": lambda job: messages(job, turned=False, wrong="missing"),
    "root": reduced,
    "nosplit": split_without,
    "nocolour": split_no_colour,
    "colour": split_colour,
    "crossed": crossed,
    "idle": all_pause,
    "part": of_a_part,
    "wrongid": lambda job: third(job, lambda: None, "wrong"),
    "initexit": lambda job: third(job, lambda: sys.exit(1)),
    "initstop": lambda job: third(job, lambda: os.kill(os.getpid(), signal.SIGSTOP)),
    "stops": some_stops,
    "twodie": two_die,
    "allstop": all_stop,
}
"""What all ranks do at that step."""


def rank(job: Job, steps: int, fault: str) -> None:
    me, folder = job.me, job.folder
    for step in range(steps):
        if step == steps * 2 // 3:
            if fault in TOGETHER:
                TOGETHER[fault](job)
            elif fault in ALONE and me == FAULTY:
                tell(folder)
                ALONE[fault](job)
                if fault in {"place", "fewer", "inplace"}:
                    continue
        job.step()
        if fault == "unwatched":
            time.sleep(0.01)
    (folder / f"through {me}").touch()
    for comm in job.comms:
        job.nccl.ncclCommDestroy(comm)


def main() -> int:
    """Start the ranks and wait for them."""
    path, ranks, steps, fault, folder = sys.argv[1:6]
    children = []
    for me in range(int(ranks)):
        child = os.fork()
        if child == 0:
            os.environ["RANK"] = str(me)
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
            rank(Job(path, int(ranks), me, Path(folder)), int(steps), fault)
            sys.exit(0)
        children.append(child)
    codes = [os.waitpid(each, 0)[1] for each in children]
    return max(abs(os.waitstatus_to_exitcode(code)) for code in codes)


if __name__ == "__main__":
    sys.exit(main())
