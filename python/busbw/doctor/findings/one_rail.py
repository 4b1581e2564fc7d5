"""A run over hosts of eight large GPUs that reaches what a single network port gives."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from busbw.analysis.units import format_bytes
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.signature import Stage
from busbw.records import Case, Record

NAME = "one-rail"
PORT_GBps = 50.0
"""Of one port of 400 Gb/s: the fastest that hosts of these GPUs were sold with before ports of 800 Gb/s."""
SLACK = 1.2
LARGE_BYTES = 256 << 20
GPUS = 8
_GPU = re.compile(r"\b(?:H100 80GB HBM3|H200|H800|B200|B300)\b(?! NVL)")
_SPREAD = frozenset({"all_reduce", "all_gather", "reduce_scatter"})


def examine(facts: Facts) -> Iterator[Finding]:
    for record in facts.records:
        case = _largest(record) if _large_hosts(record) else None
        if case is not None and 0.0 < (case.busbw_GBps or 0.0) <= PORT_GBps * SLACK:
            yield _finding(record, case)


def _large_hosts(record: Record) -> bool:
    """Whether the run is over hosts of eight GPUs that are sold with four network ports and more."""
    ranks = record.run.ranks
    hosts = Counter(rank.host for rank in ranks)
    names = [rank.device.name for rank in ranks if rank.device is not None and rank.device.name]
    return (
        len(hosts) > 1
        and min(hosts.values()) >= GPUS
        and len(names) == len(ranks)
        and all(_GPU.search(name) for name in names)
    )


def _largest(record: Record) -> Case | None:
    cases = [
        each
        for each in record.cases
        if each.collective in _SPREAD and each.outcome == "measured" and each.bytes >= LARGE_BYTES and each.busbw_GBps
    ]
    return max(cases, key=lambda each: (each.bytes, each.busbw_GBps or 0.0), default=None)


def _finding(record: Record, case: Case) -> Finding:
    hosts = len({rank.host for rank in record.run.ranks})
    return Finding(
        NAME,
        Severity.WARNING,
        f"{case.collective} over {hosts} hosts of eight GPUs reached {case.busbw_GBps:.3g} GB/s: a single port's rate",
        (Evidence(f"{case.busbw_GBps:.4g} GB/s at {format_bytes(case.bytes)}", f"the record {record.run.run}"),),
        Cost("each host has four to eight ports as a rule; the others seem unused"),
        "see which ports NCCL uses (NCCL_DEBUG=INFO: NET/IB : Using); name all in NCCL_IB_HCA, give containers and "
        "pods every RDMA device, and bring ports up that are down; on clouds install the provider's network plugin",
        Proof(instruction="grep 'NET/.* : Using' in a log with NCCL_DEBUG=INFO; ibv_devices on each host"),
        stage=Stage.NETWORK,
    )
