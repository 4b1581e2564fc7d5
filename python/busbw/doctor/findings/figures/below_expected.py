"""A record whose bus bandwidth lies below what its machine's links should deliver."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from busbw.analysis.units import format_bytes
from busbw.doctor.comparisons import light_in_comparison
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.signature import Stage
from busbw.expect.expectation import TELLING_BYTES, place_of
from busbw.expect.fabric import Fabric
from busbw.expect.question import Prediction
from busbw.expect.span import Span
from busbw.machine.topology.names import product
from busbw.records import Case, Record

NAME = "below-expected"
FALLING_BYTES = 4 << 20
FALL = 2.0
"""A sweep that loses more than half of its bandwidth at a larger size is ill; changes of algorithm cost less."""


FLOOR_GBPS = 2.0
"""Below what four lanes of PCIe 3.0 carry (3.9 GB/s, PCI-SIG) less half for a way through the host's memory: no slot
that is made for a GPU gives so little."""
HALF_OF_THE_LANES = 0.5
LATE = 2.0
"""Short messages are late where they take this many times the longest that is expected: published tables of healthy
machines of one type lie that far apart at most, but for one of an old network plugin (2.7)."""
VERY_LATE = 4.0
CALL_US = 10.0
"""For each GPU beside others of its process: a published all-to-all of eight by one thread takes 85 to 89 us."""
SHORT_BYTES = 4096
ANYWHERE_US, ANYWHERE_PER_HOST_US = 1000.0, 150.0
"""Sockets over Ethernet need 50 us a hop, and a tree over hosts has fewer hops than hosts."""
OF_THE_LINE = 0.85
"""Of the line rate, a choice: NICs that carry more are full, and only another algorithm would need less of them."""
LATE_SIZES = 3
"""At so many sizes: a first call, or one size at which NCCL changes its protocol, is none."""


def examine(facts: Facts) -> Iterator[Finding]:
    for record, expected in zip(facts.records, facts.expected, strict=True):
        found = expected.found
        rings = _ring_GBps(record, expected.fabric)
        of_record = [
            *_below(record, found, 1.0 if facts.snapshot.machine else _slot(record), rings),
            *_late(record, found),
            *_falls(record),
        ]
        yield from light_in_comparison(of_record, facts, record)
        if not found:
            yield from _floor(record)
            yield from _late_anywhere(record)


def _late(record: Record, found: Mapping[int, Prediction]) -> Iterator[Finding]:
    """Sizes below 64 MiB that take far longer than they should, at several sizes."""
    groups: dict[str, list[tuple[Case, Prediction]]] = defaultdict(list)
    for index, prediction in found.items():
        case = record.cases[index]
        if case.time_us and case.bytes < TELLING_BYTES:
            groups[case.collective].append((case, prediction))
    for collective, mine in groups.items():
        late = [(c, p) for c, p in mine if (c.time_us or 0.0) > LATE * p.time_us.high + _by_turns_us(record)]
        if len({case.bytes for case, _ in late}) < LATE_SIZES:
            continue
        case, prediction = max(late, key=lambda each: (each[0].time_us or 0.0) / each[1].time_us.value)
        factor = (case.time_us or 0.0) / prediction.time_us.value
        where = f"the record {record.run.run}"
        yield Finding(
            NAME, Severity.WARNING if factor >= VERY_LATE else Severity.NOTE,
            f"short messages of {collective} take up to {factor:.1f} times as long as they should",
            tuple(
                Evidence(
                    f"{each.time_us:.4g} us at {format_bytes(each.bytes)}, expected {span.time_us.value:.3g} "
                    f"({span.time_us.low:.3g} to {span.time_us.high:.3g})", where,
                )
                for each, span in late[:6]
            ),
            Cost(f"{factor:.1f} times the latency of small calls", factor, "from NCCL's protocols and hops"),
            "look for forced NCCL_PROTO or NCCL_ALGO, sockets instead of RDMA, a network plugin of another version, "
            "processors bound far from the GPU or shared by ranks, and NCCL_DEBUG=TRACE",
            Proof(instruction="run 8 bytes to 1 MiB with -G 10, and with NCCL_ALGO and NCCL_PROTO unset"),
            stage=Stage.EFFECT,
        )  # fmt: skip


def _late_anywhere(record: Record) -> Iterator[Finding]:
    """All-reduces of a few bytes that take longer than over any network, whatever the machine."""
    hosts = len({rank.host for rank in record.run.ranks})
    short = [each.time_us for each in record.cases if each.collective == "all_reduce" and each.outcome == "measured"
             and each.time_us and each.bytes <= SHORT_BYTES]  # fmt: skip
    limit = ANYWHERE_US + ANYWHERE_PER_HOST_US * hosts
    if hosts < 2 or not short or min(short) <= limit:
        return
    yield Finding(
        NAME, Severity.WARNING,
        f"all_reduce of a few bytes over {hosts} hosts takes {min(short) / 1000:.3g} ms, which no network needs",
        (Evidence(f"{min(short):.4g} us, {limit:.0f} us at most over sockets", f"the record {record.run.run}"),),
        Cost(f"at least {min(short) / limit:.1f} times the latency", min(short) / limit, "from latencies of sockets"),
        "look for ranks that share a processor (mpirun --bind-to none, srun --cpus-per-task), a "
        "wrong or slow interface "
        "(NCCL_SOCKET_IFNAME), sockets instead of RDMA, lost packets and a power-saving processor",
        Proof(instruction="run -b 8 -e 8 -n 1000 on two hosts at a time, with NCCL_DEBUG=INFO"),
        stage=Stage.EFFECT,
    )  # fmt: skip


def _by_turns_us(record: Record) -> float:
    """What a process takes besides that gives several GPUs their work: nccl-tests' -g does so by one thread."""
    processes = Counter((rank.host, rank.pid) for rank in record.run.ranks if rank.pid is not None)
    most = max(processes.values(), default=1)
    return CALL_US * most if most > 1 else 0.0


def _slot(record: Record) -> float:
    """The share that is sure of what is expected: by its name alone a card may lie in a slot of half of its lanes."""
    names = {rank.device.name for rank in record.run.ranks if rank.device}
    known = product(names.pop()) if len(names) == 1 else None
    return HALF_OF_THE_LANES if known and not known.nvlinks else 1.0


def _ring_GBps(record: Record, fabric: Fabric | None) -> float:
    """What rings over two hosts reach where nothing is amiss: the line rate of a host's NICs, less what is usual."""
    hosts = Counter(rank.host for rank in record.run.ranks)
    if fabric is None or len(hosts) != 2 or fabric.domain or not fabric.nics or not fabric.nic_Gbps:
        return 0.0  # between hosts of one NVLink domain no NIC is needed
    return OF_THE_LINE * fabric.line_GBps(max(hosts.values()))


def _below(record: Record, found: Mapping[int, Prediction], sure: float, rings: float) -> Iterator[Finding]:
    """Large sizes below the range of the machine, each with its figures."""
    telling = [
        (record.cases[i], prediction.busbw_GBps)
        for i, prediction in found.items()
        if record.cases[i].busbw_GBps and record.cases[i].bytes >= TELLING_BYTES
    ]
    for collective in dict.fromkeys(case.collective for case, _ in telling):
        mine = [each for each in telling if each[0].collective == collective]
        case, rate = max(mine, key=lambda each: (each[0].bytes, each[0].placement == "out_of_place"))
        if (case.busbw_GBps or 0.0) < rate.low:
            # Both placements of a size say the same: one of them is shown.
            others = {each[0].bytes: each for each in mine if each[0].bytes != case.bytes}.values()
            low = [each for each in others if (each[0].busbw_GBps or 0.0) < sure * each[1].low]
            ill = _finding(record, collective, [(case, rate), *low])
            if collective == "all_reduce" and 0.0 < rings <= (case.busbw_GBps or 0.0):
                yield replace(ill, **_BY_RINGS)
            else:
                yield ill if (case.busbw_GBps or 0.0) < sure * rate.low else replace(ill, **_IN_HALF)


_BY_RINGS: dict[str, Any] = {
    "severity": Severity.NOTE,
    "fix": (
        "the NICs are full, as rings use them. Trees send a message over two hosts half as often: a newer NCCL and "
        "network plugin choose them there. NCCL_ALGO=Tree, or allreduce:tree, shows what they give"
    ),
}
"""What is said of two hosts whose NICs carry all they can: rings are no fault, though trees would give more."""


_IN_HALF: dict[str, Any] = {
    "severity": Severity.NOTE,
    "undecided": True,
    "fix": (
        "cards in slots of 16 lanes give more, in slots of 8 lanes they give this. Look at the width under load "
        "(nvidia-smi -q: GPU Link Info), then at NUMA nodes, ACS and /dev/shm"
    ),
}
"""What is said of a card whose slot nobody knows: it is no fault in a slot of half of its lanes."""


_WHERE_TO_LOOK = {
    False: (
        "see the other findings. Without one look at the node: nvidia-smi nvlink -s (inactive links), nvidia-smi -q -d "
        "PERFORMANCE (throttling), other processes on the GPUs. NCCL_DEBUG=INFO tells P2P from SHM; "
        "then look at ACS, IOMMU "
        "and NCCL_* variables. busbw doctor on the node looks at all of these"
    ),
    True: (
        "see the other findings. Without one look at NCCL_DEBUG=INFO: NET/... : Using (every NIC, no "
        "Socket) and GDRDMA "
        "behind each channel. Measure pairs of NICs by ib_write_bw, then two nodes at a time: a slow "
        "pair names the host. "
        "Look for lost packets (PFC, ECN) and NCCL_* variables"
    ),
}


def _finding(record: Record, collective: str, low: list[tuple[Case, Span]]) -> Finding:
    (case, rate), measured = low[0], low[0][0].busbw_GBps or 0.0
    at = format_bytes(case.bytes)
    where = f"the record {record.run.run}"
    places = [
        Evidence(
            f"{each.busbw_GBps:.4g} GB/s at {format_bytes(each.bytes)}, expected {span.value:.3g} "
            f"({span.low:.3g} to {span.high:.3g})", where,
        )
        for each, span in low[:6]
    ]  # fmt: skip
    return Finding(
        NAME, Severity.WARNING,
        f"{collective} reached {measured:.3g} GB/s at {at}, {measured / rate.value:.0%} of what the links should give",
        tuple(places),
        Cost(f"{rate.value / measured:.1f} times less than expected", rate.value / measured, "from link rates"),
        _WHERE_TO_LOOK[len({rank.host for rank in record.run.ranks}) > 1],
        Proof(instruction="run again with NCCL_DEBUG=INFO and give log and record to busbw doctor together"),
        stage=Stage.EFFECT,
    )  # fmt: skip


def _falls(record: Record) -> Iterator[Finding]:
    """Bandwidth that falls where it should grow with the size: that needs no knowledge of the machine."""
    groups: dict[tuple[str, str | None], list[Case]] = defaultdict(list)
    for case in record.cases:
        if case.outcome == "measured" and case.busbw_GBps and case.bytes >= FALLING_BYTES:
            groups[case.collective, case.placement].append(case)
    for (collective, _), cases in groups.items():
        cases.sort(key=lambda each: each.bytes)
        best = cases[0]
        for case in cases:
            if (case.busbw_GBps or 0) * FALL < (best.busbw_GBps or 0):
                yield _fall(record, collective, best, case)
                return
            best = max(best, case, key=lambda each: each.busbw_GBps or 0)


_WHY_IT_FALLS = {
    False: (
        "look for a GPU that throttles (nvidia-smi -q -d PERFORMANCE) or is busy (nvidia-smi). Run with NCCL_ALGO and "
        "NCCL_PROTO unset, and with NCCL_ALGO=Ring. Then look for P2P that goes through the processor (ACS)"
    ),
    True: (
        "packets are lost under load, as a rule: make RoCE lossless on NICs and switches (PFC and ECN for the queue of "
        "NCCL_IB_TC). Watch rx_discards and out_of_sequence (ethtool -S) and replace bad cables. See "
        "that GPU Direct RDMA "
        "is on; forced NCCL_ALGO and NCCL_PROTO do it too"
    ),
}


def _fall(record: Record, collective: str, best: Case, case: Case) -> Finding:
    high, low = best.busbw_GBps or 0.0, case.busbw_GBps or 0.0
    where = f"the record {record.run.run}"
    return Finding(
        NAME, Severity.WARNING,
        f"{collective} falls from {high:.3g} GB/s at {format_bytes(best.bytes)} to {low:.3g} GB/s at "
        f"{format_bytes(case.bytes)}, where it should grow",
        (Evidence(f"{high:.4g} GB/s at {format_bytes(best.bytes)}", where),
         Evidence(f"{low:.4g} GB/s at {format_bytes(case.bytes)}", where)),
        Cost(f"{high / low:.1f} times less in large messages", high / low, "the same run at a smaller size"),
        _WHY_IT_FALLS[len({rank.host for rank in record.run.ranks}) > 1],
        Proof(instruction="run that size alone, then with NCCL_ALGO=Ring and with NCCL_IB_DISABLE=1"),
        stage=Stage.FAILURE,
    )  # fmt: skip


def _floor(record: Record) -> Iterator[Finding]:
    """GPUs of one node that nobody knows the links of, slower than any slot for a GPU."""
    place = place_of(record.run)
    kinds = {rank.device.kind for rank in record.run.ranks if rank.device}
    if place is None or place.nodes != 1 or place.gpus < 2 or kinds != {"gpu"}:
        return
    large = [each for each in record.cases if each.outcome == "measured" and each.busbw_GBps
             and each.bytes >= TELLING_BYTES]  # fmt: skip
    best = max(large, key=lambda each: each.busbw_GBps or 0.0, default=None)
    if best is None or (rate := best.busbw_GBps or 0.0) >= FLOOR_GBPS:
        return
    factor = FLOOR_GBPS / rate
    yield Finding(
        NAME, Severity.WARNING,
        f"{best.collective} reached {rate:.3g} GB/s at {format_bytes(best.bytes)} between GPUs of one node, less than "
        "a slot for a GPU gives",
        (Evidence(f"{rate:.4g} GB/s at {format_bytes(best.bytes)}, all larger ones are no faster",
                  f"the record {record.run.run}"),),
        Cost(f"more than {factor:.1f} times less than four lanes of PCIe 3.0 give", factor, "from link rates"),
        "look at the links under load (nvidia-smi -q: GPU Link Info): a slot of one or four lanes, a riser, a lowered "
        "rate. Then look at ACS and IOMMU, and at /dev/shm on a slow medium",
        Proof(instruction="run pairs of GPUs with CUDA_VISIBLE_DEVICES: a slow slot makes its pairs slow"),
        stage=Stage.EFFECT,
    )  # fmt: skip
