"""What each rank of the jobs of torch_jobs.py has: its device, a small model, a step."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

FAULTY = 1
STEPS, AT = 12, 8
WIDTH = 64
LONG_S = 600.0


@dataclass(frozen=True)
class Rank:
    """One rank of the job; `pause_s` is less than half of what the watcher takes for a hang."""

    me: int
    ranks: int
    device: Any
    folder: Path
    pause_s: float

    @property
    def is_faulty(self) -> bool:
        return self.me == FAULTY

    def tell(self) -> None:
        """When the fault happens, for those who measure the delay."""
        (self.folder / "fault").write_text(str(time.monotonic()), encoding="ascii")

    def ones(self, *sizes: int) -> torch.Tensor:
        import torch

        return torch.ones(*sizes, device=self.device)

    def model(self, *, normed: bool = False, find_unused: bool = False, module: Any = None) -> Any:
        """Two layers under DDP."""
        from torch import nn

        between = [nn.BatchNorm1d(WIDTH)] if normed else []
        made = module or nn.Sequential(nn.Linear(WIDTH, WIDTH), *between, nn.ReLU(), nn.Linear(WIDTH, 10))
        on_gpu = self.device.type == "cuda"
        return nn.parallel.DistributedDataParallel(
            made.to(self.device), device_ids=[self.device.index] if on_gpu else None, find_unused_parameters=find_unused
        )

    def step(self, model: Any, rows: int = 8) -> float:
        """Forward, backward, and the loss as a number, for which the GPU is waited for."""
        loss = model(self.ones(rows, WIDTH)).square().mean()
        loss.backward()
        return float(loss.item())


def metrics(rank: Rank, loss: float = 1.0) -> float:
    """The mean loss of all ranks, as at the end of an epoch."""
    from torch import distributed

    total = rank.ones(1) * loss
    distributed.all_reduce(total)
    return float(total.item())
