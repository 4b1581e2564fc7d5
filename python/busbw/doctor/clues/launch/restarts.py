"""What belongs to another run than the error: what a launcher's restart met, and what people tell of earlier days."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.shown_texts import texts_of
from busbw.doctor.signature import Stage

_RESTARTS = re.compile(
    r"attempts left; will restart worker group|\brestart_count=[1-9]\d{0,3}\b|Restarting worker group"
    r"|\brestarting all workers\b|\bAttempting to restart\b"
)
_OF_RESTART = frozenset({"port-in-use", "stale-store", "rendezvous-timeout"})
"""What a second start meets by itself: the first one's port, store or peers are still there, or gone."""
_BEFORE = re.compile(
    r"\b(?:on (?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|yesterday|last (?:week|month|night|time|year|run)"
    r"|(?:a few |some |two |three |\d{1,2} )?(?:days?|weeks?|months?|runs?) ago"
    r"|(?:an )?earlier (?:run|start|attempt|try|job)"
    r"|(?:the )?previous (?:run|start|attempt|job)|the (?:run|job|attempt) before|used to"
    r"|back in (?:\d{4}|[A-Z][a-z]{2,8}))\b",
    re.IGNORECASE,
)
_PROSE = re.compile(r"(?:[A-Za-z',.()/-]{1,30}\s){6}")
"""Seven words in a row: a sentence, and no record."""
_OF_RECORD = re.compile(r"\d\d:\d\d:\d\d|\[rank\d|NCCL (?:WARN|INFO)|\b(?:ERROR|WARNING|INFO)\b|File \"")


def with_restarts(findings: Sequence[Finding], facts: Facts) -> list[Finding]:
    """The findings; those of a restart, and of what people remember, follow or stand back."""
    causes = [each for each in findings if each.severity is Severity.ERROR and not _is_remembered(each)]
    told = [
        _told(each, [other for other in causes if other is not each], facts)
        if each.severity is not Severity.NOTE
        else each
        for each in findings
    ]
    moved = {
        f"follows from {each.name}: ": f"{found[0]}: "
        for each in told
        if (found := _FOLLOWS.match(each.title)) and each.severity is Severity.NOTE
    }
    return [_moved(each, moved) if each.severity is Severity.NOTE else each for each in told]


_FOLLOWS = re.compile(r"follows from [\w-]{2,60}(?=, as the launcher started anew)")


def _moved(finding: Finding, moved: Mapping[str, str]) -> Finding:
    """What was said to follow from what a restart met follows from the cause of the restart."""
    for old, new in moved.items():
        if finding.title.startswith(old):
            return replace(finding, title=new + finding.title.removeprefix(old))
    return finding


def _told(finding: Finding, causes: Sequence[Finding], facts: Facts) -> Finding:
    if not causes:
        return finding
    if _is_remembered(finding):
        return replace(finding, severity=Severity.NOTE, title=f"told of an earlier run: {finding.title}")
    if finding.name not in _OF_RESTART:
        return finding
    for text in texts_of(facts):
        lines = [seen.line for seen in finding.evidence if seen.where == text.source and seen.line]
        restart = _RESTARTS.search(text.text)
        if not lines or restart is None:
            continue
        at = text.evidence(restart.start()).line or 0
        first = [
            each
            for each in causes
            if each.stage < Stage.EFFECT
            and each.name not in _OF_RESTART
            and any(seen.where == text.source and 0 < (seen.line or 0) < at for seen in each.evidence)
        ]
        if min(lines) > at and first:
            cause = min(first, key=lambda each: each.evidence[0].line or 0)
            return replace(
                finding,
                severity=Severity.NOTE,
                title=f"follows from {cause.name}, as the launcher started anew after it: {finding.title}",
            )
    return finding


def _is_remembered(finding: Finding) -> bool:
    """Whether sentences of people about other days are all that tells of it."""
    lines = [seen.fact for seen in finding.evidence if seen.line]
    return bool(lines) and all(
        _BEFORE.search(each) and _PROSE.search(each) and not _OF_RECORD.search(each) for each in lines
    )
