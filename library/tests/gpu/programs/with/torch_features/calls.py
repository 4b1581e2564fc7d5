"""Calls of torch.distributed that training scripts and servers make, with whole numbers and right answers."""

from __future__ import annotations

import tempfile
import threading
from contextlib import nullcontext
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as with_gradients
from job import BACKEND, GPU, Result, batch, case, device, join, whole
from torch.distributed import _functional_collectives as functional
from torch.distributed import checkpoint
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor


@case(ranks=4)
def every_type() -> Result:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    results: Result = []
    for kind in (torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64):
        mine = whole(ranks, 1000).abs()[rank].to(kind)
        for operation in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT):
            if not GPU and kind in {torch.float16, torch.bfloat16}:
                continue
            got = mine.clone()
            dist.all_reduce(got, operation)
            results.append(got.double())
    complexes = torch.complex(*whole(2 * ranks, 10)[2 * rank : 2 * rank + 2])
    dist.all_reduce(complexes)
    flags = whole(ranks, 77)[rank] > 0
    every = [torch.empty_like(flags) for _ in range(ranks)]
    dist.all_gather(every, flags)
    assert torch.equal(torch.stack(every), whole(ranks, 77) > 0)
    return [*results, torch.view_as_real(complexes)]


@case()
def scaled_and_averaged() -> Result:
    if not GPU:
        return []
    mine = whole(2, 4096)[dist.get_rank()]
    average, scaled = mine.clone(), mine.clone()
    dist.all_reduce(average, dist.ReduceOp.AVG)
    dist.all_reduce(scaled, dist._make_nccl_premul_sum(0.5))
    assert torch.equal(average, whole(2, 4096).mean(0)) and torch.equal(scaled, average)
    out = torch.empty(2048, device=device())
    dist.reduce_scatter_tensor(out, mine, dist.ReduceOp.AVG)
    assert torch.equal(out, whole(2, 4096).mean(0)[2048 * dist.get_rank() :][:2048])
    return [average, scaled, out]


@case(ranks=4)
def uneven_exchange() -> Result:
    """A mixture of experts: each rank sends other counts, some of them none, and takes gradients back."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    results: Result = []
    for step in range(5):
        torch.manual_seed(step)
        counts = torch.randint(0, 300, (ranks, ranks))
        counts[step % ranks] = 0
        mine = torch.arange(int(counts[rank].sum()) * 8, device=device(), dtype=torch.float32).reshape(-1, 8)
        mine = (mine + 10**5 * rank).requires_grad_()
        out = torch.empty(int(counts[:, rank].sum()), 8, device=device())
        out = with_gradients.all_to_all_single(out, mine, counts[:, rank].tolist(), counts[rank].tolist())
        (out * (rank + 1)).sum().backward()
        assert mine.grad is not None
        weights = torch.repeat_interleave(torch.arange(1.0, ranks + 1), counts[rank]).to(device())
        assert torch.equal(mine.grad, weights[:, None].expand_as(mine))
        results += [out.detach().sum(), mine.grad.sum()]
    return results


@case(ranks=4)
def ring_of_sends() -> Result:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    block = whole(ranks, 50_000)[rank].clone()
    total = block.clone()
    for _ in range(ranks - 1):
        taken = torch.empty_like(block)
        works = dist.batch_isend_irecv(
            [
                dist.P2POp(dist.isend, block, (rank + 1) % ranks),
                dist.P2POp(dist.irecv, taken, (rank - 1) % ranks),
            ]
        )
        for work in works:
            work.wait()
        total += taken
        block = taken
    assert torch.equal(total, whole(ranks, 50_000).sum(0))
    return [total]


@case(ranks=4)
def groups_that_come_and_go() -> Result:
    rank = dist.get_rank()
    results: Result = []
    for turn in range(3):
        halves = [dist.new_group([0, 1]), dist.new_group([2, 3])]
        evens = dist.new_group([0, 2], timeout=timedelta(seconds=30))
        for size in (3, 1024, 300_000):
            mine = whole(4, size)[rank] + turn
            dist.all_reduce(mine, group=halves[rank // 2])
            if rank % 2 == 0:
                dist.all_reduce(mine, dist.ReduceOp.MAX, group=evens)
            dist.broadcast(mine, src=3)
            results.append(mine)
        for group in (halves[rank // 2], *([evens] if rank % 2 == 0 else [])):
            dist.destroy_process_group(group)
    return results


@case()
def begun_three_times() -> Result:
    results: Result = []
    for turn in range(3):
        mine = whole(2, 9999, turn)[dist.get_rank()]
        dist.all_reduce(mine)
        assert torch.equal(mine, whole(2, 9999, turn).sum(0))
        results.append(mine)
        dist.barrier()
        dist.destroy_process_group()
        join()
    return results


@case(ranks=4)
def objects() -> Result:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    gathered: list[object] = [None] * ranks
    dist.all_gather_object(gathered, {"rank": rank, "text": "x" * (rank * 1000)})
    shared = [list(range(500)) if rank == 1 else None, "end" if rank == 1 else None]
    dist.broadcast_object_list(shared, src=1)
    assert shared == [list(range(500)), "end"]
    assert [len(each["text"]) for each in gathered if isinstance(each, dict)] == [1000 * one for one in range(ranks)]
    return [torch.tensor(float(len(str(gathered))))]


@case()
def many_at_once() -> Result:
    """Asynchronous calls on streams of the program, whose buffers go before they have ended."""
    rank = dist.get_rank()
    results: Result = []
    for turn in range(6):
        works = []
        for size in (1, 5, 4096, 262_144, 3_000_001):
            mine = whole(2, size, size + turn)[rank].clone()
            works.append((mine, dist.all_reduce(mine, async_op=True)))
            gone = torch.full((size,), float(rank), device=device())
            dist.all_reduce(gone, async_op=True)
            del gone
        for (mine, work), size in zip(works, (1, 5, 4096, 262_144, 3_000_001), strict=True):
            work.wait()
            assert torch.equal(mine, whole(2, size, size + turn).sum(0))
        results.append(works[3][0].sum())
        if GPU:
            torch.cuda.empty_cache()
    return results


@case()
def two_threads_two_groups() -> Result:
    groups = [dist.new_group([0, 1]) for _ in range(2)]
    for group in groups:
        dist.all_reduce(torch.ones(1, device=device()), group=group)
    results: dict[int, torch.Tensor] = {}

    def work(index: int) -> None:
        if GPU:
            torch.cuda.set_device(device())
        stream = torch.cuda.Stream() if GPU else None
        with torch.cuda.stream(stream):
            total = torch.zeros(10_000, device=device())
            given = torch.full((10_000,), float(dist.get_rank() + 1 + index), device=device())
            for _ in range(50):
                mine = given.clone()
                dist.all_reduce(mine, group=groups[index])
                total += mine
            results[index] = total
        if stream is not None:
            stream.synchronize()

    threads = [threading.Thread(target=work, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [float(results[index][0]) for index in range(2)] == [150.0, 250.0]
    return [results[0], results[1]]


@case()
def sharded_checkpoint() -> Result:
    mesh = init_device_mesh("cuda" if GPU else "cpu", (2,))
    state = {"weight": distribute_tensor(whole(64, 128), mesh, [Shard(0)])}
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else ""]
    dist.broadcast_object_list(folder, src=0)
    checkpoint.save(state, checkpoint_id=folder[0])
    other = {"weight": distribute_tensor(torch.zeros(64, 128, device=device()), mesh, [Shard(1)])}
    checkpoint.load(other, checkpoint_id=folder[0])
    assert torch.equal(other["weight"].full_tensor(), whole(64, 128))
    return [other["weight"].full_tensor()]


@case(ranks=4, tolerance=1e-6)
def compiled_collectives() -> Result:
    def step(given: torch.Tensor) -> torch.Tensor:
        summed = functional.all_reduce(given * 2, "sum", list(range(4)))
        gathered = functional.all_gather_tensor(summed[:8] + 1, 0, list(range(4)))
        return functional.reduce_scatter_tensor(gathered.relu(), "sum", 0, list(range(4)))

    compiled = torch.compile(step)
    return [compiled(batch(turn)) for turn in range(4)]


@case()
def in_a_graph() -> Result:
    if not GPU:
        return []
    rank = dist.get_rank()
    given = whole(2, 65_536)[rank]
    out, gathered = torch.empty_like(given), torch.empty(2 * given.numel(), device=device())
    side = torch.cuda.Stream()
    for _ in range(2):
        dist.all_reduce(given.clone())
        dist.all_gather_into_tensor(gathered, given)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out.copy_(given)
        dist.all_reduce(out)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            dist.all_gather_into_tensor(gathered, given)
        torch.cuda.current_stream().wait_stream(side)
        out.mul_(2)
    results = []
    for turn in range(20):
        given.copy_(whole(2, 65_536, turn)[rank])
        graph.replay()
        assert torch.equal(out, 2 * whole(2, 65_536, turn).sum(0))
        assert torch.equal(gathered, whole(2, 65_536, turn).flatten())
        results.append(out.sum())
    return results


@case()
def windows_of_a_pool() -> Result:
    if not GPU:
        return []
    backend = dist.group.WORLD._get_backend(device())  # type: ignore[union-attr]
    pool = torch.cuda.MemPool(backend.mem_allocator)
    with torch.cuda.use_mem_pool(pool):
        mine = torch.empty(1 << 20, device=device())
    dist.all_reduce(torch.ones(1, device=device()))
    backend.register_mem_pool(pool)
    results = []
    for turn in range(10):
        mine.copy_(whole(2, 1 << 20, turn)[dist.get_rank()])
        dist.all_reduce(mine)
        assert torch.equal(mine, whole(2, 1 << 20, turn).sum(0))
        results.append(mine.sum())
    backend.deregister_mem_pool(pool)
    return results


@case()
def split_from_a_group() -> Result:
    if BACKEND != "nccl":
        return []
    mine = whole(2, 5000)[dist.get_rank()].clone()
    dist.all_reduce(mine)
    for _ in range(4):
        part = dist.split_group(split_ranks=[[0, 1]])
        again = whole(2, 5000)[dist.get_rank()].clone()
        dist.all_reduce(again, group=part)
        assert torch.equal(again, mine)
        dist.destroy_process_group(part)
    return [mine]


@case(ranks=4)
def coalesced() -> Result:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    given = [whole(ranks, size)[rank].clone() for size in (7, 1000, 123_457)]
    if not GPU:
        for each in given:
            dist.all_reduce(each)
        return given
    with dist._coalescing_manager(device=device(), async_ops=True) as works:
        for each in given:
            dist.all_reduce(each)
    works.wait()
    out = [torch.empty(ranks, size, device=device()) for size in (8, 4096)]
    with dist._coalescing_manager(device=device()):
        for each, size in zip(out, (8, 4096), strict=True):
            dist.all_gather_into_tensor(each.flatten(), whole(ranks, size)[rank].clone())
    for each, size in zip(out, (8, 4096), strict=True):
        assert torch.equal(each, whole(ranks, size))
    for each, size in zip(given, (7, 1000, 123_457), strict=True):
        assert torch.equal(each, whole(ranks, size).sum(0))
    return [*given, *out]


@case(ranks=4, tolerance=1e-6)
def gradients_through_collectives() -> Result:
    mine = batch(1).requires_grad_()
    gathered = torch.cat(with_gradients.all_gather(mine))
    loss = (gathered @ gathered.T).square().mean()
    summed = with_gradients.all_reduce(loss)
    summed.backward()
    assert mine.grad is not None
    return [summed.detach(), mine.grad]


@case(ranks=4)
def long_calls_again_and_again() -> Result:
    """Gathers, scatters and sums of the same buffers, which are now and then given back to the driver and made anew."""
    rank, ranks, count = dist.get_rank(), dist.get_world_size(), 6 << 20 if GPU else 1 << 10
    results: Result = []
    stream = torch.cuda.Stream(priority=-1) if GPU else None
    buffers: Result = []
    for step in range(24):
        if step % 8 == 0:
            buffers = []
            if GPU:
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
            buffers = [torch.empty(size, device=device()) for size in (count, ranks * count, count)]
        mine, every, summed = buffers
        mine.copy_(torch.arange(count, device=device()).remainder_(251).add_(1000 * rank + step))
        with torch.cuda.stream(stream) if stream else nullcontext():
            if stream:
                stream.wait_stream(torch.cuda.default_stream())
            dist.all_gather_into_tensor(every, mine)
            dist.reduce_scatter_tensor(summed, every)
            dist.all_reduce(summed)
        if stream:
            torch.cuda.default_stream().wait_stream(stream)
        expected = torch.arange(count, device=device()).remainder_(251)
        for other in range(ranks):
            assert torch.equal(every[other * count :][:count], expected.add(1000 * other + step).float())
        # A rank's own block, which all have alike, comes `ranks` times; then the blocks of all ranks are added.
        total = expected.mul(ranks).add(sum(1000 * other + step for other in range(ranks))).mul(ranks)
        assert torch.equal(summed, total.float())
        results.append(summed[:100].clone())
    return results
