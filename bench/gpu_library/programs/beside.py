"""One rank of what communication costs beside work: products beside collectives, and whole training steps.

Started once per rank with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT set, as torchrun does. Prints one
JSON object a rank for each thing that it has measured; times are of the slowest rank.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from beside_steps import STEPS, Build, Place, Shape

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python"))
from busbw.analysis.overlap import efficiency, lost_processor_time

COLLECTIVES = ("all_reduce", "all_gather", "all_gather_in_place", "reduce_scatter", "all_to_all")
"""FSDP2's gathers are in place: the block lies where it belongs."""
MULTIPROCESSORS_OF_HOST = 1  # a host has none; its figures mean nothing


@dataclass(frozen=True)
class Amount:
    """How much of everything: for GPUs, or so little that processors do it in moments."""

    products: tuple[int, int, int]
    target_ms: float
    repeats: int
    steps: int
    warmup: int  # our library tries both ways in the first 25 to 40 steps
    shape: Shape


AMOUNTS = {
    "large": Amount((8192, 8192, 4096), 6.0, 3, 20, 60, Shape(2048, 12, 4, 1024, 4096, 4, 8)),
    "tiny": Amount((64, 64, 32), 1.0, 2, 3, 1, Shape(16, 2, 2, 4, 8, 2, 2)),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="+", help=f"overlap, or steps: {' '.join(STEPS)}; name+graph for a CUDA graph")
    parser.add_argument("--backend", choices=("nccl", "gloo"), default="nccl")
    parser.add_argument("--amount", choices=tuple(AMOUNTS), default="large")
    parser.add_argument("--mib", default="16,64,256", help="sizes of overlap, as nccl-tests counts them")
    args = parser.parse_args()
    for found in measured(args.what, args.backend, args.amount, [float(each) for each in args.mib.split(",")]):
        print(json.dumps({"beside": found}), flush=True)
    return 0


def measured(
    what: Sequence[str], backend: str, amount: str, sizes: Sequence[float], *, without: bool = True
) -> Iterator[dict[str, Any]]:
    """What this rank finds, one after the other; `without`: steps are also taken without their communication."""
    import torch
    import torch.distributed as dist

    gpu = backend == "nccl"
    if not gpu:
        torch.set_num_threads(1)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
    else:
        dist.init_process_group("gloo")
    place = Place(torch, dist, device, dist.get_rank(), dist.get_world_size())
    try:
        for each in what:
            one = (
                _overlap(place, AMOUNTS[amount], sizes)
                if each == "overlap"
                else _step(place, AMOUNTS[amount], each, without)
            )
            for found in one:
                yield {"rank": place.rank, **found}
    finally:
        dist.destroy_process_group()


def _step(place: Place, amount: Amount, what: str, without: bool) -> Iterator[dict[str, Any]]:
    name, _, graph = what.partition("+")
    began = time.perf_counter()
    found: dict[str, Any] = {"what": what}
    if without:
        found["work_ms"] = _step_ms(place, amount, STEPS[name], communicates=False, graph=bool(graph))
    found["step_ms"] = _step_ms(place, amount, STEPS[name], communicates=True, graph=bool(graph))
    if without:
        found["exposed_ms"] = found["step_ms"] - found["work_ms"]
    yield {**found, "took_s": time.perf_counter() - began}


def _slowest(place: Place, value: float) -> float:
    held = place.torch.tensor([value], dtype=place.torch.float64, device=place.device)
    place.dist.all_reduce(held, place.dist.ReduceOp.MAX)
    return float(held.item())


# Products beside collectives
# ----------------------------------------------------------------------------------------------------------------------


class Pair:
    """A stream of products, and one of collectives; on a host one thing after the other."""

    def __init__(self, place: Place, amount: Amount) -> None:
        torch = place.torch
        rows, inner, columns = amount.products
        dtype = torch.bfloat16 if place.gpu else torch.float32
        self._place = place
        self._left = torch.randn(rows, inner, device=place.device, dtype=dtype)
        self._right = torch.randn(inner, columns, device=place.device, dtype=dtype)
        self._out = torch.empty(rows, columns, device=place.device, dtype=dtype)
        self._streams = (torch.cuda.Stream(), torch.cuda.Stream()) if place.gpu else (None, None)

    def _product(self) -> None:
        self._place.torch.mm(self._left, self._right, out=self._out)

    def run(self, products: int, call: Callable[[], Any], calls: int) -> tuple[float, float]:
        """Milliseconds until the products are done and until the calls are, from a common start."""
        if not self._place.gpu:
            return self._run_on_host(products, call, calls)
        torch = self._place.torch
        torch.cuda.synchronize()
        self._place.dist.barrier()
        torch.cuda.synchronize()
        begin, ends = torch.cuda.Event(enable_timing=True), [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        begin.record()
        for stream in self._streams:
            stream.wait_event(begin)
        # Turn by turn, so that the host fills neither stream first.
        for turn in range(max(products, calls)):
            if turn < calls:
                with torch.cuda.stream(self._streams[1]):
                    call()
            if turn < products:
                with torch.cuda.stream(self._streams[0]):
                    self._product()
        for stream, end in zip(self._streams, ends, strict=True):
            end.record(stream)
        torch.cuda.synchronize()
        return (begin.elapsed_time(ends[0]) if products else 0.0, begin.elapsed_time(ends[1]) if calls else 0.0)

    def _run_on_host(self, products: int, call: Callable[[], Any], calls: int) -> tuple[float, float]:
        began = time.perf_counter()
        for _ in range(products):
            self._product()
        middle = time.perf_counter()
        for _ in range(calls):
            call()
        return (middle - began) * 1e3, (time.perf_counter() - middle) * 1e3

    def settled(self, products: int, call: Callable[[], Any], calls: int, repeats: int) -> tuple[float, float]:
        """Medians after one run that does not count."""
        self.run(products, call, calls)
        found = [self.run(products, call, calls) for _ in range(repeats)]
        return tuple(_slowest(self._place, median(each[i] for each in found)) for i in (0, 1))  # type: ignore[return-value]


def _overlap(place: Place, amount: Amount, sizes: Sequence[float]) -> Iterator[dict[str, Any]]:
    pair = Pair(place, amount)
    one_product = pair.settled(8, lambda: None, 0, amount.repeats)[0] / 8
    processors = (
        place.torch.cuda.get_device_properties(place.device).multi_processor_count
        if place.gpu
        else MULTIPROCESSORS_OF_HOST
    )
    for collective in COLLECTIVES:
        for mib in sizes:
            call = _call(place, collective, int(mib * (1 << 20)))
            one_call = pair.settled(0, call, 4, amount.repeats)[1] / 4
            calls = max(4, min(200, round(amount.target_ms / one_call)))
            products = max(2, round(one_call * calls / one_product))
            alone = pair.settled(products, call, 0, amount.repeats)[0]
            calls_alone = pair.settled(0, call, calls, amount.repeats)[1]
            beside = pair.settled(products, call, calls, amount.repeats)
            lost = lost_processor_time(alone * 1e3, beside[0] * 1e3, processors, calls)
            yield {"what": f"overlap {collective} {mib:g} MiB", "call_us": calls_alone / calls * 1e3,
                   "products_ms": alone, "calls_ms": calls_alone, "both_ms": max(beside),
                   "efficiency": efficiency(alone, calls_alone, max(beside)), "slowdown": beside[0] / alone,
                   "processor_us": lost, "calls": calls, "products": products}  # fmt: skip


def _call(place: Place, collective: str, size: int) -> Callable[[], Any]:
    torch, dist, ranks = place.torch, place.dist, place.ranks
    dtype = torch.bfloat16 if place.gpu else torch.float32
    count = max(1, size // ranks // (2 if place.gpu else 4))
    whole = torch.zeros(count * ranks, device=place.device, dtype=dtype)
    block = torch.zeros(count, device=place.device, dtype=dtype)
    own = whole[place.rank * count : (place.rank + 1) * count]
    other = torch.zeros(count * ranks, device=place.device, dtype=dtype) if collective == "all_to_all" else whole
    calls: dict[str, Callable[[], Any]] = {
        "all_reduce": lambda: dist.all_reduce(whole),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, block),
        "all_gather_in_place": lambda: dist.all_gather_into_tensor(whole, own),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(block, whole),
        "all_to_all": lambda: dist.all_to_all_single(whole, other),
    }
    return calls[collective]


# Steps
# ----------------------------------------------------------------------------------------------------------------------


def _step_ms(place: Place, amount: Amount, build: Build, *, communicates: bool, graph: bool) -> float:
    """The slowest rank's median step; the ranks start each step together."""
    torch = place.torch
    torch.manual_seed(7)
    step = build(place, amount.shape, communicates)
    if graph and place.gpu:
        step = _captured(place, step)
    times = []
    for number in range(amount.warmup + amount.steps):
        _wait(place)
        place.dist.barrier()
        _wait(place)
        began = time.perf_counter()
        step()
        _wait(place)
        if number >= amount.warmup:
            times.append((time.perf_counter() - began) * 1e3)
    del step
    if place.gpu:
        torch.cuda.empty_cache()
    return _slowest(place, median(times))


def _wait(place: Place) -> None:
    if place.gpu:
        place.torch.cuda.synchronize()


def _captured(place: Place, step: Callable[[], Any]) -> Callable[[], Any]:
    torch = place.torch
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def replay() -> None:
        graph.replay()

    return replay


if __name__ == "__main__":
    sys.exit(main())
