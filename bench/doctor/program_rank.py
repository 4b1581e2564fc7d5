"""One rank of a small training on one GPU, which meets the fault --fault at its sixth step: for programs.py."""

from __future__ import annotations

import argparse
import datetime
import logging
import os
import signal
import time
from collections.abc import Callable

STEPS, AT = 12, 5
LIMIT_S = 8
"""After which PyTorch's watchdog ends a collective."""

RANK = int(os.environ.get("RANK", os.environ.get("OMPI_COMM_WORLD_RANK", "0")))
RANKS = int(os.environ.get("WORLD_SIZE", os.environ.get("OMPI_COMM_WORLD_SIZE", "1")))
FAULT = argparse.ArgumentParser(description=__doc__)
FAULT.add_argument("--fault", default="none")
FAULT.add_argument("--same-host", action="store_true", help="let NCCL see that the ranks share a GPU")
ARGS = FAULT.parse_args()
os.environ.update({"RANK": str(RANK), "WORLD_SIZE": str(RANKS)})
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
if not ARGS.same_host:
    os.environ.setdefault("NCCL_HOSTID", f"node{RANK}")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

LOG = logging.getLogger("train")


def ended_by(number: int) -> Callable[[torch.Tensor], None]:
    """The last rank ends by that signal."""

    def fault(_: torch.Tensor) -> None:
        if RANK == RANKS - 1:
            os.kill(os.getpid(), number)
            time.sleep(3)

    return fault


def late(_: torch.Tensor) -> None:
    """The last rank waits longer than the watchdog does."""
    if RANK == RANKS - 1:
        time.sleep(3 * LIMIT_S)


def raises(error: Exception) -> Callable[[torch.Tensor], None]:
    """The last rank's own program fails."""

    def fault(_: torch.Tensor) -> None:
        if RANK == RANKS - 1:
            raise error

    return fault


def leaves(_: torch.Tensor) -> None:
    """The last rank has no more to do."""
    if RANK == RANKS - 1:
        os._exit(4)


def too_large(_: torch.Tensor) -> None:
    """The last rank asks for more than the GPU has."""
    if RANK == RANKS - 1:
        torch.empty(1 << 39, dtype=torch.uint8, device="cuda")


def bad_index(_: torch.Tensor) -> None:
    """A kernel of the last rank checks an index and fails."""
    if RANK == RANKS - 1:
        table = nn.Embedding(10, 4).cuda()
        print(table(torch.tensor([99], device="cuda")).sum().item())


def other_call(x: torch.Tensor) -> None:
    """Ranks call different collectives."""
    if RANK == 0:
        dist.all_reduce(x)
    else:
        dist.all_gather([torch.empty_like(x[:10]) for _ in range(RANKS)], x[:10])
    torch.cuda.synchronize()


def on_host(_: torch.Tensor) -> None:
    """A tensor that does not lie on a GPU."""
    dist.all_reduce(torch.ones(4))


def one_more(x: torch.Tensor) -> None:
    """One rank calls a collective more often."""
    if RANK == 0:
        dist.broadcast(x[:100], 0)


def no_number(x: torch.Tensor) -> None:
    """A value that is no number, found by the program's own check."""
    loss = (x * float("nan")).sum()
    if not torch.isfinite(loss):
        raise FloatingPointError("loss is nan at step 5")


FAULTS: dict[str, Callable[[torch.Tensor], None]] = {
    "kill": ended_by(signal.SIGKILL),
    "segv": ended_by(signal.SIGSEGV),
    "abort": ended_by(signal.SIGABRT),
    "term": ended_by(signal.SIGTERM),
    "late": late,
    "value": raises(ValueError("shape '[8, 128]' is invalid for input of size 960")),
    "file": raises(FileNotFoundError(2, "No such file or directory", "/data/shard-7.tar")),
    "disk": raises(OSError(28, "No space left on device", "/ckpt/step5.pt")),
    "stale": raises(OSError(116, "Stale file handle", "/home/u/data.bin")),
    "leaves": leaves,
    "memory": too_large,
    "index": bad_index,
    "other-call": other_call,
    "on-host": on_host,
    "one-more": one_more,
    "no-number": no_number,
}


def main() -> None:
    """Steps of a model of two layers, as a program of a user logs them."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=LIMIT_S))
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)).cuda())
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.ones(1 << 16, device="cuda")
    for step in range(STEPS):
        if step == AT and ARGS.fault in FAULTS:
            FAULTS[ARGS.fault](x)
        dist.all_reduce(x)
        loss = model(torch.randn(32, 256, device="cuda")).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        if RANK == 0 and step % 4 == 0:
            LOG.info("step %d loss %.4f", step, loss.item())
        x.fill_(1)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
