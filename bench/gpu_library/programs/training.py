"""One rank of a small training step (DDP) or of tensor-parallel layers; says its losses as the bits that they are.

Started once per rank with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT set, as torchrun does.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Size:
    """Of the model, and how often it is stepped."""

    width: int
    layers: int
    rows: int
    steps: int
    warmup: int


SIZES = {
    "tiny": Size(width=16, layers=2, rows=4, steps=4, warmup=1),
    "large": Size(width=4096, layers=8, rows=64, steps=40, warmup=5),
}


def bits(value: float) -> str:
    """A float as the hexadecimal of its 32 bits."""
    return struct.pack(">f", value).hex()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=("ddp", "tensor_parallel", "tensor_parallel_graph"))
    parser.add_argument("--backend", choices=("nccl", "gloo"), default="nccl")
    parser.add_argument("--size", choices=tuple(SIZES), default="large")
    args = parser.parse_args()
    import torch
    import torch.distributed as dist

    gpu = args.backend == "nccl"
    if not gpu:
        torch.set_num_threads(1)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    dist.init_process_group(args.backend)
    try:
        workload = ddp if args.workload == "ddp" else tensor_parallel
        found = workload(torch, dist, device, SIZES[args.size], args.workload.endswith("_graph"))
        print(json.dumps({"training": {"rank": dist.get_rank(), **found}}), flush=True)
    finally:
        dist.destroy_process_group()
    return 0


def ddp(torch: Any, dist: Any, device: Any, size: Size, _graph: bool) -> dict[str, Any]:
    """Steps of plain SGD. Every rank has inputs of its own, and one set that all share to compare losses on."""
    model = _model(torch, size).to(device)
    wrapped = torch.nn.parallel.DistributedDataParallel(
        model, device_ids=[device.index] if device.index is not None else None
    )
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=1e-3)
    mine = _inputs(torch, size, device, seed=100 + dist.get_rank())
    shared = _inputs(torch, size, device, seed=99)
    losses: list[str] = []
    own: list[str] = []

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss = wrapped(mine).square().mean()
        loss.backward()
        optimizer.step()
        own.append(bits(loss.item()))

    def look() -> None:
        with torch.no_grad():
            losses.append(bits(model(shared).square().mean().item()))

    times = _timed(torch, dist, device, size, step, look)
    return {"shared_losses": losses, "own_losses": own, "step_ms": times, "parameters": _hash(model.parameters())}


def tensor_parallel(torch: Any, dist: Any, device: Any, size: Size, graph: bool) -> dict[str, Any]:
    """Layers of which each rank holds a part: columns of the first matrix, rows of the second, then an all-reduce."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    part = size.width // ranks
    generator = torch.Generator().manual_seed(7)
    layers = []
    for _ in range(size.layers):
        first = torch.randn(size.width, part * ranks, generator=generator) * size.width**-0.5
        second = torch.randn(part * ranks, size.width, generator=generator) * size.width**-0.5
        mine = slice(rank * part, (rank + 1) * part)
        layers.append((first[:, mine].to(device, dtype).contiguous(), second[mine].to(device, dtype).contiguous()))
    inputs = _inputs(torch, size, device, seed=99).to(dtype)

    def forward() -> Any:
        x = inputs
        for first, second in layers:
            y = torch.relu(x @ first) @ second
            dist.all_reduce(y)
            x = torch.nn.functional.layer_norm(x + y, (size.width,))
        return x

    run = _captured(torch, forward) if graph else forward
    output = [run()]
    losses: list[str] = []

    def step() -> None:
        output[0] = run()

    def look() -> None:
        losses.append(bits(output[0].float().square().mean().item()) + _hash([output[0]])[:16])

    with torch.no_grad():
        times = _timed(torch, dist, device, size, step, look)
    return {"shared_losses": losses, "own_losses": [], "step_ms": times, "parameters": _hash(output)}


def _captured(torch: Any, forward: Callable[[], Any]) -> Callable[[], Any]:
    """The same as one CUDA graph."""
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                forward()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output = forward()

    def replay() -> Any:
        graph.replay()
        return output

    return replay


def _model(torch: Any, size: Size) -> Any:
    torch.manual_seed(7)
    parts: list[Any] = []
    for _ in range(size.layers):
        parts += [torch.nn.Linear(size.width, size.width), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts)


def _inputs(torch: Any, size: Size, device: Any, seed: int) -> Any:
    return torch.randn(size.rows, size.width, generator=torch.Generator().manual_seed(seed)).to(device)


def _timed(  # noqa: PLR0913, PLR0917 - torch is imported in one place only
    torch: Any, dist: Any, device: Any, size: Size, step: Callable[[], None], look: Callable[[], None]
) -> list[float]:
    """Milliseconds of each step but the first few, from a barrier to the end of the rank's own work."""

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()

    times = []
    for number in range(size.warmup + size.steps):
        wait()
        dist.barrier()
        wait()
        begin = time.perf_counter()
        step()
        wait()
        if number >= size.warmup:
            times.append((time.perf_counter() - begin) * 1e3)
        look()
    return times


def _hash(tensors: Any) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        raw = tensor.detach().contiguous().cpu()
        # By address: PyTorch may be there without NumPy.
        digest.update(ctypes.string_at(raw.data_ptr(), raw.numel() * raw.element_size()))
    return digest.hexdigest()


if __name__ == "__main__":
    outcome = main()
    # Everything is said and the group is left. DDP's C++ side keeps gloo's threads beyond that, where nothing can end
    # them (torch 2.13): an interpreter that takes itself apart beside them sometimes ends with "terminate called".
    sys.stderr.flush()
    os._exit(outcome)
