"""Rates of links: bytes per second that a link carries in one direction, by its generation."""

from __future__ import annotations

from collections.abc import Mapping

# Line rate of one NVLink in one direction, GB/s (1e9). Source: NVIDIA's data sheets of P100, V100, A100, H100, B200:
# 160, 300, 600, 900, 1800 GB/s in both directions over 4, 6, 12, 18, 18 links.
NVLINK_GBPS: Mapping[int, float] = {1: 20.0, 2: 25.0, 3: 25.0, 4: 25.0, 5: 50.0}

# What NCCL counts on per NVLink and direction when it searches for channels, GB/s, by compute capability.
# Source: NCCL src/graph/topo.h, SM60 to SM100 NVLINK_BW.
NCCL_NVLINK_GBPS: Mapping[int, float] = {60: 18.0, 70: 20.0, 80: 20.0, 86: 12.0, 90: 20.6, 100: 40.1}

NVLINK_GENERATION_OF_SM: Mapping[int, int] = {60: 1, 70: 2, 75: 2, 80: 3, 86: 3, 90: 4, 100: 5, 103: 5}

# Transfers per second and lane, GT/s (PCI-SIG), and the share of bits that are payload of the link layer's code.
PCIE_GTPS: Mapping[int, float] = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
_PCIE_CODE: Mapping[int, float] = {1: 8 / 10, 2: 8 / 10, 3: 128 / 130, 4: 128 / 130, 5: 128 / 130, 6: 242 / 256}


def pcie_GBps(generation: int | None, width: int | None) -> float | None:
    """Line rate of a PCIe link in one direction, GB/s, before packet headers; None where either is unknown."""
    if generation is None or generation not in PCIE_GTPS or not width:
        return None
    return PCIE_GTPS[generation] * _PCIE_CODE[generation] * width / 8


def pcie_generation(gtps: float) -> int | None:
    """The generation of that many GT/s per lane; None for a rate that none has."""
    return next((generation for generation, rate in PCIE_GTPS.items() if abs(rate - gtps) < 0.01), None)


def nvlink_generation(sm: int | None) -> int | None:
    """The NVLink generation of GPUs of this compute capability (80 is 8.0); None where unknown."""
    return NVLINK_GENERATION_OF_SM.get(sm) if sm is not None else None


def nccl_nvlink_GBps(sm: int | None) -> float | None:
    """What NCCL counts on per NVLink and direction, GB/s, for this compute capability; None where unknown."""
    known = [each for each in NCCL_NVLINK_GBPS if sm is not None and each <= sm]
    if sm is None or not known:
        return None
    return NCCL_NVLINK_GBPS[86 if sm in {86, 89} else max(each for each in known if each != 86)]
