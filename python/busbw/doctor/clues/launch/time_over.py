"""A time limit that ended a job which something else had made slow: the limit follows from that cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from busbw.doctor.finding import Finding, Severity

_ENDED, _BY_TIME = "job-cancelled", "the job's time limit was reached"
_OF_STEPS = (
    *("data-bound", "rank-waits-for-data", "core-bound", "cores-shared", "cpu-binding", "cpu-quota", "cpu-slowdown"),
    *("straggler", "steps-slower", "slow-host", "slowed-by", "slow-settings", "file-system-stall", "numa-balancing"),
)
"""What holds up the steps of a program on its host; the nearest first."""
_OF_MACHINES = (
    *("gpu-slowdown", "gpu-throttled", "fan-failed", "gpu-busy", "gpu-memory-storm", "host-memory-storm"),
    *("gpu-link-narrow", "pcie-link", "pcie-limited", "nvlinks-down", "nic-hot"),
)
_OF_TRANSPORT = (
    *("ib-disabled", "p2p-disabled", "shm-disabled", "network-interface", "slow-transport", "libibverbs-missing"),
    *("ofi-slow-provider", "no-gdr", "gdr-unavailable", "vm-topology", "flat-topology", "topology-hidden", "nic-far"),
    *("one-nic", "one-rail", "nics-unused", "thin-link", "port-slower", "roce-loss", "roce-lossy", "mtu"),
    *("ports-left-out", "bounce-buffers", "forced-protocol", "forced-algorithm", "few-channels"),
)
_SLOW = {name: at for at, name in enumerate((*_OF_STEPS, *_OF_MACHINES, *_OF_TRANSPORT))}


def with_time_over(findings: Sequence[Finding]) -> list[Finding]:
    """The findings; that the time was over follows from what made the job slow, where nothing else ended it."""
    loud = [each for each in findings if each.severity is not Severity.NOTE]
    over = next((each for each in loud if each.name == _ENDED and each.title.startswith(_BY_TIME)), None)
    causes = [each for each in loud if each.name in _SLOW]
    others = [each for each in loud if each.severity is Severity.ERROR and each is not over and each not in causes]
    if over is None or not causes or others:
        return list(findings)
    cause = min(causes, key=lambda each: (each.severity.rank, _SLOW[each.name]))
    return [
        _with_end(each, over)
        if each is cause
        else replace(each, severity=Severity.NOTE, title=f"follows from {cause.name}: {each.title}")
        if each is over
        else replace(each, title=each.title.replace(f"follows from {_ENDED}: ", f"follows from {cause.name}: "))
        for each in findings
    ]


def _with_end(cause: Finding, over: Finding) -> Finding:
    """The cause, with the line in which the job's time was over."""
    known = {(seen.where, seen.line) for seen in cause.evidence}
    more = tuple(seen for seen in over.evidence[:1] if (seen.where, seen.line) not in known)
    fix = f"{cause.fix}. More time alone does not mend it: at that pace the job needs too much of it"
    return replace(cause, evidence=(*cause.evidence, *more), fix=fix)
