"""Latency terms: what a hop costs and what protocols make of a bandwidth; fitted once, or to a run of the user's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from busbw.expect.links import LinkKind, NetKind
from busbw.expect.protocols import network


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
    leave_us: float = math.inf
    leave_hop_us: float = 0.0
    """NCCL leaves LL once the transfer, at the bandwidth it counts on, takes longer than this and so much per hop."""

    def leave(self, hops: float) -> float:
        """The transfer time, microseconds, up to which NCCL's own estimate lets it use LL."""
        return self.leave_us + hops * self.leave_hop_us


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
    local_peer_us: float = 0.25
    across: float = 1.4
    """How much dearer a short hop inside a node is where there are more nodes: fitted; NCCL's own model says 1.8."""
    bandwidth_scale: float = 1.0
    spread: float = 0.25
    """How far the latencies of one machine lie from those of the next: 0.25 is a factor of 1.25 either way."""
    source: str = "fitted to the catalogue"
    notes: tuple[str, ...] = field(default=())
    mid_share: float = 0.0
    """What LL128 reaches of a ring's bandwidth in one node of A100; 0 where a user's run was fitted."""
    chosen: bool = False
    """Whether NCCL's own choice of algorithm and protocol is followed (protocols.py): from Hopper on, until a run of
    the user's is fitted."""


# Fitted by tools/fit_terms to the catalogue's sweeps of one node: 2 and 4 A100 (nc48v4 with and without graph file,
# nc96v4 without), 8 A100 (ndv4-1node), 2 V100 (v100-2gpu). Between nodes, set by hand to 1 KiB replayed from a CUDA
# graph: a short hop and `across` to ndmv4-2x1-nccl and ndmv4-2x8-nccl, a peer of an all-to-all to ndmv4-2x8-nccl; a
# long hop lies between NCCL's own 14 us (src/graph/tuning.cc) and the 8 us that all-to-all of ndmv4-2x1-nccl says. A
# peer inside the node: all-to-all of 1 KiB on 4 H200, 6.37 us (measured).
#
# Where NCCL leaves LL over NVLink follows from its own estimate (src/graph/tuning.cc): a ring costs 8.4 us and 3.4 us a
# hop by Simple, 6.6 us and 0.6 us a hop by LL, which it takes to reach a quarter of the bandwidth. Both take the same
# at a transfer of (1.8 + 2.8 hops) / 3 us. Not fitted: NCCL changes there whether or not LL is still the faster.
# Between LL and Simple NCCL takes LL128 on a ring of A100 (protocols.py). Its start is NCCL's own; the slope of
# ndv4-1node from 2 to 16 MiB is 163 GB/s of 233 (.70), and the line through them starts at 39 us, NCCL's at 40.6.
# Other machines take longer for 16 MiB than NDv4: 260 and 277 us where that takes 225. The share lies between both.
LL_SHARE = 1 / 4
NVLINK = Protocol(
    hop_us=0.795, share=0.366, long_hop_us=1.35, pipeline=0.204,
    leave_us=(8.4 - 6.6) / (1 / LL_SHARE - 1), leave_hop_us=(3.4 - 0.6) / (1 / LL_SHARE - 1),
)  # fmt: skip
HOST = Protocol(hop_us=1.16, share=0.343, long_hop_us=3.0, pipeline=0.0)
GENERAL = Terms(
    base_us=7.83,
    long_us=15.5,
    inside={LinkKind.NVLINK: NVLINK, LinkKind.PCIE: HOST, LinkKind.HOST: HOST},
    net_hop_us=8.5,
    net_share=0.25,
    net_long_hop_us=12.0,
    remote_peer_us=1.7,
    mid_share=0.62,
)

# Hopper and later: all-reduce of NCCL 2.28.9 on 4 H200 (eager) and on 2 (CUDA graph, 2 us added), 1 KiB to 4 GiB,
# measured; within 5 % from 8 MiB up, within 24 % below.
HOPPER = replace(
    GENERAL,
    base_us=7.51,
    long_us=10.5,
    inside={**GENERAL.inside, LinkKind.NVLINK: Protocol(hop_us=0.46, share=0.328, long_hop_us=0.224, pipeline=0.153)},
    remote_peer_us=1.0,
    source="fitted to published tables of Hopper and Blackwell and to 4 and 2 H200",
    chosen=True,
)

# Blackwell: all-to-all on 8 B200 (one report of 2026-05): hops are slower than Hopper's, pipelines lose more.
BLACKWELL = replace(
    HOPPER,
    inside={**GENERAL.inside, LinkKind.NVLINK: Protocol(hop_us=1.3, share=0.328, long_hop_us=0.224, pipeline=0.5)},
)

REPLAY_SAVES_US = 2.1
"""What a launch from a CUDA graph saves: 1 KiB on 4 H200 took 11.03 us eager and 8.94 us from a graph (measured)."""


def replayed(terms: Terms) -> Terms:
    """The terms of calls that are replayed from a CUDA graph (nccl-tests -G)."""
    return replace(terms, base_us=terms.base_us - REPLAY_SAVES_US)


def general(sm: int | None) -> Terms:
    """The terms for GPUs of that compute capability."""
    if sm is None or sm < 90:
        return GENERAL
    return BLACKWELL if sm >= 100 else HOPPER


# What a short and a long hop over EFA cost from A100s: 1 KiB, and 16 MiB to 1 GiB, on 2 x p4de.24xlarge, as published.
_FIRST_EFA = (71.0, 196.0, 0.545)
_SLOW = frozenset({NetKind.EFA, NetKind.SLINGSHOT, NetKind.TCPXO, NetKind.TCPX, NetKind.ETHERNET})


def over(terms: Terms, net: NetKind, sm: int | None) -> Terms:
    """The terms with the hops of a network that is slower than InfiniBand and RoCE, from which the general ones are."""
    if net not in _SLOW:
        return terms
    if net is NetKind.EFA and (sm or 0) < 90:
        short, long, pipeline = _FIRST_EFA
        link = replace(terms.inside[LinkKind.NVLINK], pipeline=pipeline)
        terms = replace(terms, inside={**terms.inside, LinkKind.NVLINK: link})
    else:
        known = network(net, sm or 90)
        short, long = known.ll_hop_us, known.long_hop_us
    return replace(terms, net_hop_us=short, net_long_hop_us=long)
