"""Times a case: on GPUs between two events of the stream, elsewhere on the host's clock; always from a barrier."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from busbw.torch_bench.collectives import Case, all_gather

_TEXT_BYTES = 1024


@dataclass(frozen=True)
class Batch:
    """How a batch is timed."""

    warmup: int
    calls: int
    blocking: bool  # wait after each call, as a program does that needs the result


def time_batch(case: Case, batch: Batch) -> float:
    """Microseconds of one call, the mean of a batch on this rank."""
    gpu = case.spec.device.type == "cuda"
    case.refresh()
    _calls(case, batch.warmup, blocking=True)
    _settle(gpu)
    # Without its number, NCCL's barrier guesses a GPU, and says so on every rank.
    dist.barrier(device_ids=[case.spec.device.index] if gpu else None)
    _settle(gpu)
    if gpu and not batch.blocking:
        return _between_events(case, batch.calls)
    begin = time.perf_counter()
    _calls(case, batch.calls, blocking=batch.blocking)
    _settle(gpu)
    return (time.perf_counter() - begin) * 1e6 / batch.calls


def checked(case: Case) -> int:
    """Wrong elements of this rank after one call on fresh buffers."""
    case.refresh()
    _calls(case, 1, blocking=True)
    _settle(case.spec.device.type == "cuda")
    return case.wrong()


def per_rank(value: float, size: int, device: Any) -> list[float]:
    """The same number of every rank, in rank order."""
    found = torch.zeros(size, dtype=torch.float64, device=device)
    own = torch.tensor([value], dtype=torch.float64, device=device)
    all_gather(found, own)
    return [float(each) for each in found.tolist()]


def all_texts(text: str, size: int, device: Any) -> list[str]:
    """A short text of every rank, in rank order; without numpy, which torch's own exchange of objects needs."""
    padded = text.encode().ljust(_TEXT_BYTES)[:_TEXT_BYTES]
    found = torch.zeros(size * _TEXT_BYTES, dtype=torch.uint8, device=device)
    all_gather(found, torch.tensor(list(padded), dtype=torch.uint8, device=device))
    whole = bytes(found.tolist())
    return [whole[rank * _TEXT_BYTES : (rank + 1) * _TEXT_BYTES].decode().rstrip() for rank in range(size)]


def _between_events(case: Case, calls: int) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    _calls(case, calls, blocking=False)
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) * 1e3 / calls


def _calls(case: Case, calls: int, *, blocking: bool) -> None:
    # On a GPU, wait() makes the stream wait and not the host: what is recorded after it comes after the collective.
    works = []
    for _ in range(calls):
        work = case.call()
        if blocking:
            work.wait()
            _settle(case.spec.device.type == "cuda")
        else:
            works.append(work)
    for work in works:
        work.wait()


def _settle(gpu: bool) -> None:
    if gpu:
        torch.cuda.synchronize()
