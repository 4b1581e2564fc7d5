"""Jobs of four ranks with the plain mistakes of programs in Python and C: see plain_said.py.

    plain_job.py NCCL RANKS STEPS FAULT FOLDER

Those in C, whose names begin with a c and which plain_rank.c knows, are linked to NCCL and started here.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tests" / "watch"))

import strange_job
from job import FLOAT32
from parallel_job import faulty
from strange_job import LONG_S, Job
from user_job import PART_S, steps, then

IN_C = ("cspin", "cmutex", "cassert", "cread", "ctype", "cgroup", "csegv", "cthread", "cfine", "cchild")
CALLED = ("ncclGetUniqueId", "ncclCommInitRank", "ncclCommDestroy", "ncclAllReduce", "ncclGroupStart")
"""What plain_rank.c calls of NCCL."""
FLOATS = 1 << 22


def exits_in_a_callback(job: Job) -> None:
    """A timer of rank 3 finds a deadline passed, and ends the process while the main thread is in its steps."""
    if job.me == 3:

        def passed() -> None:
            faulty(job, 3)
            os._exit(7)

        threading.Timer(0.1, passed).start()
    steps(job, 60)


def fills_its_pipe(_: Job) -> None:
    """Its own end of a pipe that nobody reads."""
    _, into = os.pipe()
    os.write(into, bytes(1 << 20))


def loads(_: Job) -> None:
    def samples() -> Iterator[int]:
        yield 1
        time.sleep(LONG_S)

    def batches() -> Iterator[list[int]]:
        yield list(samples())

    next(batches())


def large(job: Job, send: bool, peer: int) -> None:
    """A message that no library keeps for later."""
    values, size = (ctypes.c_float * FLOATS)(), ctypes.c_size_t(FLOATS)
    call = job.nccl.ncclSend if send else job.nccl.ncclRecv
    assert call(values, size, FLOAT32, peer, job.comms[0], None) == 0


def both_send(job: Job) -> None:
    """Outside of a group, each before it receives."""
    steps(job)
    if job.me < 2:
        faulty(job, 0)
        large(job, True, 1 - job.me)
        large(job, False, 1 - job.me)
    steps(job, 5)


def split_of_split(job: Job) -> None:
    """Halves, and halves of these, of which rank 3 does not know."""
    steps(job)
    half = job.split(job.me // 2)
    job.all_reduce(half)
    if faulty(job, 3):
        steps(job, 5)
        return
    quarter = ctypes.c_void_p()
    assert job.nccl.ncclCommSplit(half, 0, job.me, ctypes.byref(quarter), None) == 0
    steps(job, 5)


def finalizes(job: Job) -> None:
    """Rank 2 believes that it is through, and waits for the others' end."""
    steps(job)
    if faulty(job, 2):
        job.nccl.ncclCommFinalize(job.comms[0])
        time.sleep(LONG_S)
    steps(job, 5)


def aborts_the_other(job: Job) -> None:
    """Rank 1 gives the second communicator up and goes on with the first."""
    steps(job)
    if faulty(job, 1):
        job.nccl.ncclCommAbort(job.comms[1])
        for _ in range(5):
            job.all_reduce(job.comms[0])
    steps(job, 0 if job.me == 1 else 5)


def wrong_source(job: Job) -> None:
    """Rank 3 sends to rank 2, which takes it from rank 1."""
    steps(job)
    if job.me == 3:
        large(job, True, 2)
    if faulty(job, 2):
        large(job, False, 1)
    steps(job, 5)


def no_barrier(job: Job) -> None:
    """Of one element; rank 0 has left its branch before."""
    steps(job)
    if not faulty(job, 0):
        job.all_reduce(job.comms[0], count=1)
    steps(job, 5)


def carousel(job: Job) -> None:
    """Three communicators of all ranks, begun at another one by ranks 1 and 2."""
    comms = [job.init(f"turn {at}") for at in range(3)]
    for at in range(6):
        faulty(job, 1, at == 5)
        first = job.me if at == 5 and job.me in {1, 2} else 0
        for comm in comms[first:] + comms[:first]:
            job.all_reduce(comm)


def out_of_cpu(_: Job) -> None:
    """A limit of the user's shell, as on login nodes."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    while True:
        sum(range(1000))


def execs_itself(job: Job) -> None:
    """As a script that starts anew with another setting: it joins a communicator that nobody else makes."""
    code = (
        "import sys; sys.path[:0] = sys.argv[1:3]\nfrom strange_job import Job\nfrom pathlib import Path\n"
        "job = Job.__new__(Job)\nimport ctypes\njob.nccl = ctypes.CDLL(sys.argv[3])\n"
        "job.ranks, job.me, job.folder = 4, 2, Path(sys.argv[4])\njob.init('anew')\n"
    )
    folders = [str(Path(__file__).parent), str(Path(strange_job.tell.__code__.co_filename).parent)]
    os.execv(sys.executable, [sys.executable, "-c", code, *folders, sys.argv[1], str(job.folder)])


def waits_in_asyncio(_: Job) -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    asyncio.run(work())


def pool_on_itself(_: Job) -> None:
    """A task waits for one that has no thread left."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: pool.submit(int).result()).result()


def asks(_: Job) -> None:
    """Whether a folder may be overwritten; nobody sits there."""
    out, _into = os.pipe()
    os.dup2(out, 0)
    sys.stdin = os.fdopen(0)
    input()


def accepts(_: Job) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.accept()


def even_pairs(job: Job) -> None:
    """Healthy: the even ranks have more to do on a communicator of theirs, for less than the threshold."""
    pair = job.split(job.me % 2)
    for _ in range(2):
        for _ in range(10 if job.me % 2 == 0 else 0):
            job.all_reduce(pair)
            time.sleep(PART_S / 10)
        steps(job, 2)


def logs(job: Job) -> None:
    """Healthy: a thread of rank 1 writes and waits all the time."""
    done = threading.Event()

    def write() -> None:
        while not done.wait(0.01):
            logging.getLogger("train").debug("step")

    thread = threading.Thread(target=write)
    thread.start()
    if job.me == 1:
        time.sleep(PART_S)
    steps(job, 30)
    done.set()
    thread.join()


def too_deep(job: Job) -> None:
    """Rank 2 catches whatever comes, and so leaves a step out."""
    steps(job)
    try:
        if faulty(job, 2):
            depth = [0]

            def deeper() -> None:
                depth[0] += 1
                deeper()

            deeper()
        job.step()
    except RecursionError:
        pass
    steps(job, 5)


def shrink_without(job: Job) -> None:
    """Rank 1 is given up by ranks 0 and 2; rank 3 was not told."""
    steps(job)
    made = ctypes.c_void_p()
    if job.me == 1:
        time.sleep(LONG_S / 10)
        return
    if faulty(job, 3):
        time.sleep(LONG_S)
    one = (ctypes.c_int * 1)(1)
    assert job.nccl.ncclCommShrink(job.comms[0], one, 1, ctypes.byref(made), None, 0) == 0


TOGETHER: dict[str, Callable[[Job], None]] = {
    "callback": exits_in_a_callback,
    "ownpipe": then(1, fills_its_pipe),
    "loader": then(2, loads),
    "bothsend": both_send,
    "splitofsplit": split_of_split,
    "finalizes": finalizes,
    "abortsother": aborts_the_other,
    "wrongsource": wrong_source,
    "nobarrier": no_barrier,
    "carousel": carousel,
    "cpulimit": then(1, out_of_cpu),
    "execsitself": then(2, execs_itself),
    "asyncwait": then(1, waits_in_asyncio),
    "poolonpool": then(3, pool_on_itself),
    "asks": then(0, asks),
    "accepts": then(2, accepts),
    "evenonly": even_pairs,
    "logger": logs,
    "handsleep": then(1, lambda _: ctypes.CDLL(None).pause()),
    "usr1": then(2, lambda _: os.kill(os.getpid(), signal.SIGUSR1)),
    "swallows": too_deep,
    "shrinkwithout": shrink_without,
}


def main_in_c() -> int:
    """Each rank is a program of its own, linked to a library of NCCL's name."""
    nccl, ranks, steps_, fault, folder = sys.argv[1:6]
    source, program = Path(__file__).with_name("plain_rank.c"), Path(folder) / "plain_rank"
    link, nothing = Path(folder) / "link.so", Path(folder) / "link.c"
    nothing.write_text("".join(f"void {name}(void) {{}}\n" for name in CALLED), encoding="ascii")
    subprocess.run(["cc", "-shared", "-Wl,-soname,libnccl.so.2", "-o", str(link), str(nothing)], check=True)
    words = ["cc", "-O1", "-g", "-pthread", "-o", str(program), str(source), str(link)]
    subprocess.run([*words, f"-Wl,-rpath,{Path(nccl).parent}"], check=True)
    started = [
        subprocess.Popen([str(program), ranks, steps_, fault, folder], env={**os.environ, "RANK": str(me)})
        for me in range(int(ranks))
    ]
    return max(abs(each.wait()) for each in started)


if __name__ == "__main__":
    strange_job.TOGETHER.update(TOGETHER)
    sys.exit(main_in_c() if sys.argv[4] in IN_C else strange_job.main())
