"""Findings that only follow from another one beside them become notes that say so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from busbw.doctor.clues.links import LINKS
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.signature import Stage

_GID_CHANGES = re.compile(r"GID table change|unknown event type \(18\)")
"""An event that NICs also report where an interface goes or comes for other reasons."""


def with_sequels(findings: Sequence[Finding]) -> list[Finding]:
    """The findings; those that a link explains are notes."""
    told = list(findings)
    for at, each in enumerate(told):
        if each.severity is not Severity.NOTE:
            # What became a note explains no further: two that explain each other would both vanish.
            told[at] = _linked(each, [other for other in told if other.severity is not Severity.NOTE])
            if each.name in (_LAUNCH, _LINK, _NODE, _ACCESS) and told[at] is not each:
                told = _past(each.name, told, told[at].title.partition(":")[0])
    return told


def _past(name: str, findings: Sequence[Finding], follows: str) -> list[Finding]:
    """The findings; what was said to follow from what is itself a sequel follows from the cause of that."""
    old = f"follows from {name}: "
    return [replace(each, title=each.title.replace(old, f"{follows}: ")) for each in findings]


_LINK, _NODE, _ACCESS = "nvlink-error", "node-lost", "illegal-access"
_LAUNCH, _HELPER = "mpi-launch", "the launcher lost one of its helpers"
"""What Hydra, MPICH's launcher, says of a host whose rank ended, too."""


def _of_helper(finding: Finding, loud: Sequence[Finding]) -> Finding | None:
    """The error above in the same log by which a rank ended before the launcher lost its helper."""
    if finding.name != _LAUNCH or not finding.title.startswith(_HELPER):
        return None
    at = finding.evidence[0]
    causes = [
        each
        for each in loud
        if each is not finding
        and each.severity is Severity.ERROR
        and each.stage < Stage.EFFECT
        and any(seen.where == at.where and 0 < (seen.line or 0) < (at.line or 0) for seen in each.evidence)
    ]
    return min(causes, key=lambda each: each.stage, default=None)


def _linked(finding: Finding, loud: Sequence[Finding]) -> Finding:
    if (ended := _of_helper(finding, loud)) is not None:
        return _note(finding, ended)
    for link in LINKS:
        if finding.name not in link.sequels or link.never.search(finding.title) or not _all_say(finding, link.only):
            continue
        for cause in (each for each in loud if each.name == link.cause):
            said = (cause.title, *(seen.fact for seen in cause.evidence))
            if cause.severity.rank > finding.severity.rank or (
                link.first and _stands_before(finding, cause) and not _of_kernel_alone(cause, finding)
            ):
                continue
            if any(map(link.words.search, said)):
                return _note(finding, cause)
    if finding.name == "ib-invalid-gid" and _all_say(finding, _GID_CHANGES):
        causes = [each for each in loud if each.severity is Severity.ERROR and each.stage < Stage.NETWORK]
        if causes:
            return _note(finding, min(causes, key=lambda each: each.stage))
    return finding


def _stands_before(one: Finding, other: Finding) -> bool:
    """Whether the first line of the one stands before that of the other, in a log that has both."""
    lines, others = ({seen.where: seen.line for seen in reversed(each.evidence) if seen.line} for each in (one, other))
    return any(line < others[where] for where, line in lines.items() if where in others)


def _of_kernel_alone(cause: Finding, sequel: Finding) -> bool:
    """Whether the kernel tells the cause and a program the sequel: its lines are pasted behind, whatever came first."""
    told, others = (
        [_KERNEL.search(seen.fact) is not None for seen in each.evidence if seen.line and not _FRAME.match(seen.fact)]
        for each in (cause, sequel)
    )
    return all(told) and not any(others)


_FRAME = re.compile(r"(?:thrown at|called in) ")
_KERNEL = re.compile(r"\bNVRM: |\bkernel: |\bnvidia-nvswitch\d{1,2}: ")


def _all_say(finding: Finding, words: re.Pattern[str]) -> bool:
    return all(words.search(seen.fact) for seen in finding.evidence if seen.line)


def _note(finding: Finding, cause: Finding) -> Finding:
    return replace(finding, severity=Severity.NOTE, title=f"follows from {cause.name}: {finding.title}")
