"""All-reduce of floats through torch.distributed's gloo backend, with the sizes and the rotation of sweep.h."""

from __future__ import annotations

import os
import sys
import time

import torch
import torch.distributed as dist


def iterations_for(size: int) -> int:
    """Fewer than sweep.h where a call is short: gloo takes tens of microseconds."""
    if size <= 64 << 10:
        return 500
    if size <= 1 << 20:
        return 100
    return 20 if size <= 16 << 20 else 5


def measure(rank: int, buffer: torch.Tensor, size: int) -> float:
    count, iterations = size // 4, iterations_for(size)
    # Views are made beforehand, so that Python's own time is not gloo's.
    steps = min(buffer.numel() // count, iterations)
    views = [buffer[i * count : (i + 1) * count] for i in range(steps)]
    for i in range(iterations // 10 + 1):
        dist.all_reduce(views[i % steps])
    dist.barrier()
    begin = time.perf_counter()
    for i in range(iterations):
        dist.all_reduce(views[i % steps])
    elapsed = torch.tensor([(time.perf_counter() - begin) / iterations * 1e6], dtype=torch.float64)
    dist.all_reduce(elapsed)
    return float(elapsed[0]) / dist.get_world_size()


def main(rank: int, port: str, low: int, high: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    buffer = torch.zeros(high // 4, dtype=torch.float32)
    size = low
    while size <= high:
        time_us = measure(rank, buffer, size)
        if rank == 0:
            print(f"{size} {time_us:.4f}", flush=True)
        size *= 2
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
