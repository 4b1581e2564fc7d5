"""Latency terms: what a hop costs and what protocols make of a bandwidth; fitted once, or to a run of the user's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from busbw.expected.links import LinkKind


@dataclass(frozen=True)
class Protocol:
    """Terms of one way through a node: hops of short messages (LL) and of long ones (Simple), microseconds.

    `share` is the part of the bandwidth that short messages reach; `pipeline` says how much of a long message's time
    goes into filling the pipeline: 0 none, 1 all that a pipeline with the best chunk size loses.
    """

    hop_us: float
    share: float
    long_hop_us: float
    pipeline: float


@dataclass(frozen=True)
class Terms:
    """`base_us` is paid once per call (launch, first flag), `long_us` once more by the protocol for long messages."""

    base_us: float
    long_us: float
    inside: Mapping[LinkKind, Protocol]
    net_hop_us: float
    net_share: float
    net_long_hop_us: float
    remote_peer_us: float
    local_peer_us: float = 0.1
    bandwidth_scale: float = 1.0
    spread: float = 0.25
    """How far the latencies of one machine lie from those of the next: 0.25 is a factor of 1.25 either way."""
    source: str = "fitted to the catalogue"
    notes: tuple[str, ...] = field(default=())


# Fitted by tools/fit_terms to the catalogue's sweeps of one node: 2 and 4 A100 (nc48v4, nc96v4 without graph file),
# 8 A100 (ndv4-1node), 2 V100 (v100-2gpu). Between nodes: a short hop from ndmv4-2x1-nccl and ndmv4-2x8-nccl at 1 KiB, a
# peer of an all-to-all from ndmv4-2x8-nccl, a long hop from NCCL's own model (src/graph/tuning.cc: 14 us).
NVLINK = Protocol(hop_us=1.04, share=0.24, long_hop_us=0.356, pipeline=0.527)
HOST = Protocol(hop_us=1.22, share=0.337, long_hop_us=4.56, pipeline=0.0)
GENERAL = Terms(
    base_us=7.51,
    long_us=8.02,
    inside={LinkKind.NVLINK: NVLINK, LinkKind.PCIE: HOST, LinkKind.HOST: HOST},
    net_hop_us=8.0,
    net_share=0.25,
    net_long_hop_us=12.0,
    remote_peer_us=4.8,
)

# Hopper and later: all-reduce of NCCL 2.28.9 on 4 H200 (eager) and on 2 (CUDA graph, 2 us added), 1 KiB to 4 GiB,
# measured; within 5 % from 8 MiB up, within 24 % below.
HOPPER = replace(
    GENERAL,
    base_us=7.51,
    long_us=10.5,
    inside={**GENERAL.inside, LinkKind.NVLINK: Protocol(hop_us=0.46, share=0.328, long_hop_us=0.224, pipeline=0.153)},
    source="fitted to 4 and 2 H200",
)


def general(sm: int | None) -> Terms:
    """The terms for GPUs of that compute capability."""
    return HOPPER if sm is not None and sm >= 90 else GENERAL
