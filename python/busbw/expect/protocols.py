"""What NCCL does on switched NVLink from Hopper on: the choice by its own published estimate, then fitted times.

NCCL takes for each call the algorithm and protocol with the least estimate of latency + bytes / bandwidth. Source of
that estimate and its constants: NCCL src/graph/tuning.cc (2.30). It decides what runs; how long that takes was fitted
to published tables, since the estimate itself is off by up to a factor of two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from busbw.expect.links import NetKind

LL, LL128, SIMPLE = "LL", "LL128", "Simple"

# us: Ring and NVLS start with these, and each hop over NVLink adds those (baseLatencies, hwLatencies).
_BASE_US: Mapping[str, float] = {LL: 6.6, LL128: 14.0, SIMPLE: 8.4}
_RING_HOP_US: Mapping[str, float] = {LL: 0.6, LL128: 1.9, SIMPLE: 3.4}
_LONG_NET_HOP_US = 10.0
"""What a step of Simple over a network takes longer than one of LL128 (hwLatencies: 14.0 and 4.0)."""
_NVLS_US = 25.0
# GB/s: the most that a ring of LL moves in one node (llMaxBws), and the share of multicast (nvlsEfficiency).
_LL_MOST_GBPS: Mapping[int, float] = {80: 87.7, 90: 141.0, 100: 282.0}
_LL_MOST_ACROSS: Mapping[int, float] = {2: 22.5, 4: 19.0}
"""As llMaxBws says of two nodes, and of four and more, whose processors are AMD's, as most with A100 are."""
_NVLS_SHARE: Mapping[int, float] = {90: 0.85, 100: 0.74}
_LL128_SHARE = 0.92
_NVLS_CHANNELS = 16
"""One of so many channels is taken off NVLS's bandwidth: (channels - 1) / channels."""


@dataclass(frozen=True)
class Generation:
    """Fitted terms of a GPU generation inside a node, microseconds and shares; `pipeline` is c of 2 c sqrt(L T)."""

    hop_us: float
    ll_share: float
    mid_hops_us: float
    """What LL128 takes longer to start inside a node."""
    mid_share: float
    long_us: float
    pipeline: float
    nvls_us: float
    nvls_pipeline: float
    between_us: float
    """What long messages between nodes take to start, without their hops."""
    source: str


# Hopper: 8 Hopper GPUs (github.com/kvcache-ai/Mooncake/pull/3484, NCCL's table), 8 H20
# (github.com/deepseek-ai/DeepEP/issues/303), 8 H100 (one guide, 256 MiB up), 4 and 2 H200 (measured).
# Blackwell: 8 B200, one report of 2026-05, all-reduce and all-gather.
GENERATIONS: Mapping[int, Generation] = {
    90: Generation(0.72, 0.48, 9.0, 0.85, 25.0, 0.25, 25.0, 0.35, 31.0, "8 H100, 8 H20, 4 and 2 H200"),
    100: Generation(1.30, 0.43, 9.0, 0.85, 25.0, 0.25, 30.0, 0.70, 50.0, "8 B200"),
}


@dataclass(frozen=True)
class Network:
    """Fitted terms between nodes: a hop of LL, what LL and LL128 move (GB/s of the message), a hop of long messages."""

    ll_hop_us: float
    ll_GBps: float
    mid_hop_us: float
    mid_GBps: float
    long_hop_us: float
    pipeline: float
    ring_us: float
    """What long messages of a ring (all-gather, reduce-scatter) take to start; they fill without further loss."""
    ring_share: float
    """What such rings reach of the line rate."""
    source: str
    older_us: float = 0.0
    """What another version of the network's plugin takes longer: added to the end of the range."""
    ring_pipeline: float = 0.03
    """What such rings lose while they fill: little where the network's plugin brings a tuner for its machines, as
    Google's and AWS's do; more where NCCL chooses for itself."""


# Two nodes each. Short messages over RoCE are those of A100, H200 and B200; long ones of H200 and B200.
NETWORKS: Mapping[NetKind, Network] = {
    NetKind.INFINIBAND: Network(
        5.9, 10.0, 10.9, 32.0, 16.0, 0.41, 90.0, 0.88, "2 and 4 x 8 H100, 2 x 8 B200", ring_pipeline=0.6
    ),
    NetKind.ROCE: Network(12.0, 21.0, 17.0, 57.0, 23.0, 0.54, 80.0, 0.91, "2 x 8 A100, H200, B200"),
    NetKind.EFA: Network(27.0, 3.0, 37.0, 32.0, 38.0, 0.55, 110.0, 0.90, "2 x p5.48xlarge; rings have no figure"),
    NetKind.SLINGSHOT: Network(
        22.0,
        3.0,
        30.0,
        20.0,
        33.0,
        0.55,
        150.0,
        0.72,
        "2 x 4 GH200, 2 and 4 x 4 A100; LL has no figure",
        older_us=60.0,
        ring_pipeline=0.3,
    ),
    NetKind.TCPXO: Network(58.0, 2.5, 68.0, 20.7, 430.0, 0.03, 130.0, 0.945, "2 x a3-megagpu-8g", older_us=260.0),
    NetKind.TCPX: Network(600.0, 1.0, 650.0, 4.0, 440.0, 0.1, 750.0, 0.76, "2 x a3-highgpu-8g, rings from 1 MiB"),
    NetKind.ETHERNET: Network(60.0, 2.0, 75.0, 20.0, 120.0, 0.5, 150.0, 0.70, "no measurement of its own"),
}
FEW_PIPELINE = 0.2
TREE_PIPELINE = 0.5
"""Trees of LL128 over more than two nodes: 64 MiB on 8 x p5.48xlarge."""

# Up to so many bytes AWS's plugin takes trees of LL128 on p5 with so many ranks, 8 a node; between them it is a line.
# Source: aws-ofi-nccl, src/tuner/nccl_ofi_regions.cpp (P5 and P5e, all-reduce).
_AWS_TREES: tuple[tuple[int, int], ...] = (
    (16, 30 << 20), (32, 36 << 20), (64, 112 << 20), (128, 288 << 20), (256, 288 << 20), (512, 320 << 20),
    (1024, 512 << 20), (2048, 384 << 20),
)  # fmt: skip


def aws_tree_bytes(ranks: int) -> int:
    """The largest all-reduce that AWS's plugin sends over trees of LL128 on so many GPUs of p5; beyond its table the
    border stays."""
    for (fewer, small), (more, large) in pairwise(_AWS_TREES):
        if ranks <= more:
            return small + (large - small) * max(0, ranks - fewer) // (more - fewer)
    return _AWS_TREES[-1][1]


RING_MEETS = 8.0
"""How sharply the slower of NVLinks and NICs bounds a ring: 332 GB/s of 363 and 372 on H200, 372 of 693 on B200."""

# EFA of p6 machines: 64 to 256 bytes on 2 x p6-b200, as published. Hopper's ring starts sooner than Blackwell's.
_BY_GENERATION: Mapping[tuple[NetKind, int], Network] = {
    (NetKind.EFA, 100): replace(NETWORKS[NetKind.EFA], ll_hop_us=15.0, mid_hop_us=25.0, source="2 x p6-b200"),
    (NetKind.ROCE, 90): replace(
        NETWORKS[NetKind.ROCE], ll_GBps=13.5, mid_hop_us=19.5, mid_GBps=58.0, ring_us=65.0, source="2 x 8 H200"
    ),
}


def ll_between_us(size: int, nodes: int) -> float:
    """The least that LL takes between nodes of A100, by the most that NCCL counts on: half of llMaxBws on a tree."""
    return size / ((_LL_MOST_ACROSS[2] if nodes == 2 else _LL_MOST_ACROSS[4]) / 2 * 1e3)


@dataclass(frozen=True)
class Chunks:
    """How NVLink SHARP moves a message in pieces: what it takes to start, and how many pieces' times it fills for."""

    start_us: float
    fill: float
    source: str
    share: float = 1.0
    """What the largest messages reach of the bandwidth that the links' tables say."""


_CHUNK_BYTES = 128 << 10
_SMALLEST_CHUNK = 16 << 10
# Up to so many rounds of all channels and GPUs NCCL takes a smaller piece (src/enqueue.cc, NVLS and NVLSTree).
_ROUNDS = ((64, 64 << 10), (8, 32 << 10), (2, _SMALLEST_CHUNK))
_ROUNDS_ACROSS = ((4, 64 << 10), (1, 32 << 10))

# Hopper: one node of 8 H100 or H200 (four tables), two of them (nccl-tests#309 and three more), and 2 x p5.48xlarge.
# RoCE has two hops that are as much slower than InfiniBand's as elsewhere. Blackwell takes other channels and pieces by
# its NICs (src/transport/nvls.cc), and its published tables do not tell them apart.
IN_ONE_NODE = Chunks(17.0, 2.94, "8 H100 and H200", share=0.99)
ACROSS_TWO: Mapping[NetKind, Chunks] = {
    NetKind.INFINIBAND: Chunks(31.0, 2.91, "2 x 8 H100", share=0.98),
    NetKind.ROCE: Chunks(45.0, 2.91, "as InfiniBand, with RoCE's hops"),
    NetKind.EFA: Chunks(84.3, 4.24, "2 x p5.48xlarge"),
}


def round_bytes(size: int, gpus: int, nodes: int) -> int:
    """What all channels of NVLink SHARP move in one round, a piece for each GPU of a node."""
    pieces = _NVLS_CHANNELS * gpus
    chunk = _CHUNK_BYTES
    for rounds, smaller in _ROUNDS if nodes == 1 else _ROUNDS_ACROSS:
        if size < rounds * pieces * chunk and smaller < chunk:
            chunk = smaller
    return pieces * chunk


def in_chunks_us(chunks: Chunks, size: int, transfer_us: float, round_size: int) -> float:
    """The start, the transfer, and the rounds in which the stages of the pipeline fill."""
    return chunks.start_us + transfer_us / chunks.share * (1 + chunks.fill * min(1.0, round_size / size))


def network(net: NetKind, sm: int) -> Network:
    """The terms of that network between GPUs of that compute capability."""
    return _BY_GENERATION.get((net, _known(sm)), NETWORKS[net])


NVLS_HOST_US = 1.5
"""What each further host of a domain adds to the start of NVLink SHARP: 512 MiB to 8 GiB on one rack of GB200."""

DOMAIN_HOP_US = 7.0
"""A short hop between hosts of one NVLink domain: 32 GB200 on 8 hosts took 58 us for 8 bytes (one published figure)."""


def generation(sm: int, hosts: int = 1) -> Generation:
    """The terms of that compute capability, from 9.0 on, in a domain of so many hosts."""
    known = GENERATIONS[_known(sm)]
    return replace(known, nvls_us=known.nvls_us + NVLS_HOST_US * (hosts - 1))


def _known(sm: int) -> int:
    return 100 if sm >= 100 else 90


@dataclass(frozen=True)
class Inside:
    """A call in one node: bytes, GPUs, their compute capability, GB/s that NCCL counts on from a GPU's NVLinks."""

    collective: str
    bytes: int
    gpus: int
    sm: int
    nvlink_GBps: float


def chosen(call: Inside, *, nvls: bool) -> tuple[str, str]:
    """What NCCL takes in one node by its own estimate: "ring" or "NVLS", and LL, LL128 or Simple."""
    size, gpus, links = call.bytes, call.gpus, call.nvlink_GBps
    reduces = call.collective == "all_reduce"
    steps = (2 if reduces else 1) * (gpus - 1)
    known = _known(call.sm) if call.sm >= 90 else 80
    rates = {
        LL: min(_LL_MOST_GBPS[known], links / 2), LL128: links * _LL128_SHARE, SIMPLE: links,
    }  # fmt: skip
    best = {
        ("ring", name): _BASE_US[name] + steps * _RING_HOP_US[name] + size / (rate * gpus / steps * 1e3)
        for name, rate in rates.items()
    }
    if nvls:
        rate = links * _NVLS_SHARE[known] * (_NVLS_CHANNELS - 1) / _NVLS_CHANNELS
        rate *= 2 * gpus / steps if reduces else (gpus - 1) / gpus
        best["NVLS", SIMPLE] = _NVLS_US + size / (rate * 1e3)
    return min(best, key=lambda each: best[each])


def mid_on_ampere_us(call: Inside) -> float | None:
    """The start of LL128 on a ring of A100 in one node, where NCCL takes that; None where it does not."""
    if call.gpus < 3 or chosen(call, nvls=False) != ("ring", LL128):
        return None
    steps = (2 if call.collective == "all_reduce" else 1) * (call.gpus - 1)
    return _BASE_US[LL128] + steps * _RING_HOP_US[LL128]


def inside_us(way: tuple[str, str], base_us: float, steps: int, transfer_us: float, terms: Generation) -> float:
    """How long that takes in one node; `transfer_us` at the bandwidth that large messages reach."""
    algorithm, protocol = way
    short = base_us + steps * terms.hop_us
    if algorithm == "NVLS":
        return _pipelined(terms.nvls_us, terms.nvls_pipeline, transfer_us)
    if protocol == LL:
        return short + transfer_us / terms.ll_share
    if protocol == LL128:
        return short + terms.mid_hops_us + transfer_us / terms.mid_share
    return _pipelined(max(short, terms.long_us), terms.pipeline, transfer_us)


@dataclass(frozen=True)
class Between:
    """What a message between nodes meets: hops inside (LL), levels or steps between, bytes, transfer at full rate."""

    steps: int
    hops: float
    size: int
    transfer_us: float
    ring: bool = False
    started_us: float = 0.0
    """What long messages take longer to start, in a node of several hosts."""
    nics: float = 1.0
    """The part of a node's NICs that its GPUs use: short messages are as fast as those."""
    tree_us: float | None = None
    """The transfer over trees of LL128, where the network's plugin takes those and no others."""
    sharp: bool = True
    """Whether NVLink SHARP feeds the trees between nodes: two GPUs a node and less fill without it, and sooner."""
    chunks: Chunks | None = None
    round_size: int = 0
    """In which pieces NVLink SHARP moves it, where that is known."""


def between_us(question: Between, base_us: float, inside: Generation, network: Network) -> tuple[float, str]:
    """The time over several nodes and the protocol: NCCL's choice lies near the least, which is what is taken."""
    ways = _ways(question, base_us, inside, network)
    name = min(ways, key=lambda each: ways[each])
    if name == SIMPLE and question.chunks is not None:
        # Which protocol runs is decided as before: pieces tell how long it takes, and not what NCCL counts on.
        pieces = in_chunks_us(question.chunks, question.size, question.transfer_us, question.round_size)
        return max(pieces, _before_simple_us(question, base_us, inside, network)), name
    return ways[name], name


def _before_simple_us(question: Between, base_us: float, inside: Generation, network: Network) -> float:
    """What the largest smaller message takes that does not go by Simple: a larger one is not predicted sooner."""
    low, high, least = 0.0, 1.0, 0.0
    for _ in range(20):
        part = (low + high) / 2
        smaller = replace(question, size=int(question.size * part), transfer_us=question.transfer_us * part)
        ways = _ways(smaller, base_us, inside, network)
        name = min(ways, key=lambda each: ways[each])
        low, high = (low, part) if name == SIMPLE else (part, high)
        least = least if name == SIMPLE else ways[name]
    return least


def _ways(question: Between, base_us: float, inside: Generation, network: Network) -> dict[str, float]:
    """What each protocol takes."""
    start = base_us + question.steps * inside.hop_us
    moved = question.size / 1e3
    first = inside.between_us + question.started_us + question.hops * network.long_hop_us
    if question.ring:
        # Two nodes are what was fitted; each further one adds a step per GPU, by NCCL's own times of them.
        inner = question.steps / (question.hops + 1) * _RING_HOP_US[SIMPLE]
        first = network.ring_us + (question.hops - 1) * (inner + network.mid_hop_us + _LONG_NET_HOP_US)
    pipeline = network.ring_pipeline if question.ring else network.pipeline if question.sharp else FEW_PIPELINE
    ways = {
        LL: start + question.hops * network.ll_hop_us + moved / (network.ll_GBps * question.nics),
        LL128: start + inside.mid_hops_us * (inside.hop_us > 1) + question.hops * network.mid_hop_us
        + moved / network.mid_GBps + question.transfer_us,
        SIMPLE: _pipelined(first, pipeline, question.transfer_us),
    }  # fmt: skip
    if question.tree_us is not None:
        del ways[SIMPLE]
        ways[LL128] = min(ways[LL128], _pipelined(
            start + question.hops * network.mid_hop_us, TREE_PIPELINE, question.tree_us
        ))  # fmt: skip
    return ways


def _pipelined(start_us: float, pipeline: float, transfer_us: float) -> float:
    """Latency, transfer, and what a pipeline loses while it fills (model.py)."""
    return start_us + 2 * pipeline * math.sqrt(start_us * transfer_us) + transfer_us
