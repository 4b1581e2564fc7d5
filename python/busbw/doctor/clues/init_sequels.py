"""What follows from an error: an init that it ended and did not hang by itself, connections to what was killed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from busbw.doctor.finding import Finding, Severity
from busbw.doctor.signature import Stage

_INIT, _NEVER = "init-incomplete", " never began"
_OF_ALL = re.compile("all of them wait|an error ended it")
_ALONE = "init began on 1 of "
_OF_A_CALL = frozenset({"nccl-internal", "nccl-warnings", "cuda-call-failed", "ibv-call-failed"})
_OF_CALLS = _OF_A_CALL | {"nccl-last-error", "nccl-error", "proxy-failure"}
"""What NCCL says of a call of its own that failed: behind an init that has no end, that call was the init's."""
_OF_KILLED = frozenset({"connection-refused", "remote-error", "connection-reset"})
"""What others see of a process that the kernel killed."""


def with_init_sequels(findings: Sequence[Finding]) -> list[Finding]:
    """The findings; an init that did not end is a note where an error of an earlier stage stands in its log."""
    errors = [each for each in findings if each.severity is Severity.ERROR]
    return [_told(each, errors) for each in findings]


def _told(finding: Finding, errors: Sequence[Finding]) -> Finding:
    if finding.severity is Severity.NOTE:
        return finding
    if finding.name == _INIT and finding.stage == Stage.FAILURE:
        causes = [each for each in errors if _breaks(each, finding)]
    elif finding.name in _OF_KILLED:
        causes = [each for each in errors if each.name == "host-memory" and not _behind(each, finding)]
    else:
        return finding
    if not causes:
        return finding
    cause = min(causes, key=lambda each: each.stage)
    return replace(finding, severity=Severity.NOTE, title=f"follows from {cause.name}: {finding.title}")


def _breaks(cause: Finding, waiting: Finding) -> bool:
    """Whether that error may have ended the init: one of the machine whenever it was said, another one behind it."""
    failed_call = cause.name in _OF_CALLS and bool(_OF_ALL.search(waiting.title))
    if cause.name in _OF_A_CALL and waiting.title.startswith(_ALONE):
        failed_call = True
    if (cause.stage >= Stage.FAILURE and not failed_call) or cause.name == waiting.name:
        return False
    of_machine = cause.stage <= Stage.SYSTEM
    if _NEVER in waiting.title and not of_machine and not failed_call:
        return False  # who never began is the cause of what the others say
    begin = waiting.evidence[0]
    return any(
        seen.where == begin.where and seen.line is not None and (of_machine or seen.line > (begin.line or 0))
        for seen in cause.evidence
    )


def _behind(cause: Finding, sequel: Finding) -> bool:
    """Whether the cause stands behind its sequel in one log; of several logs nobody knows."""
    first, other = cause.evidence[0], sequel.evidence[0]
    return first.where == other.where and (first.line or 0) > (other.line or 0)
