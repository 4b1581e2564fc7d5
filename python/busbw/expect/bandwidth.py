"""The bus bandwidth that a fabric allows a collective by an algorithm, for messages of any size."""

from __future__ import annotations

from enum import Enum

from busbw.expect.fabric import Fabric
from busbw.expect.links import (
    ACROSS_DOMAINS,
    CHANNEL_GBPS,
    CHANNELS_PER_NIC,
    CUBE_ALLTOALL,
    CUBE_GPUS,
    CUBE_PAIR,
    FEW_GPUS,
    MULTICAST_ACROSS,
    MULTICAST_GPUS,
    MULTICAST_SHARE,
    NET_ALLTOALL,
    NET_CHANNEL,
    SINGLE_GPU,
    TREE_ACROSS,
    TREE_SHARE,
    LinkKind,
    NetKind,
    nvlink_share,
)
from busbw.expect.span import Span, least

# Both for compute capabilities below the first that was measured.
_OLDEST_CHANNEL = 80
CUBE_NEWEST = 70
"""Compute capability of the last GPUs of which eight were joined without a switch (V100)."""


class Algorithm(Enum):
    """How NCCL moves the data."""

    RING = "ring"
    TREE = "tree"
    NVLS = "NVLS"
    DIRECT = "direct"


DIRECT_COLLECTIVES = frozenset({"alltoall", "alltoallv", "gather", "scatter", "sendrecv", "hypercube"})


def algorithms(fabric: Fabric, collective: str, gpus: int, nodes: int, *, multicast: bool) -> list[Algorithm]:
    """What NCCL may choose from."""
    if collective in DIRECT_COLLECTIVES:
        return [Algorithm.DIRECT]
    if collective != "all_reduce":
        return [Algorithm.RING]
    found = [Algorithm.RING, Algorithm.TREE] if nodes > 1 else [Algorithm.RING]
    # NVLink SHARP needs the whole switch to itself in practice: NCCL uses it from 3 GPUs on.
    if multicast and fabric.multicast and gpus > 2:
        found.append(Algorithm.NVLS)
    return found


def bus_bandwidth(fabric: Fabric, collective: str, algorithm: Algorithm, gpus: int, nodes: int) -> Span:
    """Bus bandwidth in GB/s for `gpus` in each of `nodes`, once latency no longer counts.

    Inside a node NVLinks (or PCIe) bound a ring, between nodes the NICs do: rings cross each of them once in each
    direction, so bus bandwidth is the least of both. Source of the reasoning: nccl-tests, doc/PERFORMANCE.md.
    """
    inside = _inside(fabric, collective, gpus, nodes)
    if nodes == 1:
        return _multicast(fabric, gpus, gpus) if algorithm is Algorithm.NVLS else inside
    network = few_channels(fabric, gpus, fabric.network(gpus))
    if algorithm is Algorithm.DIRECT:
        return least([inside, _between(network, collective, gpus, nodes)]) if gpus > 1 else network
    # On two nodes a tree sends each byte over the network once in each direction, whatever the number of ranks.
    factor = 2 * (gpus * nodes - 1) / (gpus * nodes)
    crossings = network * TREE_ACROSS.share * factor if nodes == 2 else network
    if algorithm is Algorithm.NVLS:
        inside_all = _multicast(fabric, gpus * nodes, gpus) * MULTICAST_ACROSS.share
        if fabric.hosts > 1:
            # Of two domains each sends a byte once in each direction, of more up and down (NCCL src/graph/tuning.cc
            # doubles interBw of NVLSTree for two).
            inside_all = inside_all * ACROSS_DOMAINS.share * (1.0 if nodes == 2 else 0.5)
        return least([inside_all, crossings])
    if algorithm is Algorithm.TREE:
        across = crossings if nodes == 2 else crossings * TREE_SHARE.share
        return least([inside * TREE_SHARE.share, across]) if gpus > 1 else network
    return least([inside, network]) if gpus > 1 else network


def few_channels(fabric: Fabric, gpus: int, network: Span) -> Span:
    """What one or two GPUs a node get from their NICs: NCCL gives each of these two channels, which bound it."""
    if fabric.net is NetKind.ROCE and (fabric.sm or 0) >= 90 and gpus < FEW_GPUS:
        nics = max(1.0, fabric.nics * min(1.0, gpus / fabric.gpus))
        return least([network, NET_CHANNEL.share * (CHANNELS_PER_NIC * nics)])
    return network * SINGLE_GPU.share if gpus == 1 else network


def _inside(fabric: Fabric, collective: str, gpus: int, nodes: int) -> Span:
    if gpus == 1:
        return Span.exactly(fabric.nvlink_GBps or fabric.pcie_GBps)
    rate = fabric.rate(gpus)
    if collective in DIRECT_COLLECTIVES and _is_cube(fabric, gpus):
        pair = CUBE_PAIR.share * (1 / 6)
        return rate * (pair if collective == "sendrecv" else CUBE_ALLTOALL.share * (7 / 12))
    if fabric.link(gpus) is LinkKind.NVLINK:
        rate = rate * nvlink_share(collective, gpus if nodes == 1 else 2 * gpus)
        if fabric.channels:
            rate = least([rate, _of_channels(fabric, fabric.channels)])
    return rate


def _is_cube(fabric: Fabric, gpus: int) -> bool:
    """Whether so many GPUs have NVLinks to some of the others alone: more than half of a board without a switch."""
    joined = fabric.link(gpus) is LinkKind.NVLINK and not fabric.switched
    return joined and (fabric.sm or CUBE_NEWEST + 1) <= CUBE_NEWEST and CUBE_GPUS // 2 < gpus <= CUBE_GPUS


def _of_channels(fabric: Fabric, channels: int) -> Span:
    known = [sm for sm in CHANNEL_GBPS if fabric.sm and sm <= fabric.sm]
    return CHANNEL_GBPS[max(known, default=_OLDEST_CHANNEL)].share * float(channels)


def channel_bound(fabric: Fabric, gpus: int) -> bool:
    """Whether so few channels are left that they bound the bandwidth and not the NVLinks."""
    if not fabric.channels or fabric.link(gpus) is not LinkKind.NVLINK:
        return False
    return _of_channels(fabric, fabric.channels).value < fabric.rate(gpus).value


def channel_GBps(fabric: Fabric) -> float:
    """What one channel moves over NVLink."""
    return _of_channels(fabric, 1).value


def _multicast(fabric: Fabric, ranks: int, gpus: int) -> Span:
    """Of so many ranks, so many of which share a switch: busbw = algbw 2 (n - 1) / n."""
    known = 100 if (fabric.sm or 0) >= 100 else 90
    share = MULTICAST_SHARE[known].share * (fabric.nvlink_GBps * 2 * (ranks - 1) / ranks)
    # Each GPU takes the whole message from the switch and puts in or takes out its own part of it besides: of four
    # GPUs that part is larger than of eight. Blackwell's figures do not show it.
    return share * ((1 + 1 / MULTICAST_GPUS) / (1 + 1 / gpus)) if known == 90 else share


def _between(network: Span, collective: str, gpus: int, nodes: int) -> Span:
    """Bus bandwidth of pairwise exchange: only what leaves the node goes over its NICs, shared by its GPUs."""
    ranks = gpus * nodes
    if collective in {"alltoall", "alltoallv"}:
        return network * NET_ALLTOALL.share * ((ranks - 1) / (ranks - gpus) / gpus)
    if collective in {"gather", "scatter"}:
        # The root alone receives or sends, through the NICs that its GPU reaches.
        return network * ((ranks - 1) / (ranks - gpus) / gpus)
    return network * (1.0 / gpus)
