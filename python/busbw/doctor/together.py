"""What two findings, or a finding and a setting, tell together: neither names the cause by itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding, Severity

_OF_XLA = re.compile(r"jaxlib|XlaRuntimeError|JaxRuntimeError|\bxla/|/xla/")
XLA_CURE = (
    "leave NCCL its part: XLA_PYTHON_CLIENT_MEM_FRACTION=0.75 or XLA_PYTHON_CLIENT_PREALLOCATE=false; smaller batches "
    "per device; end other processes on the GPU (nvidia-smi)"
)


def with_others(findings: Sequence[Finding], facts: Facts) -> list[Finding]:
    """The findings; some of them tell more by what else is known."""
    of_xla = any(_OF_XLA.search(seen.fact) for each in findings for seen in each.evidence)
    return [_told(each, facts, of_xla=of_xla) if each.severity is not Severity.NOTE else each for each in findings]


_WAIT = frozenset({"watchdog-timeout", "stuck-in-collective"})
_FETCHES = "waits for its data"


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
    return finding
