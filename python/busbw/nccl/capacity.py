"""What channels and links can carry: the arithmetic with which a graph, a limit or a detour is judged."""

from __future__ import annotations

from collections.abc import Mapping

from busbw.topology.model import Gpu, Machine
from busbw.topology.rates import nccl_nvlink_GBps

# One channel is one thread block per GPU, and that block's copies bound it, GB/s by compute capability.
# sm 90: 4 H200, NCCL 2.28.9, NCCL_MAX_NCHANNELS=4: 98 GB/s of bus bandwidth at 1 GiB over 4 channels.
# sm 80: 2 A100 80GB, catalogue:nc48v4 with its graph file: 58 GB/s at 8 GiB over 4 channels.
CHANNEL_GBPS: Mapping[int, float] = {80: 14.5, 90: 24.5}

# Share of what NCCL counts on per NVLink that a large all-reduce reached.
# 220 of 240 on 2 A100 with 12 links (catalogue:nc48v4), 332 and 355 of 371 on 2 and 4 H200.
REACHED = 0.92

# Bus bandwidth through host memory over the PCIe line rate of one direction: 23.7 GB/s of 63 on 4 H200 with PCIe 5 x16
# and NCCL_P2P_DISABLE=1. Every byte is written to host memory and read from it again.
THROUGH_HOST = 0.375
_USUAL_PCIE_GBPS: Mapping[int, float] = {70: 15.8, 80: 31.5, 90: 63.0, 100: 63.0}


def links_GBps(machine: Machine) -> float | None:
    """What NCCL counts on from the NVLinks of the GPU with the fewest, GB/s; None where not all pairs have them."""
    if not machine.all_nvlink:
        return None
    each = [_gpu_GBps(gpu) for gpu in machine.gpus]
    return min((rate for rate in each if rate is not None), default=None) if None not in each else None


def _gpu_GBps(gpu: Gpu) -> float | None:
    rate = nccl_nvlink_GBps(gpu.sm)
    if rate is not None:
        return rate * gpu.nvlink_count
    line = gpu.nvlink_GBps
    return line * 0.8 if line is not None else None


def channels_GBps(channels: int, sm: int | None) -> float | None:
    """What that many channels can carry, GB/s; None for a compute capability without a measurement."""
    known = [each for each in CHANNEL_GBPS if sm is not None and each <= sm]
    return channels * CHANNEL_GBPS[max(known)] if known else None


def through_host_GBps(machine: Machine) -> float | None:
    """What GPUs reach through host memory, GB/s, by their PCIe link or what is usual for their generation."""
    rates = [gpu.pcie.max_GBps or gpu.pcie.GBps or _usual(gpu.sm) for gpu in machine.gpus]
    known = [rate for rate in rates if rate is not None]
    return min(known) * THROUGH_HOST if known and len(known) == len(rates) else None


def _usual(sm: int | None) -> float | None:
    known = [each for each in _USUAL_PCIE_GBPS if sm is not None and each <= sm]
    return _USUAL_PCIE_GBPS[max(known)] if known else None


def loss(links: float | None, limit: float | None) -> float | None:
    """How many times faster it would be without the limit; None where one side is unknown or nothing is lost."""
    if not links or not limit:
        return None
    factor = links * REACHED / min(limit, links * REACHED)
    return factor if factor >= 1.1 else None
