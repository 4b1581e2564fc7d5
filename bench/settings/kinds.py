"""Measures steps of five kinds, by hand-written products and calls, and predicts half of them from the rest.

    PYTHON-WITH-TORCH bench/settings/kinds.py [--ranks 2] [--rounds 25] [--seconds 300] [--gpus]

DDP, FSDP, tensor, expert and pipeline parallelism of six shapes each, over gloo or (--gpus) NCCL. In turns: the
products of each shape alone on all ranks, the whole step, and each call alone. Shapes of even number fit, for each kind
by itself, the slowdowns of work and calls beside each other (DDP, FSDP), or what each call takes besides until ranks
are awake and together (tensor, expert). Shapes of odd number are predicted. No shape begins after --seconds. The noise
of a step is how far the medians of its odd and its even rounds lie apart; a prediction cannot be held to less. On GPUs
layers are 8 times as wide, batches 16 times as large.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
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
WIDER, MORE_ROWS = 8, 16
PATIENCE = timedelta(seconds=120)
FEWEST = 3
_BESIDE = tuple((Slowdown(1 + work / 10, 1 + calls / 10), 0.0) for work in range(25) for calls in range(25))
_WAITED = tuple((Slowdown(), float(us)) for us in (*range(0, 100, 2), *range(100, 1000, 20), *range(1000, 6000, 200)))
WAYS = {"ddp": _BESIDE, "fsdp": _BESIDE, "tp": _WAITED, "ep": _WAITED, "pp": _WAITED[:1]}
"""What is fitted for each kind: slowdowns beside each other, or what each call that is waited for takes besides."""


def shape_of(kind: str, number: int, *, on_gpus: bool) -> tuple[int, int, int, int, int]:
    """Width, layers (of a stage), rows, bytes of a bucket, microbatches."""
    width, layers, rows = SHAPES[number]
    wider, more = (WIDER, MORE_ROWS) if on_gpus else (1, 1)
    return wider * width, layers // 2 if kind == "pp" else layers, more * rows, BUCKETS[number % 2], 2 + number


class Calls:
    """Calls of one rank, each on buffers of its own size."""

    def __init__(self, rank: int, ranks: int, port: int, *, on_gpus: bool) -> None:
        import torch
        from torch import distributed

        self.torch, self.dist, self.rank, self.ranks, self.on_gpus = torch, distributed, rank, ranks, on_gpus
        self.device = torch.device("cuda", rank) if on_gpus else torch.device("cpu")
        torch.set_num_threads(1)
        if on_gpus:
            torch.cuda.set_device(self.device)
            torch.backends.cuda.matmul.allow_tf32 = True
        distributed.init_process_group(
            "nccl" if on_gpus else "gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks, timeout=PATIENCE
        )
        self.buffers: dict[tuple[str, int], tuple[Any, Any]] = {}

    def begin(self, name: str, size: int) -> Any:
        """Something with wait()."""
        key = name, size
        if key not in self.buffers:
            one, two = (self.torch.zeros(size // 4, device=self.device) for _ in range(2))
            self.buffers[key] = one, two
        one, two = self.buffers[key]
        part = two[: one.numel() // self.ranks]
        if name == "all_reduce":
            return self.dist.all_reduce(one, async_op=True)
        if name == "all_gather" and self.on_gpus:
            return self.dist.all_gather_into_tensor(one, part, async_op=True)
        if name == "reduce_scatter" and self.on_gpus:
            return self.dist.reduce_scatter_tensor(part, one, async_op=True)
        if name == "all_gather":
            return self.dist.all_gather(list(one.chunk(self.ranks)), part, async_op=True)
        if name == "reduce_scatter":
            return self.dist.reduce_scatter(part, list(one.chunk(self.ranks)), async_op=True)
        return self.dist.all_to_all_single(two, one, async_op=True)

    def wait(self, name: str, size: int) -> None:
        """One call; of sendrecv both directions at once, as nccl-tests does it, of send one between each two ranks."""
        if name == "send":
            self.one_way(size)
            return
        if name != "sendrecv":
            self.begin(name, size).wait()
            return
        key = name, size
        if key not in self.buffers:
            self.buffers[key] = tuple(self.torch.zeros(size // 4, device=self.device) for _ in range(2))
        one, two = self.buffers[key]
        both = [self.dist.P2POp(self.dist.isend, one, (self.rank + 1) % self.ranks),
                self.dist.P2POp(self.dist.irecv, two, (self.rank - 1) % self.ranks)]  # fmt: skip
        for call in self.dist.batch_isend_irecv(both):
            call.wait()

    def one_way(self, size: int) -> None:
        """From each even rank to the next one."""
        key = "send", size
        if key not in self.buffers:
            self.buffers[key] = (self.torch.zeros(size // 4, device=self.device),) * 2
        if self.rank % 2:
            self.dist.recv(self.buffers[key][0], self.rank - 1)
        elif self.rank + 1 < self.ranks:
            self.dist.send(self.buffers[key][0], self.rank + 1)

    def now(self) -> float:
        """When all that was begun is done."""
        if self.on_gpus:
            self.torch.cuda.synchronize()
        return time.perf_counter()


class Chain:
    """Square layers without an autograd: forward is one product, backward are two."""

    def __init__(self, calls: Calls, width: int, layers: int, rows: int) -> None:
        torch, device = calls.torch, calls.device
        self.calls, self.layers, self.rows, self.width = calls, layers, rows, width
        self.weights = [torch.randn(width, width, device=device) / width**0.5 for _ in range(layers)]
        self.values = [torch.randn(rows, width, device=device) / 9] * (layers + 1)
        self.gradient, self.of_weight = self.values[0], torch.zeros(width, width, device=device)
        self.batch = torch.zeros(rows, width, device=device)
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
            if 0 <= before < calls.ranks:
                calls.dist.recv(chain.batch, before)
            work()
            if 0 <= after < calls.ranks:
                sent.append(calls.dist.isend(chain.values[0], after))
        for call in sent:
            call.wait()


STEPS = {"ddp": ddp, "fsdp": fsdp, "tp": waited("all_reduce"), "ep": waited("alltoall"), "pp": pp}


class Turns:
    """Takes times of the slowest rank, by what was done."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.times: dict[tuple[object, ...], list[float]] = {}

    def take(self, key: tuple[object, ...], act: Callable[[], object], times_over: int = 1) -> None:
        """How long this took, of the rank that took longest."""
        calls = self.calls
        calls.dist.barrier()
        begun = calls.now()
        for _ in range(times_over):
            act()
        took = calls.torch.tensor([(calls.now() - begun) / times_over], device=calls.device)
        calls.dist.all_reduce(took, calls.dist.ReduceOp.MAX)
        self.times.setdefault(key, []).append(float(took) * 1e6)

    def goes_on(self, begun: float, seconds: float) -> bool:
        """Whether there is time for one more round, by the clock of the rank that says no first."""
        late = self.calls.torch.tensor([float(time.monotonic() - begun > seconds)], device=self.calls.device)
        self.calls.dist.all_reduce(late, self.calls.dist.ReduceOp.MAX)
        return not float(late)


def measure(rank: int, ranks: int, port: int, rounds: int, seconds: float, out: str, on_gpus: bool) -> None:  # noqa: PLR0913, PLR0917 - torch starts it with words by place
    """All in turns; rank 0 writes the times of each round, of the slowest rank."""
    begun = time.monotonic()
    calls = Calls(rank, ranks, port, on_gpus=on_gpus)
    turns = Turns(calls)
    chains: dict[tuple[int, ...], Chain] = {}
    shapes = [(kind, number) for kind in KINDS for number in range(len(SHAPES))]
    for shape in shapes:
        width, layers, rows, *_ = shape_of(*shape, on_gpus=on_gpus)
        if (width, layers, rows) not in chains:
            chains[width, layers, rows] = Chain(calls, width, layers, rows)
    # Work behind longer work runs at a lower clock: in one order a step and its parts would not meet the same one.
    order = random.Random(11)  # the same on all ranks
    for number in range(rounds + 2):
        if number == 2:
            turns.times.clear()
        if not turns.goes_on(begun, seconds):
            break
        for shape in order.sample(shapes, len(shapes)):
            if not turns.goes_on(begun, seconds):
                break
            *where, bucket, microbatches = shape_of(*shape, on_gpus=on_gpus)
            chain = chains[tuple(where)]
            # A pipeline's stage does the same work again and again, with what it needs at hand.
            again = microbatches if shape[0] == "pp" else 1
            whole = partial(STEPS[shape[0]], chain, bucket, microbatches)
            acts = {"forward": (chain.all_forward, again), "backward": (chain.all_backward, again), "step": (whole, 1)}
            for what in order.sample(list(acts), len(acts)):
                turns.take((*shape, what), *acts[what])
        for name, size in sorted({*calls.buffers, *messages(on_gpus=on_gpus)}):
            if number > 2 and not turns.goes_on(begun, seconds):
                break
            turns.take((name, size), partial(calls.wait, name, size), 20 if on_gpus else 3)
    if rank == 0:
        Path(out).write_text(json.dumps(list(turns.times.items())))
    calls.dist.barrier()
    calls.dist.destroy_process_group()


def messages(*, on_gpus: bool) -> set[tuple[str, int]]:
    """What pipelines send. Over NCCL one way, as a stage does; gloo's ranks do both at once, as nccl-tests."""
    shapes = (shape_of("pp", each, on_gpus=on_gpus) for each in range(len(SHAPES)))
    return {("send" if on_gpus else "sendrecv", 4 * width * rows) for width, _, rows, *_ in shapes}


@dataclass(frozen=True)
class Found:
    """Medians by what was done, how far those of odd and even rounds lie apart, and where it was measured."""

    times: dict[tuple[object, ...], float]
    noise: dict[tuple[object, ...], float]
    ranks: int
    on_gpus: bool


def found_of(rows: list[tuple[list[object], list[float]]], ranks: int, *, on_gpus: bool) -> Found:
    times = {tuple(key): median(taken) for key, taken in rows}
    halves = {tuple(key): (median(taken[::2]), median(taken[1::2] or taken)) for key, taken in rows}
    return Found(times, {key: abs(one / two - 1) for key, (one, two) in halves.items()}, ranks, on_gpus)


def step_of(found: Found, kind: str, number: int) -> Step:
    width, layers, rows, bucket, microbatches = shape_of(kind, number, on_gpus=found.on_gpus)
    work = [found.times[kind, number, when] / layers for when in ("forward", "backward")]
    parameters = 4 * width * width if kind in {"ddp", "fsdp"} else 0
    activation = 4 * rows * width if kind in {"tp", "ep", "pp"} else 0
    one = Layer("layer", work[0], work[1], parameters, activation, tensors=(parameters,) if kind == "ddp" else ())
    batches, stages = (microbatches, found.ranks) if kind == "pp" else (1, 1)
    # NCCL moves a message once both sides are there; gloo's sender does it by itself.
    sends = "waited" if kind != "pp" else "met" if found.on_gpus else "behind"
    return Step(kind, (one,) * layers, bucket, FIRST_BUCKET, batches, stages, sends=sends)


def report(found: Found) -> float:
    """Fit, predict and print; the largest error of what was not used for the fit."""
    times = found.times
    points = [(str(key[0]), int(str(key[1])), us) for key, us in times.items() if len(key) == 2]
    time_of: TimeOf = table_times([("sendrecv" if name == "send" else name, size, us) for name, size, us in points])

    def off(kind: str, number: int, slow: Slowdown, waits: float) -> float:
        said = predict(replace(step_of(found, kind, number), wait_us=waits), time_of, slow).step_us
        return said / times[kind, number, "step"] - 1

    worst = 0.0
    for kind in KINDS:
        even = range(0, len(SHAPES), 2)
        fits = [(sum(math.log1p(off(kind, each, *way)) ** 2 for each in even), number, way)
                for number, way in enumerate(WAYS[kind])]  # fmt: skip
        slow, waits = min(fits)[2]
        print(f"{kind}: work beside calls x {slow.work:.1f}, calls beside work x {slow.calls:.1f}, {waits} us a call")
        for each in range(len(SHAPES)):
            plain, fitted = off(kind, each, Slowdown(), 0.0), off(kind, each, slow, waits)
            worst = max(worst, abs(fitted)) if each % 2 else worst
            us, noise = times[kind, each, "step"], found.noise[kind, each, "step"]
            print(f"{'held' if each % 2 else 'fit '} {kind:4} {SHAPES[each]!s:16} {us / 1e3:8.2f} ms, "
                  f"off by {100 * fitted:+5.1f} %, without a fit {100 * plain:+5.1f} %, "
                  f"its noise {100 * noise:.1f} %")  # fmt: skip
    return worst


def main() -> int:
    """1 where a step that was not used for the fit is off by more than 5 %, 2 where the time was too short."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--gpus", action="store_true", help="over NCCL, with a GPU for each rank")
    parser.add_argument("--keep", type=Path, help="where the times of each round go, as JSON")
    args = parser.parse_args()
    from torch import multiprocessing

    os.environ["OMP_NUM_THREADS"] = "1"
    with socket.socket() as free, tempfile.TemporaryDirectory() as folder:
        free.bind(("127.0.0.1", 0))
        port, out = free.getsockname()[1], Path(folder) / "found.json"
        free.close()
        words = (args.ranks, port, args.rounds, args.seconds, str(out), args.gpus)
        multiprocessing.spawn(measure, words, nprocs=args.ranks)
        text = out.read_text()
    if args.keep:
        args.keep.write_text(text)
    rows = json.loads(text)
    counts = [len(taken) for _, taken in rows]
    if min(counts, default=0) < FEWEST:
        print(f"{min(counts, default=0)} rounds within {args.seconds:g} s: give it more --seconds")
        return 2
    worst = report(found_of(rows, args.ranks, on_gpus=args.gpus))
    print(f"held out: off by at most {100 * worst:.1f} %, {min(counts)} rounds, load average {os.getloadavg()[0]:.1f} "
          f"of {os.cpu_count()} processors (what else runs makes steps longer, which no prediction knows)")  # fmt: skip
    return 0 if worst <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
