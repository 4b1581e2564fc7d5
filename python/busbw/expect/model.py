"""The model: t = A + 2 c sqrt(A T) + T for long messages, A + T / share for short ones, least of all algorithms.

Which of both follows from what is known of NCCL: see _protocols and channels_us.

A is the latency of the steps, T the transfer S f / B of a message of S bytes with the collective's bus factor f at bus
bandwidth B. The square root is what a pipeline pays that cuts the message into the best number of pieces:
(sqrt(A) + sqrt(T))^2, with c = 1 (van de Geijn's argument); fitted c lie between 0.1 and 0.7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from busbw.base.errors import UserError
from busbw.expect.bandwidth import (
    DIRECT_COLLECTIVES,
    Algorithm,
    algorithms,
    bus_bandwidth,
    channel_bound,
    channel_GBps,
    few_channels,
)
from busbw.expect.fabric import Fabric
from busbw.expect.links import FEW_GPUS, LinkKind, NetKind
from busbw.expect.protocols import (
    ACROSS_TWO,
    DOMAIN_HOP_US,
    IN_ONE_NODE,
    RING_MEETS,
    Between,
    Generation,
    Inside,
    Network,
    aws_tree_bytes,
    between_us,
    chosen,
    generation,
    in_chunks_us,
    inside_us,
    ll_between_us,
    mid_on_ampere_us,
    network,
    round_bytes,
)
from busbw.expect.question import Prediction, Question, busbw_of, transfer_us
from busbw.expect.span import Span
from busbw.expect.terms import Protocol, Terms, over

SHORT, LONG = "short", "long"
"""LL and Simple, in NCCL's words."""

CHANNEL_BYTES = 8 * 512
"""What LL gives one channel before it opens another. Source: NCCL src/include/comm.h and src/graph/tuning.cc."""

LAUNCH_US, LAUNCH_DIRECT_US = {80: 3.8, 90: 5.0}, {80: 11.0, 90: 7.3}
"""What a launch on one GPU of several costs a process, by compute capability: 36 us on 8 A100, 40 to 44 on 8 Hopper
GPUs; 88 and 58 us for all-to-all (github.com/microsoft/superbenchmark; github.com/NVIDIA/nccl-tests/issues/313)."""

LAUNCH_MEETS = {80: 1.4, 90: 2.0}
"""How much of the launches the call hides: 1 is none of them, infinity all that fit into it. A100 are driven by older
software, which hides less: all-reduces of three machines, an all-to-all of one."""

MOST_RANKS = 1_000_000
MISFIT = 0.15
"""How far the model lies from measured sweeps where latency rules or NCCL changes its protocol, transfer left out."""

NOISE = 0.03
"""What two runs of the same thing differ by."""

# Beyond two nodes nothing in the catalogue was fitted: each doubling of the nodes widens the range by so much.
BANDWIDTH_PER_DOUBLING = 0.03
LATENCY_PER_DOUBLING = 0.05


@dataclass(frozen=True)
class Steps:
    """Hops one after the other, inside nodes and between them, and what each peer of an exchange adds."""

    inside: float
    between: float
    peers_us: float = 0.0


@dataclass(frozen=True)
class Way:
    """How a message goes: terms, hops, the protocols NCCL may use, the least transfer of a short message (us)."""

    protocol: Protocol
    steps: Steps
    allowed: tuple[str, ...]
    channels_us: float
    least_us: float = 0.0
    """What a short message takes at least to move, besides its start."""


def predict(question: Question, fabric: Fabric, terms: Terms) -> Prediction:
    """The fastest algorithm's time; UserError where the question has no answer."""
    _check(question, fabric)
    question, fabric = _within_domain(question, fabric)
    if terms.chosen and (found := by_choice(question, fabric, terms)) is not None:
        return _launched(found, fabric.sm)
    if question.nodes > 1:
        terms = over(terms, fabric.net, fabric.sm)
    choices = algorithms(
        fabric, question.collective, question.gpus, question.nodes, multicast=question.multicast
    )  # fmt: skip
    every = (_by(question, fabric, terms, each) for each in choices)
    return _launched(min(every, key=lambda found: found.time_us.value), fabric.sm)


def _launched(found: Prediction, sm: int | None) -> Prediction:
    """A process launches on its GPUs one after the other; what the first ones wait overlaps only in part with the call.

    What this takes lies between the longer of both and their sum: fitted to three machines of 8 A100, and 2 x 8 H200.
    """
    question, time = found.question, found.time_us
    if question.driven < 2:
        return found
    known = LAUNCH_DIRECT_US if question.collective in DIRECT_COLLECTIVES else LAUNCH_US
    generation = 90 if (sm or 0) >= 90 else 80
    floor, meets = question.driven * known[generation], LAUNCH_MEETS[generation]
    span = time * (math.pow(floor**meets + time.value**meets, 1 / meets) / time.value)
    return replace(found, time_us=span, busbw_GBps=busbw_of(question, span))


def _check(question: Question, fabric: Fabric) -> None:
    if question.collective == "barrier":
        raise UserError("a barrier moves no bytes: there is no bandwidth to predict")
    if question.ranks < 2:
        raise UserError("one GPU has nobody to talk to; ask for at least two")
    if not 1 <= question.gpus <= fabric.gpus:
        raise UserError(
            f"{fabric.name} has {fabric.gpus} GPUs a node, not {question.gpus}; --nodes asks for more nodes"
        )
    if question.ranks > MOST_RANKS:
        raise UserError(f"{question.ranks} GPUs are more than {MOST_RANKS}, for which no model holds")
    if question.bytes < 1:
        raise UserError("a message has at least one byte")


def _within_domain(question: Question, fabric: Fabric) -> tuple[Question, Fabric]:
    """Hosts of one NVLink domain are one node to a collective; more of them are nodes of a whole domain each."""
    if not fabric.domain or question.nodes == 1:
        return question, fabric
    ranks = question.ranks
    if ranks <= fabric.domain:
        return replace(question, gpus=ranks, nodes=1), replace(
            fabric, gpus=ranks, island=ranks, domain=0, hosts=question.nodes
        )
    hosts = -(-question.nodes * question.gpus // fabric.domain)
    per_domain = -(-ranks // hosts)
    nics = fabric.nics * -(-per_domain // question.gpus)
    return replace(question, gpus=per_domain, nodes=hosts), replace(
        fabric, gpus=per_domain, island=per_domain, nics=nics, domain=0, hosts=-(-question.nodes // hosts)
    )


def steps_of(question: Question, terms: Terms, algorithm: Algorithm) -> Steps:
    """How many hops a byte makes one after the other."""
    gpus, nodes, ranks = question.gpus, question.nodes, question.ranks
    levels = math.ceil(math.log2(nodes)) if nodes > 1 else 0
    if algorithm is Algorithm.TREE:
        return Steps(2 * (gpus - 1), 2 * levels)
    if algorithm is Algorithm.NVLS:
        return Steps(2, 2 * levels)
    if algorithm is Algorithm.DIRECT:
        return _direct(question, terms, levels)
    ways = 2 if question.collective == "all_reduce" else 1
    return Steps(ways * (ranks - nodes), ways * (nodes - 1))


def _direct(question: Question, terms: Terms, levels: int) -> Steps:
    remote = question.ranks - question.gpus
    inside, between = float(question.gpus > 1), float(question.nodes > 1)
    if question.collective == "hypercube":
        return Steps(math.ceil(math.log2(question.gpus)) if question.gpus > 1 else 0, levels)
    if question.collective == "sendrecv":
        return Steps(inside * (1 - between), between)
    peers = terms.local_peer_us * max(0, question.gpus - 2) + terms.remote_peer_us * max(0, remote - 1)
    return Steps(inside * (1 - between), between, peers)


def _by(question: Question, fabric: Fabric, terms: Terms, algorithm: Algorithm) -> Prediction:
    bandwidth = bus_bandwidth(fabric, question.collective, algorithm, question.gpus, question.nodes)
    if question.nodes == 1 or bandwidth.value < _network_bound(question, fabric):
        bandwidth = bandwidth * terms.bandwidth_scale
    protocol = terms.inside[fabric.link(question.gpus)]
    if channel_bound(fabric, question.gpus):
        protocol = replace(protocol, pipeline=0.0)
    steps = steps_of(question, terms, algorithm)
    far = max(0.0, math.log2(question.nodes / 2)) if question.nodes > 1 else 0.0
    allowed = _protocols(question, fabric, protocol, steps, algorithm)
    across = question.nodes > 1 and algorithm is Algorithm.TREE and (fabric.sm or 0) < 90
    least_us = ll_between_us(question.bytes, question.nodes) if across else 0.0
    way = Way(protocol, steps, allowed, channels_us(question, fabric, algorithm), least_us)
    middle, name = _time_us(question, terms, way, bandwidth.value)
    if algorithm is Algorithm.RING and (mid := _mid(question, fabric, terms, algorithm, bandwidth)) is not None:
        return mid
    slow = _time_us(question, terms, way, bandwidth.low * max(0.3, 1 - BANDWIDTH_PER_DOUBLING * far))[0]
    fast = _time_us(question, terms, way, bandwidth.high)[0]
    late = _latency_us(terms, protocol, steps) * (terms.spread + LATENCY_PER_DOUBLING * far)
    off = NOISE + MISFIT * (1 - transfer_us(question, bandwidth.value) / middle)
    span = Span(middle, max(0.25 * middle, (fast - min(late, fast / 2)) * (1 - off)), (slow + late) * (1 + off))
    return Prediction(question, span, busbw_of(question, span), algorithm, name)


def _mid(question: Question, fabric: Fabric, terms: Terms, algorithm: Algorithm, bandwidth: Span) -> Prediction | None:
    """By LL128, which A100 take between LL and Simple in one node; None elsewhere."""
    ampere = 80 <= (fabric.sm or 0) < 90 and fabric.link(question.gpus) is LinkKind.NVLINK and not fabric.channels
    if not ampere or not terms.mid_share or question.nodes > 1 or question.collective not in _CHOSEN:
        return None
    call = Inside(question.collective, question.bytes, question.ranks, 80, fabric.counted_GBps())
    transfer = transfer_us(question, bandwidth.value) / terms.mid_share
    start = mid_on_ampere_us(call)
    if start is None:
        return None
    off = NOISE + MISFIT * start / (start + transfer)
    low = (start * (1 - terms.spread) + transfer * bandwidth.value / bandwidth.high) * (1 - off)
    high = (start * (1 + terms.spread) + transfer * bandwidth.value / bandwidth.low) * (1 + off)
    span = Span(start + transfer, low, high)
    return Prediction(question, span, busbw_of(question, span), algorithm, LONG)


CHOSEN_SPREAD = 0.183
"""How far a time lies from its value either way, where NCCL's choice is followed: ranges of a factor of 1.4."""

MEASURED_NODES = 32
"""Published tables reach as far; each doubling beyond widens the range by LATENCY_PER_DOUBLING."""

FEW_SPREAD = 0.27
"""As above with one or two GPUs a node: their share of a NIC was measured from 0.62 to 0.93."""

_CHOSEN = frozenset({"all_reduce", "all_gather", "reduce_scatter"})


def by_choice(question: Question, fabric: Fabric, terms: Terms) -> Prediction | None:
    """By NCCL's choice, where that is known: a switch, Hopper or later, and these collectives; else None."""
    sharp = question.multicast and fabric.multicast and question.ranks > 2
    if question.collective not in _CHOSEN or not fabric.multicast or fabric.channels:
        return None
    few = question.gpus < FEW_GPUS
    if question.collective == "all_reduce" and (not sharp or few) and not (few and question.nodes > 1):
        return None
    inside = generation(fabric.sm or 90, fabric.hosts)
    if question.nodes == 1:
        time, way = _one_node(question, fabric, terms, inside)
    else:
        time, way = _several_nodes(question, fabric, terms, inside)
    far = max(0.0, math.log2(question.nodes / MEASURED_NODES))
    spread = FEW_SPREAD if question.nodes > 1 and question.gpus < FEW_GPUS else CHOSEN_SPREAD
    wide = 1 + spread + LATENCY_PER_DOUBLING * far
    older = network(fabric.net, fabric.sm or 90).older_us if question.nodes > 1 else 0.0
    span = Span(time, time / wide, time * wide + older)
    algorithm = Algorithm.NVLS if way[0] == "NVLS" else Algorithm.TREE if way[0] == "tree" else Algorithm.RING
    return Prediction(question, span, busbw_of(question, span), algorithm, SHORT if way[1] == "LL" else LONG)


def _one_node(question: Question, fabric: Fabric, terms: Terms, inside: Generation) -> tuple[float, tuple[str, str]]:
    """In one node, or over hosts of one NVLink domain, where short messages go over trees of hosts."""
    name = question.collective
    reduces = name == "all_reduce"
    ranks = question.ranks // fabric.hosts if fabric.hosts > 1 and reduces else question.ranks
    steps = (2 if reduces else 1) * (max(ranks, 2) - 1)
    base = terms.base_us + 2 * math.log2(fabric.hosts) * DOMAIN_HOP_US * reduces
    call = Inside(name, question.bytes, question.ranks, fabric.sm or 90, fabric.nvlink_GBps)
    way = chosen(call, nvls=reduces)
    if fabric.hosts > 1 and reduces:
        ring = inside_us(("ring", "LL"), base, steps, _at(question, fabric, Algorithm.RING), inside)
        sharp = inside_us(("NVLS", "Simple"), base, steps, _at(question, fabric, Algorithm.NVLS), inside)
        way = ("tree", "LL") if ring <= sharp else ("NVLS", "Simple")
    algorithm = Algorithm.NVLS if way[0] == "NVLS" else Algorithm.RING
    transfer = _at(question, fabric, algorithm)
    if way[0] == "NVLS" and _chunked(fabric):
        size = question.bytes
        return in_chunks_us(IN_ONE_NODE, size, transfer, round_bytes(size, question.gpus, 1)), way
    return inside_us(way, base, steps, transfer, inside), way


def _chunked(fabric: Fabric) -> bool:
    """Whether it is known in which pieces NVLink SHARP moves a message: on Hopper, in a host of its own."""
    return (fabric.sm or 90) < 100 and fabric.hosts < 2


def _at(question: Question, fabric: Fabric, algorithm: Algorithm) -> float:
    """The transfer at the bandwidth that large messages reach by this algorithm, us."""
    found = bus_bandwidth(fabric, question.collective, algorithm, question.gpus, question.nodes)
    return transfer_us(question, found.value)


def _several_nodes(
    question: Question, fabric: Fabric, terms: Terms, inside: Generation
) -> tuple[float, tuple[str, str]]:
    net = network(fabric.net, fabric.sm or 90)
    reduces = question.collective == "all_reduce"
    started, sharp = 0.0, question.gpus >= FEW_GPUS
    if reduces:
        # Trees run as a chain through the GPUs of a node; a domain of several hosts is such a node.
        steps, hops = 2 * (question.gpus - 1), 2 * math.log2(question.nodes)
        transfer = _at(question, fabric, Algorithm.NVLS if sharp else Algorithm.TREE)
        started = steps * inside.hop_us if fabric.hosts > 1 else 0.0
    else:
        steps, hops = question.ranks - question.nodes, float(question.nodes - 1)
        transfer = _ring_us(question, fabric, net)
    few = min(1.0, question.gpus / fabric.gpus)
    tree = _at(question, fabric, Algorithm.TREE) if reduces and _aws_tree(question, fabric) else None
    chunks = ACROSS_TWO.get(fabric.net) if reduces and sharp and question.nodes == 2 and _chunked(fabric) else None
    way = Between(
        steps, hops, question.bytes, transfer, ring=not reduces, started_us=started, nics=few, tree_us=tree,
        sharp=sharp, chunks=chunks, round_size=round_bytes(question.bytes, question.gpus, question.nodes),
    )  # fmt: skip
    time, protocol = between_us(way, terms.base_us, inside, net)
    return time, ("NVLS" if sharp and protocol == "Simple" else "tree", protocol) if reduces else ("ring", protocol)


def _aws_tree(question: Question, fabric: Fabric) -> bool:
    """Whether AWS's plugin takes a tree of LL128: on p5 with all GPUs of a node, up to a size that grows with ranks."""
    known = fabric.net is NetKind.EFA and (fabric.sm or 0) == 90 and question.gpus == fabric.gpus == 8
    return known and question.nodes > 2 and question.bytes <= aws_tree_bytes(question.ranks)


def _ring_us(question: Question, fabric: Fabric, net: Network) -> float:
    """The transfer of a ring through NVLinks and NICs: where both are about as fast, each waits for the other."""
    network = Span.exactly(fabric.line_GBps(question.gpus) * net.ring_share)
    line = transfer_us(question, few_channels(fabric, question.gpus, network).value)
    if question.gpus == 1:
        return line
    nvlink = transfer_us(question, bus_bandwidth(fabric, question.collective, Algorithm.RING, question.gpus, 1).value)
    return math.pow(line**RING_MEETS + nvlink**RING_MEETS, 1 / RING_MEETS)


def _network_bound(question: Question, fabric: Fabric) -> float:
    """What the network alone would give: a node's own bandwidth was calibrated, the network's was not."""
    try:
        return fabric.network(question.gpus).value
    except UserError:
        return math.inf


def _protocols(
    question: Question, fabric: Fabric, protocol: Protocol, steps: Steps, algorithm: Algorithm
) -> tuple[str, ...]:
    """What NCCL would use.

    Send and receive between nodes share their buffers, which exist for Simple alone (NCCL src/transport/net.cc).
    """
    if question.nodes > 1:
        return (LONG,) if algorithm is Algorithm.DIRECT else (SHORT, LONG)
    if algorithm is not Algorithm.RING or fabric.link(question.gpus) is not LinkKind.NVLINK:
        return (SHORT, LONG)
    counted_us = transfer_us(question, fabric.counted_GBps())
    # A chain of one way is full after its first hop, by NCCL's own estimate (broadcast and reduce in tuning.cc).
    hops = 1 if question.collective in {"broadcast", "reduce"} else steps.inside
    return (LONG,) if counted_us > protocol.leave(hops) else (SHORT, LONG)


def channels_us(question: Question, fabric: Fabric, algorithm: Algorithm) -> float:
    """The least transfer of a short message over NVLink, which has few channels.

    NCCL opens another channel for LL with every 8 bytes for each of 512 threads, on a ring for each rank besides
    (threadThresholds in src/graph/tuning.cc): up to so many bytes one channel carries all, and from there on each
    channel carries as much.
    """
    if algorithm not in {Algorithm.RING, Algorithm.TREE} or fabric.link(question.gpus) is not LinkKind.NVLINK:
        return 0.0
    each = CHANNEL_BYTES * (question.ranks if algorithm is Algorithm.RING else 1)
    return transfer_us(replace(question, bytes=min(question.bytes, each)), channel_GBps(fabric))


def _time_us(question: Question, terms: Terms, way: Way, bandwidth: float) -> tuple[float, str]:
    protocol, steps = way.protocol, way.steps
    transfer = transfer_us(question, bandwidth)
    moved = max(transfer, way.channels_us)
    share = protocol.share if question.nodes == 1 else min(protocol.share, terms.net_share)
    short = _latency_us(terms, protocol, steps) + max(moved / share, way.least_us)
    start = (
        terms.base_us + terms.long_us + steps.inside * protocol.long_hop_us + steps.between * terms.net_long_hop_us
        + steps.peers_us
    )  # fmt: skip
    long = start + 2 * protocol.pipeline * math.sqrt(start * transfer) + transfer
    return (short, SHORT) if SHORT in way.allowed and short <= long else (long, LONG)


def _latency_us(terms: Terms, protocol: Protocol, steps: Steps) -> float:
    across = terms.across if steps.between else 1.0
    return terms.base_us + across * steps.inside * protocol.hop_us + steps.between * terms.net_hop_us + steps.peers_us
