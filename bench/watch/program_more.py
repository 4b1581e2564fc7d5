"""More jobs for program_job.py, written after what those had shown was mended."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parallel_job import Job, all_gather, broadcast, exchange, faulty, message
from program_job import LONGER_S, beats, beside, for_ever, until
from strange_job import with_the_gil


def generates_and_trains(job: Job, wrong: str) -> None:
    """Phases in turn; a thread of each rank waits for the driver's next prompts while the others train."""
    engine, calls = job.init("engine"), 3

    def generate(tokens: int) -> None:
        for _ in range(tokens):
            broadcast(job, engine)
            job.all_reduce(engine)
            time.sleep(0.005)

    for phase in range(calls):
        if job.me == 0:
            generate(400)
            train(job, LONGER_S - 3.0 * phase, wrong if phase == 1 else "")
        else:
            with beside(lambda: generate(400)):
                time.sleep(0.1)
            # The thread of the next phase waits already.
            with beside(lambda: broadcast(job, engine)):
                train(job, LONGER_S - 3.0 * phase, wrong if phase == 1 else "")
                job.all_reduce(job.comms[1], count=2)
        if job.me == 0:
            job.all_reduce(job.comms[1], count=2)
            broadcast(job, engine)


def train(job: Job, seconds: float, wrong: str) -> None:
    for at in range(int(seconds / 0.1)):
        if wrong == "reward" and at == 5 and faulty(job, 2):
            for_ever()
        job.all_reduce(job.comms[0])
        time.sleep(0.1)


def accumulates(job: Job) -> None:
    """Healthy: gradients now and then, with a rank that waits for data each time, and hearts that beat."""
    beats(job, job.init("heart"))
    for step in range(8):
        time.sleep(1.8 if job.me == step else 0.9)
        for _ in range(3):
            job.all_reduce(job.comms[0])


def loader_stalls(job: Job) -> None:
    """Healthy: after a second of quick steps one rank's data come late, three times."""
    beats(job, job.init("heart"))
    for _ in range(3):
        until(job, 1.0, lambda _: job.step())
        if job.me == 6:
            time.sleep(1.9)


def gathers_metrics(job: Job) -> None:
    """A thread of each rank gathers metrics ten times a second; that of rank 2 dies, and the training goes on."""
    store = job.init("metrics")

    def gather() -> None:
        for at in range(100):
            if at == 60 and faulty(job, 2):
                return
            all_gather(job, store)
            time.sleep(0.1)

    threading.Thread(target=gather, daemon=True).start()
    until(job, 20.0, lambda _: job.step())


def half_validates(job: Job) -> None:
    """Healthy: four ranks validate for long, the others wait for them, and hearts beat."""
    beats(job, job.init("heart"))
    half = job.split(job.me // 4)
    until(job, 1.5, lambda _: job.step())
    if job.me >= 4:
        until(job, LONGER_S, lambda _: job.all_reduce(half), 0.3)
    job.all_reduce(job.comms[0], count=1)


def shrinks(job: Job) -> None:
    """Healthy: the last rank is through; all end their communicators together, and the others make new ones."""
    until(job, 0.5, lambda _: job.step())
    job.all_reduce(job.comms[0], count=1)
    (job.folder / f"out {job.me}").touch()
    while not all((job.folder / f"out {rank}").exists() for rank in range(job.ranks)):
        time.sleep(0.01)
    for comm in job.comms:
        job.nccl.ncclCommDestroy(comm)
    if job.me == job.ranks - 1:
        sys.exit(0)
    job.comms = [job.init(f"fewer {number}", job.ranks - 1) for number in range(2)]
    until(job, 1.0, lambda _: job.step())


def idles(job: Job) -> None:
    """Healthy: requests to all ranks with pauses of up to 1.9 s, and a look at everybody's health each second."""
    health = job.init("health")

    def look() -> None:
        all_gather(job, health, 1)

    requests = 12

    def serve() -> None:
        for at in range(requests):
            if job.me == 0:
                time.sleep(1.9 if at % 4 == 3 else 0.1)
            broadcast(job, job.comms[0])
            for _ in range(20):
                job.all_reduce(job.comms[1])

    thread = threading.Thread(target=serve)
    thread.start()
    for _ in range(9):
        look()
        time.sleep(1.0)
    thread.join()


def uneven_work(job: Job) -> None:
    """Healthy: how much work a step has differs by step and rank, as with sequences of any length."""
    chance = random.Random(job.me)
    for _ in range(400):
        time.sleep(min(0.05, chance.lognormvariate(-6.5, 0.8)))
        job.step()


def saves_by_thread(job: Job) -> None:
    """A thread saves beside the training; that of rank 6 never comes to the end, which the next save waits for."""
    store = job.init("store")

    def save(number: int) -> None:
        for _ in range(8):
            all_gather(job, store)
        if number == 2 and faulty(job, 6):
            for_ever()
        job.all_reduce(store, count=1)

    for number in range(4):
        with beside(lambda at=number: save(at)):  # type: ignore[misc]
            until(job, 1.0, lambda _: job.step())


def asks_the_user(job: Job) -> None:
    """Rank 3 has an exception, and waits at a prompt for ever; hearts beat."""
    beats(job, job.init("heart"))
    until(job, 1.0, lambda _: job.step())
    if faulty(job, 3):
        end, _ = os.pipe()
        try:
            raise ValueError("loss is not a number")
        except ValueError:
            os.read(end, 1)


def wrong_peer(job: Job) -> None:
    """A pipeline of eight stages; in its fourth step rank 1 receives from rank 3 in place of rank 0. Hearts beat."""
    beats(job, job.init("heart"))
    pipe = job.init("pipe")
    for step in range(4):
        for _ in range(6):
            if job.me > 0:
                message(job, pipe, "recv", 3 if step == 3 and faulty(job, 1) else job.me - 1)
            if job.me < job.ranks - 1:
                message(job, pipe, "send", job.me + 1)
        job.all_reduce(job.comms[0])


def last_batch(job: Job) -> None:
    """In the last step of the epoch rank 5 has one micro-batch less, and is at the epoch's mean. Hearts beat."""
    beats(job, job.init("heart"))
    for step in range(6):
        for _ in range(3 if step == 5 and faulty(job, 5) else 4):
            job.all_reduce(job.comms[0], count=48)
    job.all_reduce(job.comms[0], count=1)


def experts(job: Job, wrong: str) -> None:
    """Experts within two groups of four, with tensor parallel pairs; rank 4 sends less to two others, or nothing.

    Or its own count is right and rank 7 takes more of it. Hearts beat, and older calls have left the ring.
    """
    beats(job, job.init("heart"))
    rows, pair = job.split(job.me // 4), job.split(job.me // 2)
    mine = job.me % 4
    for step in range(80):
        chance = random.Random(step)
        table = [[chance.randrange(1, 9) for _ in range(4)] for _ in range(4)]
        all_gather(job, pair)
        sends, receives = table[mine], [row[mine] for row in table]
        if step == 79 and job.me == 4 and wrong != "takes":
            faulty(job, 4)
            sends = [sends[0], *([0, 0, sends[3]] if wrong == "nothing" else [sends[1] + 3, sends[2] + 2, sends[3]])]
        if step == 79 and job.me == 7 and wrong == "takes":
            faulty(job, 7)
            receives = [receives[0] + 4, *receives[1:]]
        exchange(job, rows, sends, receives)
        if step % 4 == 3:
            job.all_reduce(job.comms[0])


def killed(job: Job) -> None:
    """Rank 6 is killed; the threads of the others wait for it, too."""
    beats(job, job.init("heart"))
    until(job, 1.0, lambda _: job.step())
    if faulty(job, 6):
        os.kill(os.getpid(), signal.SIGKILL)


def holds_the_lock(job: Job) -> None:
    """Rank 4 is in a library that keeps Python's lock: neither its thread nor its step goes on."""
    beats(job, job.init("heart"))
    until(job, 1.0, lambda _: job.step())
    if faulty(job, 4):
        with_the_gil(job)


def slow_hearts(job: Job) -> None:
    """Hearts beat every three seconds; rank 5 waits for a file that never comes."""
    slow = job.init("slow")

    def work() -> None:
        while True:
            job.all_reduce(slow, count=1)
            time.sleep(3.0)

    threading.Thread(target=work, daemon=True).start()
    until(job, 4.0, lambda _: job.step())
    while faulty(job, 5) and not Path(job.folder / "never").exists():
        time.sleep(0.1)


MORE: dict[str, Callable[[Job], Any]] = {
    "rlphases": lambda job: generates_and_trains(job, ""),
    "rlreward": lambda job: generates_and_trains(job, "reward"),
    "accumulate": accumulates,
    "loaderlate": loader_stalls,
    "metricsdie": gathers_metrics,
    "validates": half_validates,
    "shrinks": shrinks,
    "idles": idles,
    "unevenwork": uneven_work,
    "savestuck": saves_by_thread,
    "prompt": asks_the_user,
    "pipepeer": wrong_peer,
    "lastbatch": last_batch,
    "epless": lambda job: experts(job, "less"),
    "epnothing": lambda job: experts(job, "nothing"),
    "eptakes": lambda job: experts(job, "takes"),
    "killbeat": killed,
    "gilbeat": holds_the_lock,
    "slowbeat": slow_hearts,
}
