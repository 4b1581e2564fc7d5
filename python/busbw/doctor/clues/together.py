"""What two findings, or a finding and a setting, tell together: neither names the cause by itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding, Severity
from busbw.doctor.meanings.memory import with_memory
from busbw.doctor.meanings.stacks import with_stack
from busbw.doctor.signatures.effect.watchdog_timeout import BOTH_WAIT

_OF_XLA = re.compile(r"jaxlib|XlaRuntimeError|JaxRuntimeError|\bxla/|/xla/")
XLA_CURE = (
    "leave NCCL its part: XLA_PYTHON_CLIENT_MEM_FRACTION=0.75 or XLA_PYTHON_CLIENT_PREALLOCATE=false; smaller batches "
    "per device; end other processes on the GPU (nvidia-smi)"
)

_NO_PLUGIN = "Failed to initialize any NET plugin"
_NO_RDMA = "NET/IB : No device found"
_OTHER_NETWORK = re.compile(r"NET/Socket : |NET/Plugin: (?:Loaded|Plugin name)|Initialized NET plugin")
RDMA_CURE = (
    "unset NCCL_NET (in the environment, /etc/nccl.conf, ~/.nccl.conf and what the launcher passes on), or set "
    "NCCL_NET=Socket. Where the host has RDMA NICs, give the container its devices (/dev/infiniband, the RDMA device "
    "plugin) and rdma-core: ibv_devinfo must list them there"
)
PEERS_CURE = (
    "let peers call in opposite order: one sends first while the other receives (by rank % 2). Or post both and wait "
    "after: batch_isend_irecv, isend and irecv. Where a further rank should have sent, look there: it crashed or took "
    "another branch"
)


def with_others(findings: Sequence[Finding], facts: Facts) -> list[Finding]:
    """The findings; some of them tell more by what else is known."""
    of_xla = any(_OF_XLA.search(seen.fact) for each in findings for seen in each.evidence)
    return [_told(each, facts, of_xla=of_xla) if each.severity is not Severity.NOTE else each for each in findings]


_WAIT = frozenset({"watchdog-timeout", "stuck-in-collective"})
_FETCHES = "waits for its data"


LOCK = "lock-and-barrier"


def with_lock(findings: Sequence[Finding]) -> list[Finding]:
    """Where a lock and a collective wait for each other, that time was over is no more than what follows."""
    if not any(each.name == LOCK and each.severity is Severity.ERROR for each in findings):
        return list(findings)
    return [
        replace(each, severity=Severity.NOTE, title=f"follows from {LOCK}: {each.title}")
        if each.name in _WAIT | {"build-lock", "remote-error"} and each.severity is not Severity.NOTE
        else each
        for each in findings
    ]


_LEFT_OUT = "ports-left-out"
_OF_LEFT_OUT = frozenset({"no-gdr", "gdr-unavailable", "one-nic", "nic-far"})
"""What the slow port is besides, and the fast ones are not."""


def with_left_out(findings: Sequence[Finding]) -> list[Finding]:
    """Where a setting leaves the fast ports out, what is said of the slow one follows; no further port has to go."""
    if not any(each.name == _LEFT_OUT for each in findings):
        return list(findings)
    return [
        replace(each, severity=Severity.NOTE, title=f"follows from {_LEFT_OUT}: {each.title}")
        if each.name in _OF_LEFT_OUT and each.severity is not Severity.NOTE
        else each
        for each in findings
        if each.name != "port-rates"
    ]


def with_loader(findings: Sequence[Finding]) -> list[Finding]:
    """Where stacks show one rank in its loader, and others in a collective, these wait for that one."""
    loader = next((each for each in findings if each.name == "data-bound" and _by_stack(each)), None)
    if loader is None or not any(each.name in _WAIT and each.severity is Severity.ERROR for each in findings):
        return list(findings)
    return [
        replace(each, severity=Severity.ERROR)
        if each is loader
        else replace(each, severity=Severity.NOTE, title=f"follows from {loader.name}: {each.title}")
        if each.name in _WAIT and each.severity is not Severity.NOTE
        else each
        for each in findings
    ]


def _by_stack(finding: Finding) -> bool:
    return f" {_FETCHES}" in finding.title and finding.title.startswith("the rank of ")


def _told(finding: Finding, facts: Facts, *, of_xla: bool) -> Finding:
    of_nccl = any("NCCL WARN" in seen.fact or "Bootstrap" in seen.fact for seen in finding.evidence)
    if finding.name == "no-interface" and of_nccl and (value := facts.value("NCCL_SOCKET_IFNAME")):
        said = clean(shortened(value, 60))
        return replace(finding, title=f"NCCL_SOCKET_IFNAME={said} names no network interface of this host or container")
    if finding.name == "gpu-memory-full" and of_nccl and of_xla:
        return replace(
            finding, title="a GPU's memory is full: XLA had taken nearly all of it before NCCL came", fix=XLA_CURE
        )
    if finding.name == "network-not-found" and any(_NO_PLUGIN in seen.fact for seen in finding.evidence):
        return _without_rdma(finding, facts)
    if finding.name == "gpu-memory-error" and _was_replaced(finding, facts):
        return replace(
            finding,
            severity=Severity.NOTE,
            title="a row of a GPU's memory was to be replaced (Xid 63), and has been: none is pending (Pending: No)",
        )
    if finding.name == "watchdog-timeout" and BOTH_WAIT in finding.title:
        return replace(finding, fix=PEERS_CURE)
    return with_stack(with_memory(finding, facts.scans) if finding.name == "gpu-memory-full" else finding, facts.scans)


_RECORDED = re.compile(r"Xid\b.{0,40}\): ?63\b")
_PENDING = re.compile(r"(?:^|\n)\s{2,16}Pending {2,40}: (?P<now>Yes|No)")


def _was_replaced(finding: Finding, facts: Facts) -> bool:
    """Whether the driver only told that a row will be replaced, and its list shows since that none waits."""
    lines = [seen for seen in finding.evidence if seen.line]
    if not lines or not all(_RECORDED.search(seen.fact) for seen in lines):
        return False
    states = {found["now"] for shown in facts.shown for found in _PENDING.finditer("\n".join(shown.lines))}
    return states == {"No"}


def _without_rdma(finding: Finding, facts: Facts) -> Finding:
    """RDMA was the only network that was allowed, where NCCL tried it, found no device, and tried no other."""
    for shown in facts.shown:
        none = next((number for number, line in enumerate(shown.lines, 1) if _NO_RDMA in line), 0)
        if none and not any("NCCL INFO" in line and _OTHER_NETWORK.search(line) for line in shown.lines):
            said = Evidence(clean(shortened(shown.lines[none - 1].strip(), 160)), shown.source, none)
            return replace(
                finding,
                title="NCCL may use RDMA alone (NCCL_NET=IB, or netName of the communicator), and this host or "
                "container has no RDMA device",
                fix=RDMA_CURE,
                evidence=(said, *finding.evidence),
            )
    return finding
