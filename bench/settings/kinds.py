"""Measures steps of five kinds over gloo, by hand-written products and calls, and predicts half of them from the rest.

    PYTHON-WITH-TORCH bench/settings/kinds.py [--ranks 2] [--rounds 25]

DDP, FSDP, tensor, expert and pipeline parallelism of six shapes each. In turns: the products of each shape alone on all
ranks, the whole step, and each call alone. Shapes of even number fit the slowdowns: of work and calls beside each other
(DDP, FSDP), and of work that waits for the slowest rank (tensor, expert). Shapes of odd number are predicted.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python")]

from busbw.expect.schedule import Slowdown  # noqa: E402
from busbw.expect.step import KINDS, Layer, Step, TimeOf, predict, table_times  # noqa: E402

# Width and number of layers, rows of a batch.
SHAPES = ((512, 8, 128), (768, 6, 256), (1024, 4, 64), (384, 12, 512), (640, 8, 96), (1024, 6, 384))
FIRST_BUCKET, BUCKETS, GOAL = 1 << 20, (4 << 20, 25 << 20), 0.05


def shape_of(kind: str, number: int) -> tuple[int, int, int, int, int]:
    """Width, layers (of a stage), rows, bytes of a bucket, microbatches."""
    width, layers, rows = SHAPES[number]
    return width, layers // 2 if kind == "pp" else layers, rows, BUCKETS[number % 2], 2 + number


class Calls:
    """Calls of one rank, each on buffers of its own size."""

    def __init__(self, rank: int, ranks: int) -> None:
        import torch
        from torch import distributed

        self.torch, self.dist, self.rank, self.ranks = torch, distributed, rank, ranks
        self.buffers: dict[tuple[str, int], tuple[Any, Any]] = {}

    def begin(self, name: str, size: int) -> Any:
        """Something with wait()."""
        key = name, size
        if key not in self.buffers:
            self.buffers[key] = self.torch.zeros(size // 4), self.torch.zeros(size // 4)
        one, two = self.buffers[key]
        part = two[: one.numel() // self.ranks]
        if name == "all_reduce":
            return self.dist.all_reduce(one, async_op=True)
        if name == "all_gather":
            return self.dist.all_gather(list(one.chunk(self.ranks)), part, async_op=True)
        if name == "reduce_scatter":
            return self.dist.reduce_scatter(part, list(one.chunk(self.ranks)), async_op=True)
        if name == "alltoall":
            return self.dist.all_to_all_single(two, one, async_op=True)
        self.dist.isend(one, (self.rank + 1) % self.ranks)
        return self.dist.irecv(two, (self.rank - 1) % self.ranks)

    def wait(self, name: str, size: int) -> None:
        self.begin(name, size).wait()


class Chain:
    """Square layers without an autograd: forward is one product, backward are two."""

    def __init__(self, calls: Calls, width: int, layers: int, rows: int) -> None:
        torch = calls.torch
        self.calls, self.layers, self.rows, self.width = calls, layers, rows, width
        self.weights = [torch.randn(width, width) / width**0.5 for _ in range(layers)]
        self.values = [torch.randn(rows, width) / 9] * (layers + 1)
        self.gradient, self.of_weight = self.values[0], torch.zeros(width, width)
        self.bytes, self.activation = 4 * width * width, 4 * rows * width

    def forward(self, each: int) -> None:
        self.values[each + 1] = self.values[each] @ self.weights[each]
        self.gradient = self.values[each + 1]

    def backward(self, each: int) -> None:
        self.calls.torch.mm(self.values[each].T, self.gradient, out=self.of_weight)
        self.gradient = self.gradient @ self.weights[each].T

    def all_forward(self) -> None:
        for each in range(self.layers):
            self.forward(each)

    def all_backward(self) -> None:
        for each in reversed(range(self.layers)):
            self.backward(each)


def ddp(chain: Chain, bucket: int, _: int) -> None:
    chain.all_forward()
    begun, filled, full = [], 0, FIRST_BUCKET
    for each in reversed(range(chain.layers)):
        chain.backward(each)
        filled += chain.bytes
        if filled >= full or not each:
            begun.append(chain.calls.begin("all_reduce", filled))
            filled, full = 0, bucket
    for call in begun:
        call.wait()


def fsdp(chain: Chain, _: int, __: int) -> None:
    scattered = []
    for backward in (False, True):
        order = list(range(chain.layers))[:: -1 if backward else 1]
        ahead = chain.calls.begin("all_gather", chain.bytes)
        for each in order:
            ahead.wait()
            if each != order[-1]:
                ahead = chain.calls.begin("all_gather", chain.bytes)
            (chain.backward if backward else chain.forward)(each)
            if backward:
                scattered.append(chain.calls.begin("reduce_scatter", chain.bytes))
    for call in scattered:
        call.wait()


def waited(name: str) -> Callable[[Chain, int, int], None]:
    """Two calls in forward and two in backward of each layer."""

    def step(chain: Chain, _: int, __: int) -> None:
        for work, order in ((chain.forward, range(chain.layers)), (chain.backward, reversed(range(chain.layers)))):
            for each in order:
                work(each)
                chain.calls.wait(name, chain.activation)
                chain.calls.wait(name, chain.activation)

    return step


def pp(chain: Chain, _: int, microbatches: int) -> None:
    calls = chain.calls
    for work, way in ((chain.all_forward, 1), (chain.all_backward, -1)):
        before, after, sent = calls.rank - way, calls.rank + way, []
        for _batch in range(microbatches):
            batch = calls.torch.empty(chain.rows, chain.width)
            if 0 <= before < calls.ranks:
                calls.dist.recv(batch, before)
            work()
            if 0 <= after < calls.ranks:
                sent.append(calls.dist.isend(batch, after))
        for call in sent:
            call.wait()


STEPS = {"ddp": ddp, "fsdp": fsdp, "tp": waited("all_reduce"), "ep": waited("alltoall"), "pp": pp}


def measure(rank: int, ranks: int, port: int, rounds: int, out: str) -> None:
    """All in turns; rank 0 writes the medians of what the slowest rank took."""
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    calls = Calls(rank, ranks)
    shapes = [(kind, number) for kind in KINDS for number in range(len(SHAPES))]
    chains = {shape: Chain(calls, *shape_of(*shape)[:3]) for shape in shapes}
    times: dict[tuple[object, ...], list[float]] = {}

    def take(key: tuple[object, ...], act: Callable[[], object], times_over: int) -> None:
        distributed.barrier()
        begun = time.perf_counter()
        for _ in range(times_over):
            act()
        took = torch.tensor([(time.perf_counter() - begun) / times_over])
        distributed.all_reduce(took, distributed.ReduceOp.MAX)
        times.setdefault(key, []).append(float(took) * 1e6)

    for number in range(rounds + 2):
        if number == 2:
            times.clear()
        for shape, chain in chains.items():
            *_, bucket, microbatches = shape_of(*shape)
            # A pipeline's stage does the same work again and again, with what it needs at hand.
            again = microbatches if shape[0] == "pp" else 1
            take((*shape, "forward"), chain.all_forward, again)
            take((*shape, "backward"), chain.all_backward, again)
            take((*shape, "step"), lambda c=chain, s=shape, b=bucket, m=microbatches: STEPS[s[0]](c, b, m), 1)  # type: ignore[misc]
        sent = {("sendrecv", chain.activation) for (kind, _), chain in chains.items() if kind == "pp"}
        for name, size in sorted({*calls.buffers, *sent}):
            take((name, size), lambda n=name, s=size: calls.wait(n, s), 3)  # type: ignore[misc]
    if rank == 0:
        Path(out).write_text(json.dumps([[key, median(found)] for key, found in times.items()]))
    distributed.barrier()
    distributed.destroy_process_group()


def step_of(times: dict[tuple[object, ...], float], kind: str, number: int, ranks: int, waits: float) -> Step:
    width, layers, rows, bucket, microbatches = shape_of(kind, number)
    work = [times[kind, number, when] / layers * waits for when in ("forward", "backward")]
    parameters = 4 * width * width if kind in {"ddp", "fsdp"} else 0
    activation = 4 * rows * width if kind in {"tp", "ep", "pp"} else 0
    one = Layer("layer", *work, parameters, activation, tensors=(parameters,) if kind == "ddp" else ())
    staged = (microbatches, ranks) if kind == "pp" else (1, 1)
    return Step(kind, (one,) * layers, bucket, FIRST_BUCKET, *staged)


def report(times: dict[tuple[object, ...], float], ranks: int) -> float:
    """Fit, predict and print; the largest error of what was not used for the fit."""
    time_of: TimeOf = table_times([(str(key[0]), int(str(key[1])), us) for key, us in times.items() if len(key) == 2])

    def off(kind: str, number: int, slow: Slowdown, waits: float) -> float:
        said = predict(step_of(times, kind, number, ranks, waits), time_of, slow).step_us
        return said / times[kind, number, "step"] - 1

    def squares(kinds: tuple[str, ...], slow: Slowdown, waits: float) -> float:
        return sum(math.log1p(off(kind, each, slow, waits)) ** 2 for kind in kinds for each in range(0, len(SHAPES), 2))

    tried = [Slowdown(1 + 0.05 * work, 1 + 0.05 * calls) for work in range(13) for calls in range(21)]
    slow = min(tried, key=lambda each: squares(("ddp", "fsdp"), each, 1.0))
    waits = min((1 + 0.01 * each for each in range(41)), key=lambda each: squares(("tp", "ep"), Slowdown(), each))
    print(f"work beside calls x {slow.work:.2f}, calls beside work x {slow.calls:.2f}, work that waits x {waits:.2f}")
    worst = 0.0
    for kind in KINDS:
        for each in range(len(SHAPES)):
            longer = waits if kind in {"tp", "ep"} else 1.0
            plain, fitted = off(kind, each, Slowdown(), 1.0), off(kind, each, slow, longer)
            worst = max(worst, abs(fitted)) if each % 2 else worst
            us = times[kind, each, "step"]
            print(f"{'held' if each % 2 else 'fit '} {kind:4} {SHAPES[each]!s:16} {us / 1e3:8.2f} ms, "
                  f"off by {100 * fitted:+5.1f} %, without slowdowns {100 * plain:+5.1f} %")  # fmt: skip
    return worst


def main() -> int:
    """1 where a step that was not used for the fit is off by more than 5 %."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=25)
    args = parser.parse_args()
    from torch import multiprocessing

    os.environ["OMP_NUM_THREADS"] = "1"
    with socket.socket() as free, tempfile.TemporaryDirectory() as folder:
        free.bind(("127.0.0.1", 0))
        port, out = free.getsockname()[1], Path(folder) / "found.json"
        free.close()
        multiprocessing.spawn(measure, (args.ranks, port, args.rounds, str(out)), nprocs=args.ranks)
        times = {tuple(key): us for key, us in json.loads(out.read_text())}
    worst = report(times, args.ranks)
    print(f"held out: off by at most {100 * worst:.1f} %, load average {os.getloadavg()[0]:.1f} of {os.cpu_count()} "
          "processors (what else runs makes steps longer, and no prediction knows it)")  # fmt: skip
    return 0 if worst <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
