"""Jobs of eight ranks in the shapes of whole programs, with one fault each or none: see program_said.py.

    program_job.py NCCL RANKS STEPS FAULT FOLDER

Training with threads beside it, checkpoints that are saved while it goes on, actors, replicas that serve requests. Each
goes on for some seconds as it should before the fault.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tests" / "watch"))

import strange_job
from parallel_job import Comm, Job, all_gather, broadcast, exchange, faulty, message, reduce_scatter
from strange_job import LONG_S

LONGER_S = 9.0
"""More than twice the threshold of strange.py."""
LAYERS = 3


def for_ever() -> None:
    threading.Event().wait(LONG_S)


@contextmanager
def beside(call: Callable[[], Any], every_s: float = 0.0) -> Iterator[threading.Event]:
    """A thread that calls once, or again and again until all are through, which the caller has to see to."""
    stop = threading.Event()

    def work() -> None:
        call()
        while every_s and not stop.wait(every_s):
            call()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield stop
    thread.join()


def beats(job: Job, comm: Comm) -> None:
    """A thread that looks after all ranks, and is never ended."""

    def work() -> None:
        while True:
            job.all_reduce(comm, count=1)
            time.sleep(0.1)

    threading.Thread(target=work, daemon=True).start()


def until(job: Job, seconds: float, step: Callable[[int], Any], pause_s: float = 0.005) -> int:
    """As many steps on all ranks, about so long."""
    steps = int(seconds / (pause_s + 0.002))
    for at in range(steps):
        step(at)
        time.sleep(pause_s)
    return steps


def sharded(job: Job, shard: Comm, replicate: Comm, wrong: Callable[[int], bool] = lambda _: False) -> None:
    """A step of FSDP2 over two replicas of four ranks: parameters come, gradients go."""
    for _ in range(LAYERS):
        all_gather(job, shard)
    for layer in range(LAYERS):
        if wrong(layer):
            continue
        reduce_scatter(job, shard)
        job.all_reduce(replicate, count=8)


def fully_sharded(job: Job, wrong: str) -> None:
    """Rank 5 gets no data, or leaves out a layer's gradients; a thread of each rank looks after the others."""
    shard, replicate, watch = job.split(job.me // 4), job.split(job.me % 4), job.init("watch")
    beats(job, watch)
    until(job, 2.0, lambda _: sharded(job, shard, replicate))
    if wrong == "loader" and faulty(job, 5):
        for_ever()
    if wrong == "spins" and faulty(job, 5):
        while True:
            sum(range(1000))
    sharded(job, shard, replicate, lambda layer: wrong == "layer" and layer == 1 and faulty(job, 5))


def saves(job: Job, wrong: str) -> None:
    """Twice a thread saves: all gather a plan, and wait until rank 0 has written all. Training goes on."""
    store = job.init("store")

    def save() -> None:
        if wrong == "dies" and faulty(job, 4):
            return
        for _ in range(12):
            all_gather(job, store)
        if job.me == 0:
            time.sleep(LONGER_S if wrong != "dies" else 0.5)
        job.all_reduce(store, count=1)

    for _ in range(2):
        with beside(save):
            until(job, LONGER_S + 1.0 if wrong != "dies" else 1.0, lambda _: job.step())


def early_save(job: Job) -> None:
    """Healthy: the first checkpoint comes after a few steps, and some of its calls were made once before."""
    store = job.init("store")
    for _ in range(6):
        job.all_reduce(store, count=1)
    time.sleep(1.5)

    def save() -> None:
        for _ in range(40):
            all_gather(job, store)
            time.sleep(0.02)
        if job.me == 3:
            time.sleep(LONGER_S)
        job.all_reduce(store, count=1)

    with beside(save):
        for _ in range(20):
            job.step()
            time.sleep(0.5)


def first_two_evaluate(job: Job) -> None:
    """Healthy: ranks 0 and 1 evaluate for long, with a reduction now and then."""
    pair = job.init("pair", 2, job.me) if job.me < 2 else None
    until(job, 1.0, lambda _: job.step())
    if pair:
        until(job, LONGER_S, lambda _: job.all_reduce(pair), 0.1)
    job.all_reduce(job.comms[0], count=1)


def zero_evaluates(job: Job) -> None:
    """Rank 0 alone evaluates with a model that still takes means over all ranks."""
    until(job, 0.5, lambda _: job.step())
    if faulty(job, 0):
        for _ in range(3):
            job.all_reduce(job.comms[0], count=24)
    job.all_reduce(job.comms[0], count=1)


def actors(job: Job, wrong: str) -> None:
    """Four ranks generate as their driver says, four train; those that generate wait for the training for long."""
    mine = job.split(job.me // 4)

    def request() -> None:
        broadcast(job, mine)
        for _ in range(4):
            job.all_reduce(mine)

    if job.me >= 4:
        until(job, LONGER_S + 4.0, lambda _: job.all_reduce(mine))
        return
    until(job, 2.0, lambda _: request())
    if job.me == 0:
        time.sleep(LONGER_S)
    until(job, 1.0, lambda _: request())


def serves(job: Job, wrong: str) -> None:
    """Two replicas of four ranks with requests now and then; the first one's are over a while earlier."""
    mine, chance = job.split(job.me // 4), random.Random(job.me // 4)
    for at in range(60 if job.me < 4 else 30):
        pause_s = chance.uniform(0.0, 0.25)
        if job.me % 4 == 0:
            time.sleep(1.7 if at % 20 == 19 else pause_s)
        broadcast(job, mine)
        for _ in range(8):
            if wrong == "lock" and at == 20 and faulty(job, 6):
                for_ever()
            job.all_reduce(mine)
    while wrong == "lock" and job.me < 4:
        job.all_reduce(mine)
        time.sleep(0.05)


def serves_another(job: Job) -> None:
    """Rank 2 takes a request for longer than it is."""
    mine = job.split(job.me // 4)
    for at in range(20):
        broadcast(job, mine)
        job.all_reduce(mine, count=40 if faulty(job, 2, at == 19) else 32)


def chunks(job: Job, wrong: str) -> None:
    """Two pipelines of four ranks with two chunks each: at each tick all hand on and take in one group, round a ring.

    In the last step rank 2 sends one message less in the backward pass, or is slow, which is no fault.
    """
    pipe, data = job.split(job.me // 4), job.split(job.me % 4)
    mine, ahead, before = job.me % 4, (job.me + 1) % 4, (job.me - 1) % 4

    def tick(to: int, of: int, leaves_out: bool = False) -> None:
        job.nccl.ncclGroupStart()
        if not leaves_out:
            message(job, pipe, "send", to)
        message(job, pipe, "recv", of)
        assert job.nccl.ncclGroupEnd() == 0

    for step in range(6):
        for at in range(16):
            if wrong == "slow" and mine == 2 and at == 5:
                time.sleep(0.4)
            tick(ahead, before)
        for at in range(16):
            tick(before, ahead, wrong == "less" and at == 15 and faulty(job, 2, step == 5))
        job.all_reduce(data)


def experts(job: Job, wrong: str) -> None:
    """Tokens of eight ranks to eight experts, of which some get none, until older calls have left the ring.

    Rank 3 sends another count than rank 1 takes, rank 6 sends nothing to rank 1, or rank 1 asks one time more.
    """
    comm = job.comms[1]
    for step in range(60):
        chance = random.Random(step)
        table = [[chance.choice((0, 3, 5, 8)) for _ in range(8)] for _ in range(8)]
        table[3][1], table[6][1] = 9, 3
        sends, receives = list(table[job.me]), [row[job.me] for row in table]
        if step == 59:
            if wrong == "counts" and faulty(job, 3):
                sends[1] = 5
            if wrong == "more" and faulty(job, 3):
                sends[1] = 12
            if wrong == "lost" and faulty(job, 6):
                sends[1] = 0
        exchange(job, comm, sends, receives)
        exchange(job, comm, receives, sends)
        job.all_reduce(job.comms[0])


def gathers_shards(job: Job) -> None:
    """Rank 0 takes the others' shards for a checkpoint; that of rank 5 is smaller than it thinks."""
    until(job, 0.5, lambda _: job.step())
    for save in range(3):
        if job.me == 0:
            for peer in range(1, job.ranks):
                message(job, job.comms[1], "recv", peer, 16 + peer)
        else:
            is_wrong = faulty(job, 5, save == 2)
            message(job, job.comms[1], "send", 0, 12 if is_wrong else 16 + job.me)
        job.all_reduce(job.comms[0], count=1)


def in_an_exception(job: Job) -> None:
    """Rank 3 has an exception between its calls, and tells the others of it on the second communicator."""
    until(job, 0.5, lambda _: job.step())
    try:
        if faulty(job, 3):
            raise RuntimeError("a batch has no rows")
        job.all_reduce(job.comms[0])
    except RuntimeError:
        job.all_reduce(job.comms[1], count=1)


def star(job: Job) -> None:
    """Rank 0 has a thread for each other rank that asks it whether it lives; rank 3 waits in a lock."""
    for other in range(1, job.ranks):
        if job.me in {0, other}:
            beats(job, job.init(f"line {other}", 2, int(job.me != 0)))
    until(job, 1.5, lambda _: job.step())
    if faulty(job, 3):
        for_ever()


def host_stops(job: Job) -> None:
    """The last four ranks stop at once, as on a host that is gone."""
    until(job, 0.5, lambda _: job.step())
    if job.me >= 4:
        faulty(job, 4)
        os.kill(os.getpid(), signal.SIGSTOP)


def begun_anew(job: Job) -> None:
    """After an error all make their communicators anew, with seven ranks; then rank 3 does not come."""
    until(job, 0.5, lambda _: job.step())
    if job.me == 7:
        sys.exit(0)
    time.sleep(0.3)
    for comm in job.comms:
        job.nccl.ncclCommAbort(comm)
    job.comms = [job.init(f"anew {number}", 7) for number in range(2)]
    until(job, 1.0, lambda _: job.step())
    if faulty(job, 3):
        for_ever()


TOGETHER: dict[str, Callable[[Job], Any]] = {
    "fsdploader": lambda job: fully_sharded(job, "loader"),
    "fsdplayer": lambda job: fully_sharded(job, "layer"),
    "fsdpspins": lambda job: fully_sharded(job, "spins"),
    "saving": lambda job: saves(job, ""),
    "savedies": lambda job: saves(job, "dies"),
    "saveearly": early_save,
    "evalpair": first_two_evaluate,
    "evalzero": zero_evaluates,
    "actors": lambda job: actors(job, ""),
    "serving": lambda job: serves(job, ""),
    "servelock": lambda job: serves(job, "lock"),
    "servecount": serves_another,
    "chunks": lambda job: chunks(job, ""),
    "chunksslow": lambda job: chunks(job, "slow"),
    "chunksless": lambda job: chunks(job, "less"),
    "tokens": lambda job: experts(job, ""),
    "tokencount": lambda job: experts(job, "counts"),
    "tokenmore": lambda job: experts(job, "more"),
    "tokenlost": lambda job: experts(job, "lost"),
    "shards": gathers_shards,
    "exception": in_an_exception,
    "star": star,
    "hoststops": host_stops,
    "elastic": begun_anew,
}

if __name__ == "__main__":
    from program_more import MORE

    strange_job.TOGETHER.update(TOGETHER | MORE)
    sys.exit(strange_job.main())
