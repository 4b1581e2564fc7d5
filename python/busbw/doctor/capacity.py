"""What channels, links and detours can carry: the arithmetic by which findings estimate a cost."""

from __future__ import annotations

from busbw.expect.fabric import pcie_of_sm
from busbw.expect.links import CHANNEL_GBPS, HOST_SHARE, nvlink_share
from busbw.machine.topology.model import Gpu, Machine
from busbw.machine.topology.rates import nccl_nvlink_GBps

UNNAMED_LINK_GBPS = 20.0
"""Per NVLink where nobody said which GPU it is (`nvidia-smi topo -m`): what NCCL counts on for V100 and A100."""


def links_GBps(machine: Machine | None) -> float | None:
    """What NCCL counts on from the NVLinks of the GPU with the fewest, GB/s; None where not all pairs have them."""
    if machine is None or not machine.all_nvlink:
        return None
    rates = [_gpu_GBps(gpu) for gpu in machine.gpus]
    known = [rate for rate in rates if rate]
    return min(known) if known and len(known) == len(rates) else None


def channel_GBps(machine: Machine | None) -> float | None:
    """What one channel (a thread block at each end) carries on these GPUs, GB/s; None without GPUs.

    For a compute capability below those that were measured, or unknown, the oldest measured one stands.
    """
    if machine is None or not machine.gpus:
        return None
    sm = machine.gpus[0].sm
    known = [each for each in CHANNEL_GBPS if sm is not None and each <= sm]
    return CHANNEL_GBPS[max(known, default=min(CHANNEL_GBPS))].share.value


def channels_GBps(channels: int, machine: Machine | None) -> float | None:
    """What that many channels carry, GB/s."""
    one = channel_GBps(machine)
    return channels * one if one is not None else None


def through_host_GBps(machine: Machine | None) -> float | None:
    """What GPUs reach through host memory, GB/s, by their PCIe link or what is usual for their generation."""
    if machine is None:
        return None
    rates = [gpu.pcie.max_GBps or gpu.pcie.GBps or pcie_of_sm(gpu.sm) for gpu in machine.gpus]
    return min(rates) * HOST_SHARE.share.value if rates and all(rates) else None


def loss(machine: Machine | None, limit: float | None) -> float | None:
    """How many times faster a large all-reduce would be without the limit (GB/s); None where unknown or nothing."""
    links = links_GBps(machine)
    if machine is None or links is None or not limit:
        return None
    reached = links * nvlink_share("all_reduce", len(machine.gpus)).value
    factor = reached / min(limit, reached)
    return factor if factor >= 1.1 else None


def _gpu_GBps(gpu: Gpu) -> float | None:
    rate = nccl_nvlink_GBps(gpu.sm)
    return (rate if rate is not None else UNNAMED_LINK_GBPS) * gpu.nvlink_count
