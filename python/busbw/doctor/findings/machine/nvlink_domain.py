"""Hosts of one NVLink domain (GB200, GB300) that talk to each other at the rate of their NICs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from busbw.analysis.units import format_bytes
from busbw.doctor.domains import domain_of
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.findings.network.one_rail import largest
from busbw.doctor.signature import Stage
from busbw.expect.expectation import place_of
from busbw.records import Record

NAME = "nvlink-domain"
NICS = ((re.compile(r"\bGB200\b(?! NVL4)"), 200.0), (re.compile(r"\bGB300\b"), 400.0))
"""GB/s of the four NICs of a compute tray: of 400 Gb/s, and of 800 Gb/s."""
SLACK = 1.1
TRAYS = 18
"""Of a rack, which is one domain; with more hosts a ring leaves it."""


def examine(facts: Facts) -> Iterator[Finding]:
    for record in facts.records:
        hosts = Counter(rank.host for rank in record.run.ranks)
        names = [rank.device.name for rank in record.run.ranks if rank.device is not None and rank.device.name]
        whole = len(names) == len(record.run.ranks) and 2 <= len(hosts) <= TRAYS and min(hosts.values()) > 1
        nics = next((rate for gpu, rate in NICS if whole and all(gpu.search(name) for name in names)), None)
        case = largest(record) if nics is not None and not _apart(record, facts) else None
        if case is not None and nics is not None and 0.0 < (case.busbw_GBps or 0.0) <= nics * SLACK:
            yield _finding(record, len(hosts), case.collective, case.busbw_GBps or 0.0, case.bytes)


def _apart(record: Record, facts: Facts) -> bool:
    """Whether NCCL says that the job's hosts are of several domains, each of several hosts: then NICs are between."""
    place = place_of(record.run)
    domain = domain_of(place, facts.logs, record.run.settings) if place is not None else None
    return place is not None and domain is not None and place.gpus < domain.gpus < place.gpus * place.nodes


def _finding(record: Record, hosts: int, collective: str, rate: float, size: int) -> Finding:
    return Finding(
        NAME,
        Severity.WARNING,
        f"{collective} over {hosts} hosts reached {rate:.3g} GB/s: what their NICs carry, not the NVLinks between them",
        (Evidence(f"{rate:.4g} GB/s at {format_bytes(size)}", f"the record {record.run.run}"),),
        Cost("hosts of one rack reach about 700 GB/s by their NVLink switches"),
        "see that the hosts are of one rack and clique (nvidia-smi -q | grep -A6 Fabric), start nvidia-imex with one "
        "nodes_config.cfg on all. Give containers the IMEX channel (/dev/nvidia-caps-imex-channels), and unset "
        "NCCL_MNNVL_ENABLE=0 and NCCL_CUMEM_ENABLE=0",
        Proof(
            instruction="grep MNNVL in a log with NCCL_DEBUG=INFO: it tells the clique and its size; nvidia-imex-ctl -N"
        ),
        stage=Stage.DRIVER,
    )
