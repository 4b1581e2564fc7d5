"""Steps of PyTorch's DDP and FSDP2, so that what stands in front of NCCL can be seen: see gpus.py beside it.

    RANK=0 steps_cost.py FOLDER --ranks 2 [--backend gloo] [--steps 80]

One rank of the job. Rank 0 prints one line of JSON: the median step of each in microseconds, and a checksum of the
weights that came out of it, which must not depend on the recorder. Imports nothing of busbw.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from statistics import median
from typing import Any

PATIENCE = timedelta(seconds=60)


def ddp(sizes: tuple[int, int], device: Any) -> Any:
    from torch import nn

    made = nn.Sequential(*layers(*sizes)).to(device)
    on_gpu = device.type == "cuda"
    return nn.parallel.DistributedDataParallel(
        made, device_ids=[device.index] if on_gpu else None, gradient_as_bucket_view=True
    )


def fsdp2(sizes: tuple[int, int], device: Any) -> Any:
    from torch import nn
    from torch.distributed.fsdp import fully_shard

    made = nn.Sequential(*layers(*sizes)).to(device)
    for layer in made:
        fully_shard(layer)
    fully_shard(made)
    return made


def layers(number: int, width: int) -> list[Any]:
    from torch import nn

    return [nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(number)]


KINDS: dict[str, Callable[[tuple[int, int], Any], Any]] = {"ddp": ddp, "fsdp2": fsdp2}


def measured(args: argparse.Namespace, kind: str, device: Any) -> tuple[float, float]:
    """The median step, and the checksum."""
    import torch

    torch.manual_seed(1)
    model = KINDS[kind]((args.layers, args.width), device)
    data = torch.randn(args.rows, args.width, device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)

    def finish() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()

    took = []
    for _ in range(args.steps):
        finish()
        begun = time.perf_counter()
        model(data).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        finish()
        took.append((time.perf_counter() - begun) * 1e6)
    total = 0.0
    for each in model.parameters():
        local = each.to_local() if hasattr(each, "to_local") else each
        total += float(local.detach().double().sum())
    return median(took[args.steps // 5 :]), total


def main() -> int:
    """Options as in the text above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--backend", choices=("nccl", "gloo"), default="nccl")
    parser.add_argument("--kinds", default="ddp,fsdp2")
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--rows", type=int, default=4096)
    args = parser.parse_args()
    import torch
    from torch import distributed

    me = int(os.environ["RANK"])
    device = torch.device("cuda", me) if args.backend == "nccl" else torch.device("cpu")
    if args.backend == "nccl":
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    distributed.init_process_group(
        args.backend, f"file://{args.folder}/meeting", rank=me, world_size=args.ranks, timeout=PATIENCE
    )
    found = {}
    for kind in args.kinds.split(","):
        step_us, total = measured(args, kind, device)
        found[kind] = {"step_us": round(step_us, 2), "sum": total}
    if me == 0:
        print(json.dumps(found), flush=True)
    distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
