"""Further faults of the kind that training programs have, for strange.py: a job as that of strange_job.py.

stranger_job.py NCCL RANKS STEPS FAULT FOLDER
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tests" / "watch"))

import strange_job
from job import FLOAT32, tell
from strange_job import COUNT, FAULTY, LONG_S, Job

FLOAT16 = 6


def last_of(path: Path, patience_s: float = 30.0) -> str:
    """What another rank writes."""
    end = time.monotonic() + patience_s
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.01)
    return path.read_text()


def others_go_on(job: Job, steps: int = 5) -> None:
    """What the other ranks do meanwhile."""
    for _ in range(steps):
        job.step()


def swallowed(job: Job) -> None:
    """A step of rank 2 ends by an exception that nobody sees; each step has a batch of another length."""
    for batch in range(3):
        try:
            if job.me == FAULTY and batch == 1:
                tell(job.folder)
                raise ValueError("a broken sample")
            job.all_reduce(job.comms[0], count=COUNT - batch)
        except ValueError:
            continue


def half_a_step(job: Job) -> None:
    """The exception comes between the two calls of the step."""
    job.all_reduce(job.comms[0])
    if job.me == FAULTY:
        tell(job.folder)
    else:
        job.all_reduce(job.comms[1])
    others_go_on(job)


def broken_loss(job: Job) -> None:
    """Two ranks leave a step out, and come to the end of their data before the others."""
    if job.me in {FAULTY, FAULTY + 1}:
        tell(job.folder)
        return
    job.step()


def zero_saves(job: Job) -> None:
    if job.me == 0:
        tell(job.folder)
        strange_job.in_io(job)


def only_zero(job: Job) -> None:
    """`if rank == 0: barrier()`."""
    if job.me == 0:
        tell(job.folder)
        job.all_reduce(job.comms[0], count=1)


def self_as_root(job: Job) -> None:
    """Everybody takes its own number for the root's."""
    if job.me == FAULTY:
        tell(job.folder)
    job.nccl.ncclBroadcast(
        job.values, job.values, ctypes.c_size_t(COUNT), FLOAT32, job.me, job.comms[0], None
    )  # fmt: skip


def all_gather(job: Job) -> None:
    job.nccl.ncclAllGather(job.values, job.others, ctypes.c_size_t(COUNT), FLOAT32, job.comms[0], None)


def in_halves(job: Job) -> None:
    job.nccl.ncclAllReduce(job.values, job.values, ctypes.c_size_t(COUNT), FLOAT16, 0, job.comms[0], None)


def at_a_prompt(_: Job) -> None:
    """A breakpoint that was left in; nobody types."""
    reading, _writing = os.pipe()
    sys.stdin = os.fdopen(reading)
    breakpoint()  # noqa: T100 - what is tried
    time.sleep(0)


def in_two_locks(_: Job) -> None:
    first, second = threading.Lock(), threading.Lock()

    def other() -> None:
        with second:
            time.sleep(0.1)
            first.acquire()

    with first:
        threading.Thread(target=other, daemon=True).start()
        time.sleep(0.05)
        second.acquire()


def with_a_dead_worker(_: Job) -> None:
    """The worker that should send the next batch was killed; somebody else still holds the pipe open."""
    reading, writing = os.pipe()
    worker = os.fork()
    if worker == 0:
        time.sleep(LONG_S)
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
    os.read(reading, 1)
    os.close(writing)


def stopped_by_another(job: Job) -> None:
    """Rank 1 stops rank 2 while that waits in a call."""
    if job.me == FAULTY:
        (job.folder / "pid").write_text(str(os.getpid()))
    if job.me == 1:
        time.sleep(0.3)
        os.kill(int(last_of(job.folder / "pid")), signal.SIGSTOP)
        tell(job.folder)
    job.step()


def with_a_dead_thread(job: Job) -> None:
    """Each communicator has a thread; in rank 2 that of the first has died of an exception."""
    threading.excepthook = lambda _: None

    def work(comm: ctypes.c_void_p) -> None:
        if job.me == FAULTY and comm is job.comms[0]:
            tell(job.folder)
            raise RuntimeError("no room on the device")
        for _ in range(5):
            job.all_reduce(comm)

    threads = [threading.Thread(target=work, args=(comm,), daemon=True) for comm in job.comms]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def a_pipeline(job: Job) -> None:
    """Activations go from each rank to the next; rank 2 forgets to hand them on."""
    if job.me > 0:
        job.recv(job.me - 1)
    if job.me == FAULTY:
        tell(job.folder)
    elif job.me < job.ranks - 1:
        job.send(job.me + 1)


def sent_twice(job: Job) -> None:
    """Rank 1 has a micro-batch more than rank 2, which the library keeps for it: nobody waits."""
    if job.me == 1:
        tell(job.folder)
        job.send(FAULTY)
        job.send(FAULTY)
    if job.me == FAULTY:
        job.recv(1)


def on_the_parent(job: Job) -> None:
    """Rank 2 calls on the old communicator in place of the part."""
    part = job.split(0 if job.me < job.ranks - 1 else 1)
    if job.me == FAULTY:
        tell(job.folder)
    job.all_reduce(job.comms[0] if job.me == FAULTY else part)


def nested(job: Job) -> None:
    """Rank 2 opens two groups and ends one."""
    if job.me == FAULTY:
        tell(job.folder)
        job.nccl.ncclGroupStart()
    job.nccl.ncclGroupStart()
    job.all_reduce(job.comms[0])
    job.nccl.ncclGroupEnd()
    if job.me == FAULTY:
        time.sleep(LONG_S)


def as_a_daemon(_: Job) -> None:
    """The child goes on, the parent is gone."""
    if os.fork():
        os._exit(0)
    time.sleep(LONG_S)


def of_another_size(job: Job) -> None:
    """Rank 2 counts one rank less."""
    if job.me == FAULTY:
        tell(job.folder)
    job.init("third", job.ranks - 1 if job.me == FAULTY else job.ranks)


def two_jobs(job: Job) -> None:
    """Two halves that have nothing to do with each other; one of them takes its time."""
    half = job.ranks // 2
    part = job.init(f"half {job.me // half}", half, job.me % half) if job.me < 2 * half else None
    for _ in range(6):
        if part and job.me >= half:
            time.sleep(float(os.environ["PAUSE_S"]) / 4)
        if part:
            job.all_reduce(part)


def killed_within(job: Job) -> None:
    """As by the kernel, while rank 2 waits in a call for rank 1."""
    if job.me == FAULTY:
        (job.folder / "pid").write_text(str(os.getpid()))
    if job.me == 1:
        time.sleep(0.3)
        tell(job.folder)
        os.kill(int(last_of(job.folder / "pid")), signal.SIGKILL)
    job.step()


def slowly(job: Job) -> None:
    for _ in range(20):
        if job.me == FAULTY:
            time.sleep(0.3)
        job.step()


def two_in_a_condition(job: Job) -> None:
    if job.me in {1, FAULTY}:
        tell(job.folder)
        with (condition := threading.Condition()):
            condition.wait()


def zero_evaluates(job: Job) -> None:
    if job.me == 0:
        tell(job.folder)
        all_gather(job)


def polls(job: Job) -> None:
    while not (job.folder / "never").exists():
        pass


def behind_a_file_lock(job: Job) -> None:
    """Rank 1 holds the lock within its call, and rank 2 wants it before its own."""
    with (job.folder / "lock").open("a") as file:
        if job.me == 1:
            fcntl.flock(file, fcntl.LOCK_EX)
            (job.folder / "held").write_text("yes")
        if job.me == FAULTY:
            last_of(job.folder / "held")
            tell(job.folder)
            fcntl.flock(file, fcntl.LOCK_EX)
        job.step()


def in_the_wrong_part(job: Job) -> None:
    """Two parts by two colours; rank 2 has the colour of the first and its number of the second's calls: one more."""
    part = job.split(job.me % 2)
    if job.me == FAULTY:
        tell(job.folder)
        job.all_reduce(part, count=1)
    job.all_reduce(part)


def destroyed_one(job: Job) -> None:
    job.nccl.ncclCommDestroy(job.comms[1])
    for _ in range(5):
        job.all_reduce(job.comms[0])
    time.sleep(LONG_S)


def at_the_barrier(job: Job) -> None:
    """It has a step less, and is at the end of the epoch."""
    job.all_reduce(job.comms[1], count=COUNT)


def interrupted(_: Job) -> None:
    """A shell may have started us with this signal ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)


ALONE: dict[str, Callable[[Job], Any]] = {
    "evaluates": lambda job: job.all_reduce(job.comms[0], count=1),
    "barrier": at_the_barrier,
    "lessdata": lambda job: [job.nccl.ncclCommDestroy(comm) for comm in job.comms] and sys.exit(0),
    "half": in_halves,
    "gathers": all_gather,
    "zero": lambda job: job.all_reduce(job.comms[1], count=0),
    "inplace": lambda job: [job.all_reduce(each, into=job.others) for each in job.comms],
    "lateonce": lambda _: time.sleep(float(os.environ["PAUSE_S"]) / 3),
    "pdb": at_a_prompt,
    "locks": in_two_locks,
    "worker": with_a_dead_worker,
    "sigint": interrupted,
    "sigabrt": lambda _: os.abort(),
    "onlyone": destroyed_one,
    "daemon": as_a_daemon,
    "polls": polls,
}
TOGETHER: dict[str, Callable[[Job], Any]] = {
    "swallowed": swallowed,
    "halfstep": half_a_step,
    "nanskip": broken_loss,
    "saves": zero_saves,
    "ifzero": only_zero,
    "selfroot": self_as_root,
    "stopped": stopped_by_another,
    "deadthread": with_a_dead_thread,
    "forward": a_pipeline,
    "twice": sent_twice,
    "onparent": on_the_parent,
    "nested": nested,
    "worldsize": of_another_size,
    "twojobs": two_jobs,
    "killedin": killed_within,
    "slow": slowly,
    "condition": two_in_a_condition,
    "zeroevals": zero_evaluates,
    "flock": behind_a_file_lock,
    "wrongpart": in_the_wrong_part,
}

if __name__ == "__main__":
    strange_job.ALONE.update(ALONE)
    strange_job.TOGETHER.update(TOGETHER)
    sys.exit(strange_job.main())
