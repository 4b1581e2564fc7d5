"""Jobs of eight ranks in the shapes that parallel training has, with one fault each: see parallel_said.py.

    parallel_job.py NCCL RANKS STEPS FAULT FOLDER

Meshes, experts, pipelines and reductions in two stages. Rows of a mesh are four ranks that follow each other. Each job
makes its rounds a few times as it should, before the fault. parallel_odd.py has communicators and processes.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tests" / "watch"))

import strange_job
from job import FLOAT32, SUM, tell
from strange_job import COUNT, LONG_S, Job

ROUNDS = 5
Comm = ctypes.c_void_p


def faulty(job: Job, number: int, now: bool = True) -> bool:
    """Whether this rank does it wrong; it tells when."""
    if job.me == number and now:
        tell(job.folder)
    return job.me == number and now


def all_gather(job: Job, comm: Comm, count: int = 8) -> None:
    size = ctypes.c_size_t(count)
    assert job.nccl.ncclAllGather(job.values, job.others, size, FLOAT32, comm, None) == 0


def reduce_scatter(job: Job, comm: Comm, count: int = 8) -> None:
    size = ctypes.c_size_t(count)
    assert job.nccl.ncclReduceScatter(job.others, job.values, size, FLOAT32, SUM, comm, None) == 0


def broadcast(job: Job, comm: Comm, root: int = 0) -> None:
    size = ctypes.c_size_t(COUNT)
    assert job.nccl.ncclBroadcast(job.values, job.values, size, FLOAT32, root, comm, None) == 0


def reduce_to_first(job: Job, comm: Comm) -> None:
    size = ctypes.c_size_t(COUNT)
    assert job.nccl.ncclReduce(job.values, job.others, size, FLOAT32, SUM, 0, comm, None) == 0


def message(job: Job, comm: Comm, kind: str, peer: int, count: int = 16) -> None:
    call = job.nccl.ncclSend if kind == "send" else job.nccl.ncclRecv
    buffer = job.values if kind == "send" else job.others
    assert call(buffer, ctypes.c_size_t(count), FLOAT32, peer, comm, None) == 0


def exchange(job: Job, comm: Comm, sends: Sequence[int], receives: Sequence[int]) -> None:
    """Tokens to and from each expert; nothing is sent where there are none."""
    job.nccl.ncclGroupStart()
    for peer, (out, into) in enumerate(zip(sends, receives, strict=True)):
        if out:
            message(job, comm, "send", peer, out)
        if into:
            message(job, comm, "recv", peer, into)
    assert job.nccl.ncclGroupEnd() == 0


def rows_and_columns(job: Job) -> tuple[Comm, Comm]:
    return job.split(job.me // 4), job.split(job.me % 4)


def mesh_skip(job: Job) -> None:
    """Rank 2 leaves out its row's call of the sixth round."""
    row, column = rows_and_columns(job)
    for at in range(ROUNDS + 1):
        if not faulty(job, 2, at == ROUNDS):
            job.all_reduce(row)
        job.all_reduce(column)


def mesh_circle(job: Job) -> None:
    """Ranks 2 and 7 call on their column before their row, the others the other way round."""
    row, column = rows_and_columns(job)
    for at in range(ROUNDS + 1):
        turned = at == ROUNDS and job.me in {2, 7}
        faulty(job, 2, at == ROUNDS)
        for comm in (column, row) if turned else (row, column):
            job.all_reduce(comm)


def mesh_harmless(job: Job) -> None:
    """Rank 2 alone does so, which nobody has to wait for."""
    row, column = rows_and_columns(job)
    for at in range(ROUNDS + 1):
        for comm in (column, row) if at == ROUNDS and job.me == 2 else (row, column):
            job.all_reduce(comm)


def three_dimensions(job: Job) -> None:
    """Pairs in three directions; rank 5 leaves its gradients' reduction out."""
    tensor, data, stage = (job.split(job.me & ~bit & 7) for bit in (1, 2, 4))
    for at in range(ROUNDS + 1):
        job.all_reduce(tensor)
        if not faulty(job, 5, at == ROUNDS):
            job.all_reduce(data)
        job.all_reduce(stage)


def other_sequence(job: Job) -> None:
    """Rank 3 has a sequence of half the length in its row."""
    row, _ = rows_and_columns(job)
    for at in range(ROUNDS + 1):
        job.all_reduce(row, count=COUNT // 2 if faulty(job, 3, at == ROUNDS) else COUNT)


def experts(job: Job, wrong: str) -> None:
    """Rows of four experts; how much goes to whom differs, and both sides know it, but for rank 2."""
    row, _ = rows_and_columns(job)
    mine = job.me % 4
    for at in range(ROUNDS + 1):
        sends = [8 + 4 * ((mine + peer) % 3) for peer in range(4)]
        receives = list(sends)
        if faulty(job, 2, at == ROUNDS and bool(wrong)):
            if wrong == "skip":
                break
            sends[3] = 0 if wrong == "missing" else sends[3] // 2
        exchange(job, row, sends, receives)


def stages(job: Job, wrong: Callable[[int], int] = int, warm: int | None = None, batches: int = 8) -> None:
    """One forward, one backward: a pipeline over all ranks. `wrong` gives the number of micro-batches."""
    comm, last, batches = job.comms[0], job.ranks - 1, wrong(batches)
    ahead = min(batches, last - job.me) if warm is None else warm

    def forward() -> None:
        if job.me > 0:
            message(job, comm, "recv", job.me - 1)
        if job.me < last:
            message(job, comm, "send", job.me + 1)

    def backward() -> None:
        if job.me < last:
            message(job, comm, "recv", job.me + 1)
        if job.me > 0:
            message(job, comm, "send", job.me - 1)

    for _ in range(ahead):
        forward()
    for _ in range(batches - ahead):
        forward()
        backward()
    for _ in range(ahead):
        backward()


def pipeline(job: Job, wrong: str) -> None:
    """Rank 2 takes one micro-batch less or more, or begins with too few; or rank 5 is slow, which is no fault."""
    stages(job)
    if wrong == "slow" and job.me == 5:
        for _ in range(5):
            time.sleep(0.3)
    is_wrong = wrong != "slow" and faulty(job, 2)
    change = {"less": -1, "more": 1}.get(wrong, 0) if is_wrong else 0
    stages(job, lambda usual: usual + change, 0 if is_wrong and wrong == "warm" else None)


def two_stages(job: Job, wrong: str) -> None:
    """Within a node to its first rank, between the first ranks, and back; two nodes of four."""
    node = job.init(f"node {job.me // 4}", 4, job.me % 4)
    leaders = job.init("leaders", 2, job.me // 4) if job.me % 4 == 0 else None
    for at in range(ROUNDS + 1):
        if wrong == "flat" and at == ROUNDS and job.me < 4:
            faulty(job, 0)
            job.all_reduce(job.comms[0])
            continue
        reduce_to_first(job, node)
        if leaders:
            if wrong == "leader" and faulty(job, 4, at == ROUNDS):
                threading.Event().wait(LONG_S)
            job.all_reduce(leaders)
        broadcast(job, node, 1 if wrong == "root" and faulty(job, 5, at == ROUNDS) else 0)


def accumulates(job: Job) -> None:
    """Gradients over four batches, on rank 2 over three; then the epoch's mean."""
    faulty(job, 2)
    every = 3 if job.me == 2 else 4
    for batch in range(12):
        if batch % every == every - 1:
            job.all_reduce(job.comms[0])
    job.all_reduce(job.comms[0], count=1)


def buckets(job: Job, wrong: str) -> None:
    """Buckets of gradients; rank 2 has them in another order, or one less."""
    sizes = [48, 48, 48] if wrong == "less" else [16, 32, 64]
    for at in range(ROUNDS + 1):
        mine = list(sizes)
        if faulty(job, 2, at == ROUNDS):
            mine = mine[1:] if wrong == "less" else mine[::-1]
        for size in mine:
            job.all_reduce(job.comms[0], count=size)
        job.all_reduce(job.comms[0], count=1)


def two_barriers(job: Job) -> None:
    """A barrier is an all-reduce of one element; rank 2 has one more."""
    job.all_reduce(job.comms[0], count=1)
    if faulty(job, 2):
        job.all_reduce(job.comms[0], count=1)


def writes(job: Job, seconds: float) -> None:
    """Healthy: rank 0 writes a checkpoint."""
    if job.me == 0:
        time.sleep(seconds)
    job.all_reduce(job.comms[0], count=1)


def some_evaluate(job: Job) -> None:
    """Healthy: two ranks evaluate on a communicator of their own while the others wait at the barrier."""
    if job.me < 2:
        pair = job.init("pair", 2, job.me)
        for _ in range(20):
            time.sleep(0.12)
            job.all_reduce(pair)
    job.all_reduce(job.comms[0], count=1)


def some_gather(job: Job) -> None:
    """Ranks 0 and 1 evaluate, and gather the results of all."""
    faulty(job, 0)
    if job.me < 2:
        all_gather(job, job.comms[0])


def on_a_plateau(job: Job) -> None:
    """Each rank decides by its own loss to hand the learning rate on; ranks 2 and 5 do."""
    faulty(job, 2)
    if job.me in {2, 5}:
        broadcast(job, job.comms[0])


def prefetches(job: Job) -> None:
    """Rank 2 is in the backward pass already: a reduce-scatter of as much as the others gather."""
    for at in range(ROUNDS + 1):
        if faulty(job, 2, at == ROUNDS):
            reduce_scatter(job, job.comms[0])
        else:
            all_gather(job, job.comms[0])


def by_a_file(job: Job) -> None:
    """The others wait for a word of rank 2, which it gives after a reduction of all."""
    if faulty(job, 2):
        job.all_reduce(job.comms[0])
        (job.folder / "word").touch()
    while not (job.folder / "word").exists():
        time.sleep(0.05)


def one_in_a_group(job: Job) -> None:
    """Healthy: rank 2 puts both calls into one group."""
    if job.me == 2:
        job.nccl.ncclGroupStart()
    job.step()
    if job.me == 2:
        assert job.nccl.ncclGroupEnd() == 0


def to_itself(job: Job) -> None:
    """A ring of messages; rank 2 sends to itself in place of rank 3."""
    before, after = (job.me - 1) % job.ranks, (job.me + 1) % job.ranks
    for at in range(ROUNDS + 1):
        job.nccl.ncclGroupStart()
        message(job, job.comms[0], "send", job.me if faulty(job, 2, at == ROUNDS) else after)
        message(job, job.comms[0], "recv", before)
        job.nccl.ncclGroupEnd()


TOGETHER: dict[str, Callable[[Job], Any]] = {
    "meshskip": mesh_skip,
    "meshcircle": mesh_circle,
    "meshfine": mesh_harmless,
    "mesh3": three_dimensions,
    "sequence": other_sequence,
    "moefine": lambda job: experts(job, ""),
    "moecounts": lambda job: experts(job, "counts"),
    "moemissing": lambda job: experts(job, "missing"),
    "moeskip": lambda job: experts(job, "skip"),
    "microless": lambda job: pipeline(job, "less"),
    "micromore": lambda job: pipeline(job, "more"),
    "microwarm": lambda job: pipeline(job, "warm"),
    "microslow": lambda job: pipeline(job, "slow"),
    "hierroot": lambda job: two_stages(job, "root"),
    "hierleader": lambda job: two_stages(job, "leader"),
    "hierflat": lambda job: two_stages(job, "flat"),
    "accum": accumulates,
    "bucketorder": lambda job: buckets(job, "order"),
    "bucketless": lambda job: buckets(job, "less"),
    "barriers": two_barriers,
    "writes": lambda job: writes(job, 2.4),
    "writeslong": lambda job: writes(job, 8.0),
    "evalsome": some_evaluate,
    "evalworld": some_gather,
    "plateau": on_a_plateau,
    "prefetch": prefetches,
    "store": by_a_file,
    "onegroup": one_in_a_group,
    "selfsend": to_itself,
}

if __name__ == "__main__":
    from parallel_odd import ALONE, MORE, as_launched

    strange_job.ALONE.update(ALONE)
    strange_job.TOGETHER.update(TOGETHER | MORE)
    as_launched(sys.argv[4])
    sys.exit(strange_job.main())
