"""Times of PyTorch's all_reduce by size, under several settings of NCCL in turn, in one job.

    PYTHON-WITH-TORCH bench/settings/torch_sizes.py SETTINGS.json --output TIMES.json [--ranks 2] [--rounds 5] [--gloo]

SETTINGS.json has variables by name of a setting: {"plain": {}, "ring/ll": {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}}.
Each setting has a communicator of its own, which reads them where it is made. In each round all of them are measured in
shuffled order. TIMES.json has microseconds by setting and bytes, one for each round: those of the slowest rank. It is
the time of the GPU: calls wait behind a kernel until all of them are started, or what PyTorch takes to start one (20 to
60 us) would hide all that settings do to calls that are shorter. "started" has times with that, of the same calls.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import sys
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

CALLS, PATIENCE = 20, timedelta(seconds=60)
HELD_S, CYCLES_PER_S = 3e-3, 1.8e9
"""How long calls wait for the last one to be started, and about how fast a GPU counts."""


def set_variables(variables: Mapping[str, str], every: set[str]) -> None:
    """Exactly these of all that any setting names."""
    for name in every:
        if name in variables:
            os.environ[name] = variables[name]
        else:
            os.environ.pop(name, None)


def measure(rank: int, ranks: int, port: int, args: argparse.Namespace) -> None:
    """All settings in turns; rank 0 writes the times."""
    import torch
    from torch import distributed

    device = torch.device("cpu") if args.gloo else torch.device("cuda", rank)
    if not args.gloo:
        torch.cuda.set_device(device)
    backend = "gloo" if args.gloo else "nccl"
    address = f"tcp://127.0.0.1:{port}"
    distributed.init_process_group("gloo", address, rank=rank, world_size=ranks, timeout=PATIENCE)
    settings: dict[str, dict[str, str]] = json.loads(args.settings.read_text())
    every = {name for variables in settings.values() for name in variables}
    buffers = {size: torch.zeros(size // 4, device=device) for size in args.sizes}
    groups: dict[str, Any] = {}
    for name, variables in settings.items():
        set_variables(variables, every)
        groups[name] = distributed.new_group(backend=backend, timeout=PATIENCE)
        distributed.all_reduce(buffers[args.sizes[0]], group=groups[name])
        if not args.gloo:
            torch.cuda.synchronize()

    def started(name: str, size: int, calls: int) -> float:
        """With what the processor takes to start them."""
        begun = time.perf_counter()
        for _ in range(calls):
            distributed.all_reduce(buffers[size], group=groups[name])
        if not args.gloo:
            torch.cuda.synchronize()
        return (time.perf_counter() - begun) * 1e6 / calls

    def behind_a_kernel(name: str, size: int, calls: int) -> float:
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(int(HELD_S * CYCLES_PER_S))
        # Ranks are together once the first call is done.
        distributed.all_reduce(buffers[size], group=groups[name])
        first.record()
        for _ in range(calls):
            distributed.all_reduce(buffers[size], group=groups[name])
        last.record()
        torch.cuda.synchronize()
        return float(first.elapsed_time(last)) * 1e3 / calls

    def taken(name: str, size: int, calls: int, how: Callable[[str, int, int], float]) -> float:
        distributed.barrier()
        took = torch.tensor([how(name, size, calls)])
        distributed.all_reduce(took, distributed.ReduceOp.MAX)
        return float(took)

    ways = {"started": started} if args.gloo else {"started": started, "times": behind_a_kernel}
    found: dict[str, dict[str, dict[int, list[float]]]] = {
        way: {name: {size: [] for size in args.sizes} for name in settings} for way in ways
    }
    order = random.Random(7)  # the same on all ranks
    for number in range(args.rounds + 1):
        for name in order.sample(sorted(settings), len(settings)):
            for size in args.sizes:
                for way, how in ways.items():
                    us = taken(name, size, CALLS if number else 3, how)
                    if number:
                        found[way][name][size].append(us)
    if rank == 0:
        version = None if args.gloo else ".".join(map(str, torch.cuda.nccl.version()))
        of_gpu = found.get("times", found["started"])
        said = {"torch": torch.__version__, "nccl": version, "times": of_gpu, "started": found["started"]}
        args.output.write_text(json.dumps(said))
    distributed.barrier()
    distributed.destroy_process_group()


def main() -> int:
    """Options as in the text above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--sizes", type=lambda text: [int(each) for each in text.split(",")],
                        default=[1 << n for n in range(16, 27)])  # fmt: skip
    parser.add_argument("--gloo", action="store_true", help="a rehearsal on processors: settings have no effect there")
    args = parser.parse_args()
    from torch import multiprocessing

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    multiprocessing.spawn(measure, (args.ranks, port, args), nprocs=args.ranks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
