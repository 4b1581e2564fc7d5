"""A benchmark that printed the head of its table and no row: its first collective never came back."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.host_tables import has_rows
from busbw.doctor.lines.scanned import Scan
from busbw.doctor.signature import Stage
from busbw.doctor.signatures import SIGNATURES
from busbw.machine.nccl.log_model import NcclLog

NAME = "stuck-in-collective"


def examine(facts: Facts) -> Iterator[Finding]:
    if any(_ends(scan, log) for log, scan in zip(facts.logs, facts.scans, strict=True)):
        return  # it ended for a reason that the log tells
    for log, scan in zip(facts.logs, facts.scans, strict=True):
        if any(not place.complete for each in log.communicators for place in each.ranks):
            continue  # it hangs earlier: init-incomplete
        if not scan.kinds["headers"] or scan.kinds["rows"] or scan.kinds["alone"] > 0:
            continue
        if any(each.source == scan.source and has_rows(each.lines) for each in facts.shown):
            continue  # a table of somebody's own, with a row for each host or pair
        yield Finding(
            NAME, Severity.ERROR,
            "the benchmark started and no row followed: its first collective hangs, or the log was cut off",
            (Evidence("the head of a table without rows", scan.source),),
            Cost("the job hangs"),
            "on one node: switch ACS and IOMMU off (BIOS, iommu=pt, setpci), which let P2P over PCIe hang; "
            "NCCL_P2P_DISABLE=1 shows it. Between nodes: open the firewall, check NCCL_SOCKET_IFNAME and NCCL_IB_HCA, "
            "and that every NIC reaches its peers",
            Proof(instruction="run with NCCL_P2P_DISABLE=1, NCCL_IB_DISABLE=1 and NCCL_SHM_DISABLE=1 in turn"),
            stage=Stage.FAILURE,
        )  # fmt: skip


def _ends(scan: Scan, log: NcclLog) -> bool:
    """Whether the log tells of what may have ended it: nothing that the ranks met after, and no mere effect."""
    met = max((place.end or 0 for each in log.communicators for place in each.ranks), default=0)
    return any(
        SIGNATURES[name].severity is not Severity.NOTE and SIGNATURES[name].stage < Stage.EFFECT and hit.last > met
        for name, hit in scan.hits.items()
    )
