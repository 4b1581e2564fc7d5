"""What a fault did to a job that ended with an error: it failed, and did not hang."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Finding

_EITHER, _FAILED = "the job fails or hangs", "the job fails"
_ENDED = frozenset({"nccl-error", "nccl-internal", "python-exception", "process-crashed", "invalid-argument"})
"""Signatures by which a program says that it came to an end by an error."""
_WAITED = frozenset({"watchdog-timeout", "stands-still", "stuck-in-collective", "server-waits", "rendezvous-timeout"})
"""Those of jobs that waited first."""


def with_end(findings: Sequence[Finding], facts: Facts) -> list[Finding]:
    """The findings; where an error ended the program at once, their cost says that it failed."""
    hits = {name for scan in facts.scans for name in scan.hits}
    if not hits & _ENDED or hits & _WAITED:
        return list(findings)
    return [replace(each, cost=Cost(_FAILED)) if each.cost == Cost(_EITHER) else each for each in findings]
