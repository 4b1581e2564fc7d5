"""Jobs of PyTorch with one fault each, as users write them, for torch_job.py."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

from torch_rank import AT, FAULTY, LONG_S, STEPS, WIDTH, Rank, metrics


def uneven(rank: Rank) -> None:
    """Rank 1 has a batch less than the others, and goes on to the barrier at the end of the epoch."""
    from torch import distributed

    model = rank.model()
    for _ in range(STEPS - rank.is_faulty):
        rank.step(model)
    if rank.is_faulty:
        rank.tell()
    distributed.barrier()
    metrics(rank)


def skips_backward(rank: Rank) -> None:
    """`if loss.isnan(): continue` on one rank, which is through a step earlier."""
    model = rank.model()
    for step in range(STEPS):
        loss = model(rank.ones(8, WIDTH)).square().mean()
        if rank.is_faulty and step == AT:
            rank.tell()
            continue
        loss.backward()
        loss.item()


def fsdp_order(rank: Rank) -> None:
    """FSDP2; two branches of other sizes, which rank 1 takes in another order, as by a set's."""
    from torch import distributed, nn
    from torch.distributed.fsdp import fully_shard

    mesh = distributed.device_mesh.init_device_mesh(rank.device.type, (rank.ranks,))
    branches = nn.ModuleList([nn.Linear(WIDTH, 48), nn.Linear(WIDTH, 96)]).to(rank.device)
    for branch in branches:
        fully_shard(branch, mesh=mesh)
    for step in range(STEPS):
        turned = rank.is_faulty and step == AT
        if turned:
            rank.tell()
        order = reversed(list(branches)) if turned else list(branches)
        loss = sum(branch(rank.ones(8, WIDTH)).square().mean() for branch in order)
        loss.backward()
        loss.item()


def unused(rank: Rank) -> None:
    """A head that is not used in one step, without find_unused_parameters: PyTorch raises in the step after."""
    from torch import nn

    class TwoHeads(nn.Module):
        """The first head alone where told so."""

        def __init__(self) -> None:
            super().__init__()
            self.heads = nn.ModuleList([nn.Linear(WIDTH, 10), nn.Linear(WIDTH, 10)])
            self.alone = False

        def forward(self, rows: Any) -> Any:
            return sum(head(rows) for head in list(self.heads)[: 1 if self.alone else 2])

    model = rank.model(module=TwoHeads())
    for step in range(STEPS):
        if rank.is_faulty and step == AT:
            rank.tell()
        model.module.alone = rank.is_faulty and step == AT
        rank.step(model)


def objects(rank: Rank) -> None:
    """Healthy: all_gather_object of other sizes on each rank."""
    from torch import distributed

    for step in range(STEPS):
        gathered: list[Any] = [None] * rank.ranks
        distributed.all_gather_object(gathered, {"rank": rank.me, "text": "x" * (10 if rank.me else 100_000 * step)})


def shapes(rank: Rank) -> None:
    """all_gather of predictions, of which the last batch of rank 1 has fewer."""
    from torch import distributed

    for step in range(STEPS):
        rows = 5 if rank.is_faulty and step == AT else 8
        if rows == 5:
            rank.tell()
        mine = rank.ones(rows, WIDTH)
        gathered = [rank.ones(rows, WIDTH) for _ in range(rank.ranks)]
        distributed.all_gather(gathered, mine)
        gathered[0].sum().item()


def barrier_of_one(rank: Rank) -> None:
    """`if rank == 0: barrier()`."""
    from torch import distributed

    model = rank.model()
    for step in range(STEPS):
        if rank.me == 0 and step == AT:
            rank.tell()
            distributed.barrier()
        rank.step(model)


def checkpoint(rank: Rank) -> None:
    """Healthy: torch.distributed.checkpoint, whose writing takes rank 1 long, and rank 0 at another time."""
    from torch.distributed import checkpoint as saved

    class Slow(saved.FileSystemWriter):
        """A file system that is slow for one rank."""

        def write_data(self, plan: Any, planner: Any) -> Any:
            time.sleep(rank.pause_s if slow else 0.0)
            return super().write_data(plan, planner)

    model = rank.model()
    for step in range(STEPS):
        rank.step(model)
        if step % 5 == 4:
            slow = rank.me == (FAULTY if step == 4 else 0)
            saved.save({"model": model.module.state_dict()}, storage_writer=Slow(str(rank.folder / f"step {step}")))


def loader(rank: Rank) -> None:
    """A worker of rank 1's data loader hangs."""
    from torch.utils.data import DataLoader, IterableDataset

    class Rows(IterableDataset[Any]):
        """Rows of ones; one is never read to its end."""

        def __iter__(self) -> Iterator[Any]:
            import torch

            for step in range(STEPS):
                if rank.is_faulty and step == AT:
                    rank.tell()
                    time.sleep(LONG_S)
                yield torch.ones(8, WIDTH)

    model = rank.model()
    for rows in DataLoader(Rows(), batch_size=None, num_workers=1, multiprocessing_context="fork"):
        loss = model(rows.to(rank.device)).square().mean()
        loss.backward()
        loss.item()


def swallowed(rank: Rank) -> None:
    """`except RuntimeError: continue` around a step; then the epoch's metrics."""
    from torch import distributed

    model = rank.model()
    for step in range(STEPS):
        try:
            if rank.is_faulty and step == AT:
                rank.tell()
                raise RuntimeError("CUDA out of memory")
            rank.step(model)
        except RuntimeError as why:
            if "out of memory" not in str(why):
                raise
    gathered = rank.ones(rank.ranks * 4)
    distributed.all_gather_into_tensor(gathered, rank.ones(4))
    gathered.sum().item()


def tensor_parallel(rank: Rank) -> None:
    """Inference; a request has another batch size on rank 1."""
    import torch
    from torch import distributed

    weight = rank.ones(WIDTH, WIDTH)
    with torch.no_grad():
        for request in range(STEPS):
            rows = 4 if rank.is_faulty and request == AT else 8
            if rows == 4:
                rank.tell()
            out = rank.ones(rows, WIDTH) @ weight
            distributed.all_reduce(out)
            out.sum().item()


def graph(rank: Rank) -> None:
    """A CUDA graph with an all-reduce, which rank 1 replays once less before the metrics."""
    import torch
    from torch import distributed

    values = rank.ones(1024)
    distributed.all_reduce(values)
    replay: Callable[[], Any] = lambda: distributed.all_reduce(values)  # noqa: E731
    if rank.device.type == "cuda":
        torch.cuda.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            distributed.all_reduce(values)
        replay = captured.replay
    for _ in range(STEPS - rank.is_faulty):
        replay()
        values.fill_(1.0)
        values.sum().item()
    if rank.is_faulty:
        rank.tell()
    metrics(rank)


def evaluates(rank: Rank) -> None:
    """Healthy: rank 0 alone evaluates through DDP, and PyTorch leaves its next broadcast of buffers out."""
    import torch

    model = rank.model(normed=True)
    for step in range(STEPS):
        if rank.me == 0 and step == AT:
            rank.tell()
            with torch.no_grad():
                model(rank.ones(8, WIDTH)).sum().item()
        rank.step(model)


def accumulates(rank: Rank) -> None:
    """Gradients are gathered over four batches, on rank 1 over three."""
    from torch import distributed

    model, every = rank.model(), 3 if rank.is_faulty else 4
    if rank.is_faulty:
        rank.tell()
    for batch in range(24):
        with nullcontext() if batch % every == every - 1 else model.no_sync():
            rank.step(model)
    distributed.barrier()
    metrics(rank)


def not_waited(rank: Rank) -> None:
    """Healthy: handles that nobody waits for."""
    from torch import distributed

    kept = []
    for _ in range(STEPS):
        values = rank.ones(1 << 16)
        kept.append((values, distributed.all_reduce(values, async_op=True)))
    metrics(rank)


def experts(rank: Rank) -> None:
    """Tokens for experts; rank 1 drops half of those for rank 0 after it has told how many there are."""
    from torch import distributed

    rows = 2048
    for step in range(STEPS):
        counts = [rows] * rank.ranks
        if rank.is_faulty and step == AT:
            rank.tell()
            counts[0] //= 2
        into = rank.ones(rows * rank.ranks, 1024)
        distributed.all_to_all_single(into, rank.ones(sum(counts), 1024), [rows] * rank.ranks, counts)
        into.sum().item()
    metrics(rank)


def pipeline(rank: Rank) -> None:
    """Micro-batches go from rank to rank; the last one takes one for more than there are."""
    from torch import distributed

    last = rank.ranks - 1
    for step in range(STEPS):
        batches = 4
        if rank.me == last and step == AT:
            rank.tell()
            batches = 5
        for _ in range(batches):
            values = rank.ones(8, WIDTH)
            if rank.me > 0:
                distributed.recv(values, rank.me - 1)
                values.sum().item()
            if rank.me < last:
                distributed.send(values, rank.me + 1)
        metrics(rank)


def other_order(rank: Rank) -> None:
    """Two groups of all ranks; rank 1 calls on the second one first."""
    from torch import distributed

    groups = [distributed.new_group(list(range(rank.ranks))) for _ in range(2)]
    for step in range(STEPS):
        turned = rank.is_faulty and step == AT
        if turned:
            rank.tell()
        for group in reversed(groups) if turned else groups:
            values = rank.ones(1024)
            distributed.all_reduce(values, group=group)
            values.sum().item()


JOBS: dict[str, Callable[[Rank], None]] = {
    "uneven": uneven,
    "skips": skips_backward,
    "fsdp": fsdp_order,
    "unused": unused,
    "objects": objects,
    "shapes": shapes,
    "barrier": barrier_of_one,
    "checkpoint": checkpoint,
    "loader": loader,
    "swallowed": swallowed,
    "tensor": tensor_parallel,
    "graph": graph,
    "evaluates": evaluates,
    "accumulates": accumulates,
    "handles": not_waited,
    "experts": experts,
    "pipeline": pipeline,
    "order": other_order,
}
