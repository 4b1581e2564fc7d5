"""Jobs of eight ranks as users write them, with one fault each or none: see user_said.py.

    user_job.py NCCL RANKS STEPS FAULT FOLDER

Locks, files, children, signals and supervisors of Python; roots, peers, types and groups from a configuration that one
rank has another of; pauses that are as they should be.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tests" / "watch"))

import strange_job
from job import FLOAT32, SUM
from parallel_job import all_gather, broadcast, faulty, message, stages
from strange_job import COUNT, LONG_S, Job

FLOAT16 = 6
ROUNDS = 20
PART_S = 0.7 * 4.0
"""Of the threshold of strange.py."""


def steps(job: Job, many: int = ROUNDS) -> None:
    for _ in range(many):
        job.step()
        time.sleep(0.005)


def then(rank: int, wrong: Callable[[Job], Any]) -> Callable[[Job], None]:
    """Steps, something that one rank alone does, and steps."""

    def run(job: Job) -> None:
        steps(job)
        if faulty(job, rank):
            wrong(job)
        steps(job, 5)

    return run


def two_locks(_: Job) -> None:
    """The classic: two threads take two locks in another order each, and the main one waits for both."""
    model, data = threading.Lock(), threading.Lock()
    met = threading.Barrier(2)

    def work(first: threading.Lock, second: threading.Lock) -> None:
        with first:
            met.wait()
            with second:
                pass

    pair = [threading.Thread(target=work, args=each) for each in ((model, data), (data, model))]
    for each in pair:
        each.start()
    for each in pair:
        each.join()


def writes_into_a_fifo(job: Job) -> None:
    """A logger whose reader has never been started."""
    pipe = job.folder / "metrics"
    os.mkfifo(pipe)
    with pipe.open("w") as log:
        log.write("loss 1.0\n")


def reads_from_a_stopped_storage(_: Job) -> None:
    """A process of this host hands files out, and is stopped: as a mount that does not answer."""
    server = socket.create_server(("127.0.0.1", 0))
    pid = os.fork()
    if pid == 0:
        while True:
            time.sleep(1)
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(60.0, lambda: os.kill(pid, signal.SIGKILL)).start()
    with socket.create_connection(server.getsockname()) as there:
        there.sendall(b"GET shard-17\n")
        there.recv(1 << 16)


def waits_for_a_flag(job: Job) -> None:
    while not (job.folder / "never").exists():
        pass


def waits_in_a_handler(_: Job) -> None:
    try:
        raise RuntimeError("bad sample")
    except RuntimeError:
        threading.Barrier(2).wait()


def main_exits(_: Job) -> None:
    """The main thread is through, a thread that is no daemon waits for work: the process stays."""
    threading.Thread(target=threading.Event().wait).start()
    sys.exit(0)


def restarted(job: Job) -> None:
    """A supervisor in each rank's place; rank 3's worker dies once and is begun anew, and joins nobody."""
    steps(job)
    if faulty(job, 3):
        subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({LONG_S // 20})"])
        os._exit(1)
    steps(job, 5)


def root_of_config(job: Job) -> None:
    steps(job)
    broadcast(job, job.comms[0], 1 if faulty(job, 7) else 0)
    steps(job, 5)


def peer_of_config(job: Job) -> None:
    """A ring: each sends to the next one, and rank 2 to the one behind it."""
    steps(job)
    for at in range(6):
        is_wrong = faulty(job, 2, at == 5)
        job.nccl.ncclGroupStart()
        message(job, job.comms[0], "send", (job.me + (2 if is_wrong else 1)) % job.ranks)
        message(job, job.comms[0], "recv", (job.me - 1) % job.ranks)
        assert job.nccl.ncclGroupEnd() == 0


def sends_alone(job: Job) -> None:
    """Rank 2 sends a state that rank 3 does not take."""
    steps(job)
    if faulty(job, 2):
        large = (ctypes.c_float * (1 << 22))()
        size = ctypes.c_size_t(1 << 22)
        assert job.nccl.ncclSend(large, size, FLOAT32, 3, job.comms[0], None) == 0
    steps(job, 5)


def half_precision(job: Job) -> None:
    steps(job)
    type_ = FLOAT16 if faulty(job, 5) else FLOAT32
    size = ctypes.c_size_t(COUNT)
    assert job.nccl.ncclAllReduce(job.values, job.values, size, type_, SUM, job.comms[1], None) == 0
    steps(job, 5)


def group_turned(job: Job) -> None:
    """Two buckets of gradients in a group; rank 6 has them the other way round."""
    steps(job)
    for at in range(6):
        sizes = (48, 16) if faulty(job, 6, at == 5) else (16, 48)
        job.nccl.ncclGroupStart()
        for count in sizes:
            job.all_reduce(job.comms[0], count=count)
        assert job.nccl.ncclGroupEnd() == 0


def last_step(job: Job) -> None:
    """Rank 0 counts from one."""
    steps(job, ROUNDS - (1 if faulty(job, 0) else 0))


def rank_0_pauses(job: Job) -> None:
    """Healthy: three checkpoints that rank 0 writes, each for less than the threshold."""
    for _ in range(3):
        steps(job, 5)
        if job.me == 0:
            time.sleep(PART_S)
    steps(job, 5)


def rank_0_evaluates(job: Job) -> None:
    """Healthy: it computes meanwhile."""
    for _ in range(2):
        steps(job, 5)
        end = time.monotonic() + PART_S / 2
        while job.me == 0 and time.monotonic() < end:
            sum(range(1000))
    steps(job, 5)


def thread_ranks(job: Job) -> None:
    """Ranks 4 to 7 are threads of one process on a further communicator, one of which waits for a condition."""
    steps(job)
    if job.me not in {0, 4}:
        return
    firsts = [0, 1, 2, 3] if job.me == 0 else [4, 5, 6, 7]

    def work(me: int) -> None:
        comm = job.init("threads", 8, me)
        values = (ctypes.c_float * COUNT)()
        for at in range(30):
            if me == 5 and at == 25:
                (job.folder / "fault").write_text(str(time.monotonic()))
                threading.Event().wait(LONG_S)
            size = ctypes.c_size_t(COUNT)
            assert job.nccl.ncclAllReduce(values, values, size, FLOAT32, SUM, comm, None) == 0
            time.sleep(0.01)

    all_ = [threading.Thread(target=work, args=(me,)) for me in firsts]
    for each in all_:
        each.start()
    for each in all_:
        each.join()


def group_open(job: Job) -> None:
    """Nested groups; rank 4 leaves the outer end out, and goes on as if its calls were made."""
    steps(job)
    for at in range(6):
        job.nccl.ncclGroupStart()
        job.nccl.ncclGroupStart()
        job.all_reduce(job.comms[0], count=16)
        job.nccl.ncclGroupEnd()
        if faulty(job, 4, at == 5):
            threading.Event().wait(LONG_S)
        assert job.nccl.ncclGroupEnd() == 0


def poll_aborts(job: Job) -> None:
    """A thread asks for errors, as PyTorch's watchdog; in rank 2 it takes a late step for one and aborts."""
    steps(job)
    error = ctypes.c_int()
    stop = threading.Event()

    def poll() -> None:
        while not stop.wait(0.05):
            for comm in job.comms:
                job.nccl.ncclCommGetAsyncError(comm, ctypes.byref(error))

    thread = threading.Thread(target=poll)
    thread.start()
    steps(job, 10)
    stop.set()
    thread.join()
    if faulty(job, 2):
        job.nccl.ncclCommAbort(job.comms[0])
        time.sleep(LONG_S)
    steps(job, 5)


def cube_skips(job: Job) -> None:
    """Tensor, pipeline and data parallel, two of each; rank 6 leaves its gradients out."""
    tensor, data = job.split(job.me // 2), job.split(job.me & 5)
    pipe = job.split(job.me & 3)
    for at in range(8):
        for _ in range(2):
            all_gather(job, tensor)
            if job.me < 4:
                message(job, pipe, "send", 1)
            else:
                message(job, pipe, "recv", 0)
        if not faulty(job, 6, at == 7):
            job.all_reduce(data)
        job.all_reduce(tensor)


def stage_raises(job: Job) -> None:
    """The last stage catches an error of one micro-batch, logs it and goes to the next step."""
    stages(job)
    if faulty(job, 7):
        return
    stages(job)


def dead_child(_: Job) -> None:
    """A worker is killed, as for lack of memory, and its queue never gets an end."""
    context = get_context("fork")
    results = context.Queue()
    worker = context.Process(target=lambda: os.kill(os.getpid(), signal.SIGKILL))
    worker.start()
    worker.join()
    results.get()


def preempted(_: Job) -> None:
    """It waits for the signal of a scheduler that comes to one rank only after the next step."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    signal.sigwait({signal.SIGUSR2})


def compiles(job: Job) -> None:
    """Healthy: rank 5 compiles in a child, twice."""
    for _ in range(2):
        steps(job, 5)
        if job.me == 5:
            subprocess.run([sys.executable, "-c", f"import time; time.sleep({PART_S})"], check=True)
    steps(job, 5)


def epochs(job: Job) -> None:
    """Healthy: communicators are made for an epoch and ended in order."""
    for at in range(6):
        comm = job.init(f"epoch {at}")
        for _ in range(5):
            job.all_reduce(comm)
        job.nccl.ncclCommDestroy(comm)
        time.sleep(0.1 * (job.me == 3))


TOGETHER: dict[str, Callable[[Job], None]] = {
    "twolocks": then(3, two_locks),
    "fifowriter": then(5, writes_into_a_fifo),
    "storagestops": then(4, reads_from_a_stopped_storage),
    "waitsforflag": then(2, waits_for_a_flag),
    "excepthandler": then(6, waits_in_a_handler),
    "mainexits": then(1, main_exits),
    "restarted": restarted,
    "rootofconfig": root_of_config,
    "peerofconfig": peer_of_config,
    "sendsalone": sends_alone,
    "halfprecision": half_precision,
    "groupturned": group_turned,
    "laststep": last_step,
    "checkpoint": rank_0_pauses,
    "evaluates": rank_0_evaluates,
    "evaluatesforever": then(0, lambda _: time.sleep(LONG_S)),
    "threadrank": thread_ranks,
    "groupopen": group_open,
    "pollaborts": poll_aborts,
    "cubeskips": cube_skips,
    "stageraises": stage_raises,
    "deadchild": then(2, dead_child),
    "preempted": then(3, preempted),
    "compiles": compiles,
    "subprocess": then(1, lambda _: subprocess.run(["sleep", str(LONG_S)], check=False)),
    "epochs": epochs,
}

if __name__ == "__main__":
    strange_job.TOGETHER.update(TOGETHER)
    sys.exit(strange_job.main())
