"""What the cases share: a registry, the rank's device, a small model, and how a result becomes numbers."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn

GPU = torch.cuda.is_available()
BACKEND = "nccl" if GPU else "gloo"
DEVICE = "cuda" if GPU else "cpu"

Result = list[torch.Tensor]


@dataclass(frozen=True)
class Case:
    """One program: its function, how many ranks it wants, how close two runs of it are, and what it is made with."""

    run: Callable[[], Result]
    ranks: int
    tolerance: float = 0.0
    needs: str = "torch"


CASES: dict[str, Case] = {}


def case(
    ranks: int = 2, tolerance: float = 0.0, needs: str = "torch"
) -> Callable[[Callable[[], Result]], Callable[[], Result]]:
    """Registers a function. A tolerance of 0: with NCCL alone the result has the same bits."""

    def add(function: Callable[[], Result]) -> Callable[[], Result]:
        CASES[function.__name__] = Case(function, ranks, tolerance, needs)
        return function

    return add


def device() -> torch.device:
    """This rank's GPU; ranks share them where there are fewer."""
    if not GPU:
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ["RANK"]) % torch.cuda.device_count())


def join() -> None:
    """Makes the default group. Each rank has the same parameters and its own data from here on."""
    if GPU:
        torch.cuda.set_device(device())
    dist.init_process_group(BACKEND, device_id=device() if GPU else None)


def model(width: int = 256, layers: int = 4) -> nn.Sequential:
    """The same on all ranks."""
    torch.manual_seed(11)
    made: list[nn.Module] = []
    for _ in range(layers):
        made += [nn.Linear(width, width), nn.GELU()]
    return nn.Sequential(*made, nn.Linear(width, 1)).to(device())


def batch(step: int, width: int = 256, rows: int = 16) -> torch.Tensor:
    """Another for each rank and step."""
    torch.manual_seed(1000 * step + dist.get_rank())
    return torch.randn(rows, width, device=device())


def whole(rows: int, columns: int, seed: int = 5) -> torch.Tensor:
    """Small whole numbers, alike on all ranks, so that sums have one right answer."""
    torch.manual_seed(seed)
    return torch.randint(-6, 7, (rows, columns)).float().to(device())


def train(
    network: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 6, width: int = 256, data: int = 0
) -> Result:
    """Losses of some steps. `data` is added to the steps' seeds."""
    losses = []
    for step in range(steps):
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        loss = network(batch(step + data, width)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses
