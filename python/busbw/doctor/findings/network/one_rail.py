"""A run over hosts of eight large GPUs that reaches what a single network port gives, or a few of many."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

from busbw.analysis.units import format_bytes
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.signature import Stage
from busbw.records import Case, Record

NAME = "one-rail"
SLACK = 1.2
LARGE_BYTES = 256 << 20
GPUS = 8
PORTS = (
    (re.compile(r"\b(?:H100 80GB HBM3|H200|H800|B200|B300)\b(?! NVL)"), 50.0),
    (re.compile(r"\bA[18]00-SXM"), 12.5),
)
"""GB/s of one port, by the GPUs of a host: the fastest that H100 and later were sold with before ports of 800 Gb/s, and
the slowest of which hosts of A100 have four."""
FEW_PORTS = 4
"""So many of eight are told in a note: clouds rent out hosts of H100 with ports that carry no more."""
_SPREAD = frozenset({"all_reduce", "all_gather", "reduce_scatter"})


def examine(facts: Facts) -> Iterator[Finding]:
    for record, expected in zip(facts.records, facts.expected, strict=True):
        port = _port(record)
        case = largest(record) if port else None
        if case is None or port is None or _fell(record, case, port):
            continue
        rate = case.busbw_GBps or 0.0
        if 0.0 < rate <= port * SLACK:
            yield _finding(record, case, port)
        elif rate <= FEW_PORTS * port and not expected.found:
            yield _few(record, case, port)


def _fell(record: Record, case: Case, port: float) -> bool:
    """Whether smaller messages went far faster, and than one port carries: then something else slows the large ones."""
    limit = 2 * max(port, case.busbw_GBps or 0.0)
    return any((each.busbw_GBps or 0.0) > limit for each in record.cases if each.collective in _SPREAD)


def _port(record: Record) -> float | None:
    """What one port carries, where the run is over hosts of eight GPUs that are sold with four ports and more."""
    ranks = record.run.ranks
    hosts = Counter(rank.host for rank in ranks)
    names = [rank.device.name for rank in ranks if rank.device is not None and rank.device.name]
    if len(hosts) < 2 or min(hosts.values()) < GPUS or len(names) != len(ranks):
        return None
    return next((port for gpu, port in PORTS if all(gpu.search(name) for name in names)), None)


def largest(record: Record) -> Case | None:
    """The largest size of a collective that spreads over all ports."""
    cases = [
        each
        for each in record.cases
        if each.collective in _SPREAD and each.outcome == "measured" and each.bytes >= LARGE_BYTES and each.busbw_GBps
    ]
    return max(cases, key=lambda each: (each.bytes, each.busbw_GBps or 0.0), default=None)


def _finding(record: Record, case: Case, port: float) -> Finding:
    hosts, rate = len({rank.host for rank in record.run.ranks}), case.busbw_GBps or 0.0
    return Finding(
        NAME,
        Severity.WARNING,
        f"{case.collective} over {hosts} hosts of eight GPUs reached {rate:.3g} GB/s: "
        + ("less than a single port gives" if rate < port / 2 else "a single port's rate"),
        (Evidence(f"{case.busbw_GBps:.4g} GB/s at {format_bytes(case.bytes)}", f"the record {record.run.run}"),),
        Cost("each host has four to eight ports as a rule; the others seem unused"),
        "see which ports NCCL uses (NCCL_DEBUG=INFO: NET/IB : Using). Name all in NCCL_IB_HCA, give containers and "
        "pods every RDMA device, and bring ports up that are down; on clouds install the provider's network plugin",
        Proof(instruction="grep 'NET/.* : Using' in a log with NCCL_DEBUG=INFO; ibv_devices on each host"),
        stage=Stage.FAILURE,
    )


def _few(record: Record, case: Case, port: float) -> Finding:
    hosts = len({rank.host for rank in record.run.ranks})
    rate = case.busbw_GBps or 0.0
    return Finding(
        NAME,
        Severity.NOTE,
        f"{case.collective} over {hosts} hosts of eight GPUs reached {rate:.3g} GB/s: no more than "
        f"{math.ceil(rate / port)} ports of {port * 8:.0f} Gb/s carry",
        (Evidence(f"{rate:.4g} GB/s at {format_bytes(case.bytes)}", f"the record {record.run.run}"),),
        Cost("hosts with eight such ports reach more than twice as much; some clouds rent out fewer or slower ones"),
        "give --topology of one host or --machine TYPE, so that it is judged. See which ports NCCL uses (NET/... : "
        "Using), whether GPU Direct RDMA is on (GDRDMA behind each channel), and measure one port pair by ib_write_bw",
        Proof(instruction="grep -e 'NET/.* : Using' -e GDRDMA in a log with NCCL_DEBUG=INFO"),
        stage=Stage.NETWORK,
    )
