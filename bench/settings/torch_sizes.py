"""Times of PyTorch's all_reduce by size, under several settings of NCCL in turn, in one job.

    PYTHON-WITH-TORCH bench/settings/torch_sizes.py SETTINGS.json --output TIMES.json [--ranks 2] [--rounds 10] [--gloo]

SETTINGS.json has variables by name of a setting: {"plain": {}, "ring/ll": {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}}.
Each setting has a communicator of its own, which reads them where it is made. In each round all of them are measured in
shuffled order. TIMES.json has microseconds by setting and bytes, one for each round: those of the slowest rank. It is
the time of the GPU: calls wait behind a kernel until all of them are started, or what PyTorch takes to start one (20 to
60 us) would hide all that settings do to calls that are shorter. "started" has times with that, of the same calls.
"""

from __future__ import annotations

import argparse
import itertools
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
FEWEST = 4
HELD_S, CYCLES_PER_S = 3e-3, 1.8e9
"""How long calls wait for the last one to be started, and about how fast a GPU counts."""


def set_variables(variables: Mapping[str, str], every: set[str]) -> None:
    """Exactly these of all that any setting names."""
    for name in every:
        if name in variables:
            os.environ[name] = variables[name]
        else:
            os.environ.pop(name, None)


class Timer:
    """Takes the times of calls, of the rank that takes longest."""

    def __init__(self, sizes: list[int], *, gloo: bool) -> None:
        import torch
        from torch import distributed

        self.torch, self.dist, self.gloo = torch, distributed, gloo
        self.buffers = {size: torch.zeros(size // 4, device="cpu" if gloo else "cuda") for size in sizes}
        self.groups: dict[str, Any] = {}

    def add(self, name: str) -> None:
        """A communicator, which reads the variables of this moment."""
        self.groups[name] = self.dist.new_group(backend="gloo" if self.gloo else "nccl", timeout=PATIENCE)
        self.calls(name, min(self.buffers), 1)
        self.end()

    def calls(self, name: str, size: int, count: int) -> None:
        for _ in range(count):
            self.dist.all_reduce(self.buffers[size], group=self.groups[name])

    def end(self) -> None:
        if not self.gloo:
            self.torch.cuda.synchronize()

    def started(self, name: str, size: int, count: int) -> float:
        """With what the processor takes to start them."""
        begun = time.perf_counter()
        self.calls(name, size, count)
        self.end()
        return (time.perf_counter() - begun) * 1e6 / count

    def behind_a_kernel(self, name: str, size: int, count: int) -> float:
        """Of the GPU alone."""
        first, last = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.torch.cuda._sleep(int(HELD_S * CYCLES_PER_S))
        # Ranks are together once the first call is done.
        self.calls(name, size, 1)
        first.record()
        self.calls(name, size, count)
        last.record()
        self.end()
        return float(first.elapsed_time(last)) * 1e3 / count

    def taken(self, how: Callable[[str, int, int], float], name: str, size: int, count: int) -> float:
        self.dist.barrier()
        return self.most(how(name, size, count))

    def most(self, value: float) -> float:
        """Of all ranks."""
        value_of_all = self.torch.tensor([value])
        self.dist.all_reduce(value_of_all, self.dist.ReduceOp.MAX)
        return float(value_of_all)


def measure(rank: int, ranks: int, port: int, args: argparse.Namespace) -> None:
    """All settings in turns; rank 0 writes the times."""
    import torch
    from torch import distributed

    if not args.gloo:
        torch.cuda.set_device(rank)
    address = f"tcp://127.0.0.1:{port}"
    distributed.init_process_group("gloo", address, rank=rank, world_size=ranks, timeout=PATIENCE)
    settings: dict[str, dict[str, str]] = json.loads(args.settings.read_text())
    every = {name for variables in settings.values() for name in variables}
    timer = Timer(args.sizes, gloo=args.gloo)
    for name, variables in settings.items():
        set_variables(variables, every)
        timer.add(name)
    ways = {"started": timer.started} if args.gloo else {"started": timer.started, "times": timer.behind_a_kernel}
    found: dict[str, dict[str, dict[int, list[float]]]] = {
        way: {name: {size: [] for size in args.sizes} for name in settings} for way in ways
    }
    order, begun = random.Random(7), time.monotonic()  # the same order on all ranks
    for number in range(args.rounds + 1):
        if timer.most(time.monotonic() - begun) > args.seconds and number > FEWEST:
            break
        for name in order.sample(sorted(settings), len(settings)):
            for size, (way, how) in itertools.product(args.sizes, ways.items()):
                us = timer.taken(how, name, size, CALLS if number else 3)
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
    parser.add_argument("--seconds", type=float, default=600.0, help="no round begins later")
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
