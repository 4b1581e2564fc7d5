"""Warnings in the log of a failure that did not bring it about: what they tell is true, and no more than a note."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from busbw.doctor.finding import Finding, Severity

_BYSTANDERS: Mapping[str, frozenset[str]] = {
    # Shared memory is what carries data where P2P and RDMA are not there.
    "shm-full": frozenset({"p2p-broken", "libibverbs-missing"}),
    "wrong-interface": frozenset({"libibverbs-missing"}),
    "no-interface": frozenset({"libibverbs-missing"}),
    # The kernel warns of a sensor long before a NIC loses packets by it.
    "gpu-memory-error": frozenset({"nic-hot"}),
    "gpu-off-bus": frozenset({"nic-hot"}),
    "gpu-memory-full": frozenset({"nic-hot"}),
    "host-memory": frozenset({"nic-hot"}),
}
_BY_HEAT = frozenset({"ib-port-down", "roce-loss", "nic-hang", "ib-retry", "ib-completion-error", "ib-async"})
"""What a NIC that is too hot does."""


def without_bystanders(findings: Sequence[Finding]) -> list[Finding]:
    """The findings; those that only stand beside the error that ended the job are notes."""
    causes = {each.name for each in findings if each.severity is Severity.ERROR}
    loud = {each.name for each in findings if each.severity is not Severity.NOTE}
    aside = {name for cause in causes for name in _BYSTANDERS.get(cause, ())}
    if loud & _BY_HEAT:
        aside -= {"nic-hot"}
    told = [
        replace(each, severity=Severity.NOTE, title=f"{each.title} (not what ended the job)")
        if each.name in aside and each.severity is not Severity.NOTE
        else each
        for each in findings
    ]
    for cause in sorted(causes):
        for name in _BYSTANDERS.get(cause, frozenset()) & aside & loud:
            old = f"follows from {name}: "
            told = [replace(each, title=each.title.replace(old, f"follows from {cause}: ")) for each in told]
    return told
