"""Measures training steps of PyTorch's DDP over gloo or NCCL, and predicts those that were not used for the fit.

    PYTHON-WITH-TORCH bench/settings/step.py [--rounds 15] [--ranks 2] [--gpus]

Each model is a chain of linear layers. In turns, round after round: each layer forward and backward by itself, the
chain without DDP, all reductions of each bucket's size, and the whole step under DDP. As waiting after each layer
costs time, the layers' times are scaled to what the chain takes. Some models fit the two slowdowns of work and calls
beside each other; `busbw predict step` predicts the others from their layers and the times of the reductions. With
--gpus the layers are 8 times as wide, the batches 32 times as large, and each time ends when the GPU is done.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python")]

from busbw.expect.schedule import Slowdown  # noqa: E402
from busbw.expect.step import Layer, Step, TimeOf, predict, table_times  # noqa: E402
from busbw.records import Case, End, Record, Run, Tool  # noqa: E402
from busbw.runs import store  # noqa: E402

# Widths of the layers, and rows of a batch.
FIT = {"even": ([1024] * 6, 96), "wide last": ([512, 512, 1024, 2048], 128), "deep": ([768] * 10, 64)}
HELD_OUT = {"wide first": ([2048, 1024, 512, 512], 128), "two sizes": ([1024, 640, 1024, 640, 1024], 96),
            "narrow": ([512] * 12, 192), "few": ([1536] * 4, 64)}  # fmt: skip
MODELS = FIT | HELD_OUT
SIZES = tuple(1 << n for n in range(18, 26))
WIDER, MORE_ROWS, LARGEST_ON_GPUS = 8, 32, 31
FIRST_BUCKET, BUCKET = 1 << 20, 25 << 20
PATIENCE = timedelta(seconds=300)


class Rank:
    """One rank of the measurement."""

    def __init__(self, rank: int, ranks: int, port: int, *, on_gpus: bool) -> None:
        import torch
        from torch import distributed, nn

        torch.set_num_threads(1)
        self.torch, self.dist, self.on_gpus = torch, distributed, on_gpus
        self.device = torch.device("cuda", rank) if on_gpus else torch.device("cpu")
        if on_gpus:
            torch.cuda.set_device(self.device)
            torch.backends.cuda.matmul.allow_tf32 = True
        backend = "nccl" if on_gpus else "gloo"
        distributed.init_process_group(
            backend, f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks, timeout=PATIENCE
        )
        self.layers: dict[str, Any] = {}
        self.steps: dict[str, Any] = {}
        self.inputs: dict[str, Any] = {}
        for name, (widths, rows) in models(on_gpus=on_gpus).items():
            pairs = zip([widths[0], *widths], widths, strict=False)
            chain = [nn.Sequential(nn.Linear(before, width), nn.ReLU()).to(self.device) for before, width in pairs]
            self.layers[name] = chain
            self.inputs[name] = torch.randn(rows, widths[0], device=self.device)
            self.steps[name] = nn.parallel.DistributedDataParallel(nn.Sequential(*chain), gradient_as_bucket_view=True)
        self.buffers = {size: torch.zeros(size // 4, device=self.device) for size in sizes(on_gpus=on_gpus)}

    def now(self) -> float:
        """When all that was begun is done."""
        if self.on_gpus:
            self.torch.cuda.synchronize()
        return time.perf_counter()

    def us(self, begun: float) -> float:
        """Microseconds since then, of the slowest rank."""
        took = self.torch.tensor([self.now() - begun], dtype=self.torch.float64, device=self.device)
        self.dist.all_reduce(took, op=self.dist.ReduceOp.MAX)
        return float(took) * 1e6

    def step(self, name: str) -> float:
        """Forward and backward under DDP."""
        self.dist.barrier()
        begun = self.now()
        self.steps[name](self.inputs[name]).sum().backward()
        return self.us(begun)

    def work(self, name: str) -> list[tuple[float, float]]:
        """Forward and backward of each layer, while the other ranks do the same."""
        self.dist.barrier()
        ends: list[tuple[Any, Any]] = []
        forward, value = [], self.inputs[name]
        for layer in self.layers[name]:
            taken = value.detach().requires_grad_(bool(ends))
            begun = self.now()
            value = layer(taken)
            forward.append((self.now() - begun) * 1e6)
            ends.append((taken, value))
        gradient, backward = self.torch.ones_like(value), []
        for taken, value in reversed(ends):
            begun = self.now()
            value.backward(gradient)
            backward.append((self.now() - begun) * 1e6)
            gradient = taken.grad if taken.grad is not None else gradient
        mine = self.torch.tensor([forward, backward[::-1]], dtype=self.torch.float64, device=self.device)
        self.dist.all_reduce(mine)
        mine /= self.dist.get_world_size()
        return list(zip(mine[0].tolist(), mine[1].tolist(), strict=True))

    def chain(self, name: str) -> float:
        """Forward and backward without DDP, on all ranks at once."""
        self.dist.barrier()
        begun = self.now()
        value = self.inputs[name]
        for layer in self.layers[name]:
            value = layer(value)
        value.sum().backward()
        return self.us(begun)

    def reduction(self, size: int) -> float:
        """One all-reduce."""
        self.dist.barrier()
        begun = self.now()
        self.dist.all_reduce(self.buffers[size])
        return self.us(begun)


def models(*, on_gpus: bool) -> dict[str, tuple[list[int], int]]:
    """By name, the widths of the layers and the rows of a batch."""
    if not on_gpus:
        return MODELS
    return {name: ([WIDER * width for width in widths], MORE_ROWS * rows) for name, (widths, rows) in MODELS.items()}


def sizes(*, on_gpus: bool) -> tuple[int, ...]:
    """Bytes of the reductions that are measured."""
    return tuple(1 << n for n in range(18, LARGEST_ON_GPUS)) if on_gpus else SIZES


def measure(rank: int, ranks: int, port: int, rounds: int, out: str, on_gpus: bool) -> None:  # noqa: PLR0913, PLR0917 - torch starts it with words by place
    """All in turns; rank 0 writes the medians."""
    one = Rank(rank, ranks, port, on_gpus=on_gpus)
    steps: dict[str, list[float]] = {name: [] for name in MODELS}
    chains: dict[str, list[float]] = {name: [] for name in MODELS}
    work: dict[str, list[list[tuple[float, float]]]] = {name: [] for name in MODELS}
    reductions: dict[int, list[float]] = {size: [] for size in sizes(on_gpus=on_gpus)}
    for number in range(rounds + 3):
        for name in MODELS:
            found, whole, taken = one.work(name), one.chain(name), one.step(name)
            if number >= 3:  # DDP forms its buckets anew after its first step
                work[name].append(found)
                steps[name].append(taken)
                chains[name].append(whole)
        for size, times in reductions.items():
            taken = one.reduction(size)
            if number >= 3:
                times.append(taken)
    if rank == 0:
        layers = {name: [[median(each) for each in zip(*layer, strict=True)] for layer in zip(*found, strict=True)]
                  for name, found in work.items()}  # fmt: skip
        for name, found in layers.items():
            scale = median(chains[name]) / sum(map(sum, found))
            layers[name] = [[scale * us for us in layer] for layer in found]
        Path(out).write_text(json.dumps({
            "steps": {name: median(found) for name, found in steps.items()}, "layers": layers,
            "reductions": [[size, median(found)] for size, found in reductions.items()],
            "on_gpus": on_gpus,
            "spread": {name: sorted(found)[len(found) // 4] / median(found) for name, found in steps.items()},
        }))  # fmt: skip
    one.dist.destroy_process_group()


def step_of(found: dict[str, Any], name: str) -> Step:
    """A model as the prediction takes it."""
    widths = models(on_gpus=found["on_gpus"])[name][0]
    layers = []
    for number, (forward, backward) in enumerate(found["layers"][name]):
        before = widths[max(0, number - 1)]
        tensors = (4 * before * widths[number], 4 * widths[number])
        layers.append(Layer(str(number), forward, backward, sum(tensors), tensors=tensors))
    return Step("ddp", tuple(layers), BUCKET, FIRST_BUCKET)


def fitted(found: dict[str, Any], time_of: TimeOf) -> Slowdown:
    """The two slowdowns that explain the models of the fit best."""
    steps = [(step_of(found, name), found["steps"][name]) for name in FIT]
    tried = [Slowdown(1 + 0.05 * work, 1 + 0.05 * calls) for work in range(31) for calls in range(31)]
    return min(tried, key=lambda slow: sum(
        math.log(predict(step, time_of, slow).step_us / us) ** 2 for step, us in steps))  # fmt: skip


def predicted(found: dict[str, Any], name: str, slow: Slowdown, folder: Path) -> float:
    """What `busbw predict step` says."""
    step = step_of(found, name)
    rows = [{"name": each.name, "forward_us": each.forward_us, "backward_us": each.backward_us,
             "parameter_bytes": list(each.tensors)} for each in step.layers]  # fmt: skip
    file = folder / "step.json"
    said = {"work_slowdown": slow.work, "call_slowdown": slow.calls, "bucket": BUCKET, "first_bucket": FIRST_BUCKET}
    file.write_text(json.dumps({"step": said, "layer": rows}))
    words = [sys.executable, "-m", "busbw", "predict", "step", str(file), "--times", str(folder / "gloo"), "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "BUSBW_RUNS": str(folder)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return float(json.loads(done.stdout)[0]["step_us"])


def keep(found: dict[str, Any], folder: Path) -> None:
    """The times of the reductions as a run."""
    cases = [Case("gloo", number, "all_reduce", size, "out_of_place", "measured", us, type="float", ranks=2)
             for number, (size, us) in enumerate(found["reductions"])]  # fmt: skip
    store.add(Record(Run("gloo", None, Tool("bench/settings/step.py"), None), tuple(cases),
                     End("gloo", "completed", len(cases))), folder)  # fmt: skip


def main() -> int:
    """Measure, fit, predict; 1 where a step that was not used for the fit is off by more than 5 %."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--gpus", action="store_true", help="over NCCL, with a GPU for each rank")
    args = parser.parse_args()
    import socket

    from torch import multiprocessing

    with socket.socket() as free, tempfile.TemporaryDirectory() as temporary:
        free.bind(("127.0.0.1", 0))
        port, out = free.getsockname()[1], Path(temporary) / "found.json"
        free.close()
        multiprocessing.spawn(measure, (args.ranks, port, args.rounds, str(out), args.gpus), nprocs=args.ranks)
        found = json.loads(out.read_text())
        keep(found, Path(temporary))
        time_of = table_times([("all_reduce", size, us) for size, us in found["reductions"]])
        slow = fitted(found, time_of)
        print(f"work beside calls x {slow.work:.2f}, calls beside work x {slow.calls:.2f}")
        worst = 0.0
        for name in MODELS:
            said, us = predicted(found, name, slow, Path(temporary)), found["steps"][name]
            worst = max(worst, abs(said / us - 1)) if name in HELD_OUT else worst
            print(f"{'fit ' if name in FIT else 'held'} {name:12} measured {us / 1e3:7.2f} ms (lower quarter "
                  f"{found['spread'][name]:.2f}), predicted {said / 1e3:7.2f} ms, {100 * (said / us - 1):+.1f} %",
                  flush=True)  # fmt: skip
    print(f"held out: off by at most {100 * worst:.1f} %, load average {os.getloadavg()[0]:.1f} of {os.cpu_count()} "
          "processors (what else runs makes steps longer, and no prediction knows it)")  # fmt: skip
    return 0 if worst <= 0.05 else 1


if __name__ == "__main__":
    sys.exit(main())
