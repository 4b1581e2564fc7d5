"""All-reduce, residual and RMSNorm: our kernel beside an all-reduce with PyTorch's compiled norm behind it.

    torchrun --nproc-per-node 4 bench/gpu_library/programs/norm.py        (with libbusbw_gpu.so preloaded)

Each way is a CUDA graph of many calls. Results are checked against a norm in fp64 behind sums of the same inputs, and
compared bit by bit between ranks. Times are us a call, the median over launches, on the slowest rank.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python"))

EPSILON = 1e-6
CALLS = 20


def main() -> int:
    import torch
    import torch.distributed as dist

    from busbw.torch_bench import fused

    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    dist.all_reduce(torch.zeros(1, device=device))
    fused.register()
    torch._dynamo.config.recompile_limit = 64
    name = dist.group.WORLD.group_name
    if dist.get_rank() == 0:
        print(
            "| type | rows | hidden | fused us | all-reduce us | all-reduce, norm us | of all-reduce | wrong | differ |"
        )
        print("|---|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for hidden in (4096, 8192, 16384):
            for rows in (1, 16, 256) if dtype is torch.bfloat16 else (16,):
                _one(torch, dist, device, dtype, rows, hidden, name)
    dist.destroy_process_group()
    return 0


def _one(torch: Any, dist: Any, device: Any, dtype: Any, rows: int, hidden: int, name: str) -> None:  # noqa: PLR0913, PLR0917
    torch.manual_seed(dist.get_rank())
    x = torch.randn(rows, hidden, device=device, dtype=dtype)
    torch.manual_seed(99)
    residual = torch.randn(rows, hidden, device=device, dtype=dtype)
    weight = torch.randn(hidden, device=device, dtype=dtype)
    output, residual_out = torch.ops.busbw.all_reduce_rms_norm(x, residual, weight, EPSILON, name)
    wrong, differ = _checked(torch, dist, (x, residual, weight), (output, residual_out))

    def norm(summed: Any) -> tuple[Any, Any]:
        kept = summed + residual
        return torch.nn.functional.rms_norm(kept.float(), (hidden,), weight.float(), EPSILON).to(dtype), kept

    compiled = torch.compile(norm)
    try:
        compiled(x)
    except Exception as error:  # noqa: BLE001 - a machine without a C compiler: the norm is eager then, and that is said
        print(f"not compiled: {type(error).__name__}", flush=True)
        compiled = norm

    def apart() -> None:
        dist.all_reduce(x)
        compiled(x)

    fused_us = _timed(torch, dist, lambda: torch.ops.busbw.all_reduce_rms_norm(x, residual, weight, EPSILON, name))
    bare_us = _timed(torch, dist, lambda: dist.all_reduce(x))
    apart_us = _timed(torch, dist, apart)
    if dist.get_rank() == 0:
        print(f"| {str(dtype)[6:]} | {rows} | {hidden} | {fused_us:.2f} | {bare_us:.2f} | {apart_us:.2f} "
              f"| {fused_us / bare_us:.2f} | {wrong} | {differ} |", flush=True)  # fmt: skip


def _checked(torch: Any, dist: Any, given: tuple[Any, Any, Any], found: tuple[Any, Any]) -> tuple[int, int]:
    """Elements that are not the reference's, and that differ from rank 0's bits."""
    (x, residual, weight), (output, residual_out) = given, found
    every = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(every, x)
    summed = every[0].float()
    for each in every[1:]:
        summed = summed + each.float()
    kept = (summed.to(x.dtype).float() + residual.float()).to(x.dtype)
    exact = kept.double()
    exact = exact / torch.sqrt(exact.square().mean(-1, keepdim=True) + EPSILON) * weight.double()
    unit = {2: 2.0**-7 if x.dtype == torch.bfloat16 else 2.0**-10, 4: 2.0**-20}[x.element_size()]
    wrong = int((kept != residual_out).sum())
    wrong += int(((output.double() - exact).abs() > 0.6 * unit * exact.abs() + 1e-6).sum())
    first = torch.stack([output, residual_out])
    dist.broadcast(first, 0)
    differ = torch.tensor([int((first != torch.stack([output, residual_out])).sum())], device=x.device)
    dist.all_reduce(differ)
    return wrong, int(differ)


def _timed(torch: Any, dist: Any, call: Callable[[], Any]) -> float:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call()
    times = []
    for _ in range(12):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        dist.barrier()
        graph.replay()  # brings the ranks together
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / CALLS)
    held = torch.tensor([median(times)], device="cuda", dtype=torch.float64)
    dist.all_reduce(held, dist.ReduceOp.MAX)
    return float(held)


if __name__ == "__main__":
    sys.exit(main())
