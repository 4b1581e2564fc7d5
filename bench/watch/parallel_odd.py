"""What happens to communicators, threads and processes in the jobs of parallel_job.py."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import strange_job
from communicators import UniqueId, join, shared_id
from job import FLOAT32, SUM
from parallel_job import COUNT, LONG_S, Job, faulty, message

BFLOAT16 = 9
FREEZER = Path("/sys/fs/cgroup/freezer")


def others_do(job: Job, call: Callable[[], Any], instead: Callable[[], Any]) -> None:
    (instead if faulty(job, 2) else call)()


def joined(job: Job, ranks: int, unique: UniqueId, number: int) -> int:
    """The code that ncclCommInitRank ends with."""
    return join(job.nccl, ranks, number, unique)[0]


def never_joined(job: Job) -> None:
    """Healthy: reductions in threads for which nobody waits."""
    third = job.init("third")

    def reduce() -> None:
        for _ in range(10):
            job.all_reduce(third)

    threading.Thread(target=reduce, daemon=True).start()
    for _ in range(10):
        job.all_reduce(job.comms[0])


def lock_of_two_threads(job: Job) -> None:
    """In rank 2 a thread holds within its call the lock that the main one needs before its own; others call first."""
    third, lock, first = job.init("third"), threading.Lock(), threading.Event()

    def beside() -> None:
        first.wait()
        with lock:
            job.all_reduce(third)

    threading.Thread(target=beside, daemon=True).start()
    if faulty(job, 2):
        first.set()
        time.sleep(0.2)
    with lock:
        job.all_reduce(job.comms[0])
    first.set()


def heartbeat(job: Job) -> None:
    """A thread of each rank goes on with a communicator of its own, while rank 2 waits in a lock for ever."""
    third = job.init("third")

    def beats() -> None:
        while True:
            job.all_reduce(third, count=1)
            time.sleep(0.1)

    threading.Thread(target=beats, daemon=True).start()
    time.sleep(0.5)
    if faulty(job, 2):
        threading.Event().wait(LONG_S)


def made_lazily(job: Job) -> None:
    """Two communicators, made with their first calls; rank 2 needs the second one first."""
    names = [job.folder / "lazy a", job.folder / "lazy b"]
    if job.me == 0:
        for name in names:
            shared_id(job.nccl, name, True)
    uniques = [shared_id(job.nccl, name, False) for name in names]
    for unique in uniques[::-1] if faulty(job, 2) else uniques:
        assert joined(job, job.ranks, unique, job.me) == 0


def begins_anew(job: Job, name: str = "again") -> None:
    for comm in job.comms:
        job.nccl.ncclCommAbort(comm)
    job.comms = [job.init(f"{name} {number}") for number in range(2)]


def all_begin_anew(job: Job) -> None:
    """Healthy: all end their communicators and make others, once everybody is out of its last call."""
    (job.folder / f"out {job.me}").touch()
    while not all((job.folder / f"out {rank}").exists() for rank in range(job.ranks)):
        time.sleep(0.01)
    begins_anew(job)


def with_an_old_id(job: Job) -> None:
    """All make a further communicator; rank 2 has read the id of the one before."""
    if job.me == 0:
        shared_id(job.nccl, job.folder / "newer", True)
    newer = shared_id(job.nccl, job.folder / "newer", False)
    older = shared_id(job.nccl, job.folder / "first", False)
    assert joined(job, job.ranks, older if faulty(job, 2) else newer, job.me) == 0


def twice_the_same(job: Job) -> None:
    """Rank 3 says that it is the second one."""
    faulty(job, 3)
    job.init("third", job.ranks, 2 if job.me == 3 else job.me)


def one_too_many(job: Job) -> None:
    """All count a rank more than there are."""
    faulty(job, 2)
    job.init("third", job.ranks + 1)


def comes_later(job: Job) -> None:
    """Healthy: rank 2 comes to a new communicator after half of the threshold."""
    if job.me == 2:
        time.sleep(2.0)
    job.comms = [job.init("third"), job.comms[1]]


def all_pause(job: Job) -> None:
    """Healthy: somebody stops the whole job for less than half of the threshold, twice."""
    (job.folder / f"pid {job.me}").write_text(str(os.getpid()))
    while not all((job.folder / f"pid {rank}").exists() for rank in range(job.ranks)):
        time.sleep(0.01)
    if job.me == 0:
        pids = " ".join((job.folder / f"pid {rank}").read_text() for rank in range(job.ranks))
        again = f"kill -STOP {pids}; sleep 1.8; kill -CONT {pids}; sleep 0.3"
        subprocess.Popen(["sh", "-c", f"{again}; {again}"], start_new_session=True)
    for _ in range(20):
        job.step()
        time.sleep(0.2)


def waits_for_a_child_that_opens(job: Job) -> None:
    """Uninterruptible: the child is to read from a pipe that nobody writes, before it becomes its program."""
    pipe = job.folder / "pipe"
    os.mkfifo(pipe)
    os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, str(pipe), os.O_RDONLY, 0)])


def no_descriptors(job: Job) -> None:
    """Rank 2 may open no more files when a further communicator is made."""
    if faulty(job, 2):
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())) - 1, 4096))
    job.init("third")


def other_numbers(job: Job) -> None:
    """Communicators in which ranks 2 and 3 have changed places; then the job's rank 2 waits for ever."""
    number = {2: 3, 3: 2}.get(job.me, job.me)
    job.comms = [job.init(name, job.ranks, number) for name in ("third", "fourth")]
    job.step()
    if faulty(job, 2):
        time.sleep(LONG_S)


def seldom(job: Job) -> None:
    """A communicator that is used once in a while: its calls are no longer in the ring when rank 2 leaves one out."""
    third = job.init("third")
    for _ in range(3):
        job.all_reduce(third)
    for _ in range(1500):
        job.step()
    if not faulty(job, 2):
        job.all_reduce(third)


def of_many(job: Job) -> None:
    """Two dozen communicators; rank 2 leaves out the call on one."""
    many = [job.split(0) for _ in range(24)]
    for number, comm in enumerate(many):
        if not faulty(job, 2, number == 17):
            job.all_reduce(comm)


def own_operator(job: Job) -> None:
    """Rank 2 multiplies what it adds, by an operator that it has made."""
    op, scale = ctypes.c_int(), ctypes.c_float(0.5)
    if faulty(job, 2):
        made = job.nccl.ncclRedOpCreatePreMulSum(ctypes.byref(op), ctypes.byref(scale), FLOAT32, 1, job.comms[0])
        assert made == 0
    job.all_reduce(job.comms[0], op=op.value or SUM)


def in_bfloat16(job: Job) -> None:
    """As many bytes of another type."""
    size = ctypes.c_size_t(2 * COUNT)
    job.nccl.ncclAllReduce(job.values, job.values, size, BFLOAT16, SUM, job.comms[0], None)


def asks_for_errors(job: Job) -> None:
    """Until there is one."""
    state = ctypes.c_int()
    while state.value == 0:
        job.nccl.ncclCommGetAsyncError(job.comms[0], ctypes.byref(state))


def alarms(job: Job) -> None:
    """Healthy: a signal each millisecond, as a profiler sends them."""
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    for _ in range(200):
        job.step()
    signal.setitimer(signal.ITIMER_REAL, 0.0)


def dies_before_its_message(job: Job) -> None:
    """Rank 3 waits for a message of rank 2; the others have nothing to do with it."""
    if faulty(job, 2):
        os.kill(os.getpid(), signal.SIGKILL)
    if job.me == 3:
        message(job, job.comms[0], "recv", 2)


def out_of_memory(job: Job) -> None:
    """Between its calls rank 2 finds no memory, and leaves the rest of the step out."""
    job.all_reduce(job.comms[0])
    try:
        if faulty(job, 2):
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + (32 << 20), resource.RLIM_INFINITY))
            bytearray(1 << 30)
        job.all_reduce(job.comms[1])
    except MemoryError:
        pass


def third_waits(job: Job) -> None:
    """The rank whose number another one has."""
    if faulty(job, 3):
        time.sleep(LONG_S)


def frozen(job: Job) -> None:
    """As by a container's pause; it is thawed after a while, so that it can be ended."""
    group = FREEZER / f"busbw-{os.getpid()}"
    group.mkdir()
    (group / "cgroup.procs").write_text(str(os.getpid()))
    line = f"echo FROZEN > {group}/freezer.state; sleep 15; echo THAWED > {group}/freezer.state; sleep 1; rmdir {group}"
    away = f"echo $$ > {FREEZER}/cgroup.procs; {line}"
    # No process of the job: an abort would end it.
    strange = {name: word for name, word in os.environ.items() if name != "BUSBW_RECORD_DIR"}
    subprocess.Popen(["sh", "-c", away], start_new_session=True, env=strange)
    time.sleep(1.0)


ALONE: dict[str, Callable[[Job], Any]] = {
    "vfork": waits_for_a_child_that_opens,
    "bf16": in_bfloat16,
    "asyncpoll": asks_for_errors,
    "abortanew": begins_anew,
    "norank": lambda _: time.sleep(LONG_S),
    "frozen": frozen,
}
MORE: dict[str, Callable[[Job], Any]] = {
    "neverjoined": never_joined,
    "twothreads": lock_of_two_threads,
    "heartbeat": heartbeat,
    "lazyorder": made_lazily,
    "allanew": all_begin_anew,
    "oldid": with_an_old_id,
    "samerank": twice_the_same,
    "onemore": one_too_many,
    "latejoin": comes_later,
    "allpause": all_pause,
    "fdless": no_descriptors,
    "permuted": other_numbers,
    "seldom": seldom,
    "manycomms": of_many,
    "premul": own_operator,
    "alarms": alarms,
    "killpeer": dies_before_its_message,
    "oomskip": out_of_memory,
    "dupenv": third_waits,
}


def as_launched(fault: str) -> None:
    """What a launcher may say of a rank's number: nothing, or what it said of another one."""

    class Launched(Job):
        """Sees it before the first communicator is made."""

        def __init__(self, path: str, ranks: int, me: int, folder: Path) -> None:
            if fault == "norank":
                del os.environ["RANK"]
            if fault == "dupenv" and me == 3:
                os.environ["RANK"] = "2"
            super().__init__(path, ranks, me, folder)

    strange_job.Job = Launched  # type: ignore[misc]
