"""Threads that tell at their end that what they ask about is solved, and show a run that is good since."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding, Severity
from busbw.doctor.shown_texts import Text

_SOLVED = re.compile(
    r"^[^\n]{0,300}?(?:\bclosed this(?: issue)? as completed\b"
    r"|\b(?:hangs?|problems?|issues?|errors?|crash\w{0,2}|timeouts?) (?:is|are|has been|have been) "
    r"(?:now )?(?:gone|solved|fixed|resolved)\b"
    r"|\b(?:works|trains|runs) (?:\w{1,10} )?now\b|\b(?:fixed|solved) (?:it|the (?:hang|problem|issue))\b"
    r"|\b(?:is|was|got|it's|all) (?:now )?(?:fixed|solved|resolved)(?: now)?\b)",
    re.IGNORECASE | re.MULTILINE,
)
_NOT = re.compile(
    r"\b(?:not|never|if|unless|once|until|hope|whether|was it|partly|partially)\b|n't\b|\?", re.IGNORECASE
)
_OPEN = re.compile(
    r"\b(?:still|again|re-?opened|but|however|unfortunately|remains?|persists?|stays|came back|comes back|another"
    r"|not (?:yet )?(?:fixed|solved|resolved|gone)|hangs|fails)\b",
    re.IGNORECASE,
)
"""What tells, behind such a word, that something is left."""


_MAY_STAND = re.compile(r"may be stuck|threads to join the rendezvous", re.IGNORECASE)
_TAKEN_BACK = re.compile(r"^[^\n]{0,300}\bThread is unstuck! Warning above was a false-positive", re.MULTILINE)
"""How XLA tells of a wait that was long, and that it came to its end."""


def without_waits_that_ended(findings: Sequence[Finding], facts: Facts, texts: Sequence[Text]) -> list[Finding]:
    """The findings; waits of XLA that it takes back later are notes, where the job goes on behind them."""
    return [_ended(each, facts, texts) for each in findings]


def _ended(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Finding:
    if finding.name != "watchdog-timeout" or finding.severity is Severity.NOTE or not finding.evidence:
        return finding
    if not all(_MAY_STAND.search(each.fact) for each in finding.evidence):
        return finding
    alive = {each.source: each.alive for each in facts.scans}
    for where in {each.where for each in finding.evidence}:
        waited = max(each.line or 0 for each in finding.evidence if each.where == where)
        if not any(waited < came < alive.get(where, 0) for came in _came(texts, where)):
            return finding
    return replace(finding, severity=Severity.NOTE, title="a process of XLA was late at a meeting, and came")


def _came(texts: Sequence[Text], where: str) -> Iterator[int]:
    """The lines of one log that take such a warning back."""
    for text in texts:
        if text.source == where:
            for found in _TAKEN_BACK.finditer(text.text):
                yield text.evidence(found.end() - 1).line or 0


def without_solved(findings: Sequence[Finding], facts: Facts, texts: Sequence[Text]) -> list[Finding]:
    """The findings; those that a thread calls solved behind their lines are notes."""
    if len(texts) != 1 or len(facts.scans) != 1 or all(each.severity is Severity.NOTE for each in findings):
        return list(findings)
    text, scan = texts[0], facts.scans[0]
    said = [each for each in _SOLVED.finditer(text.text) if not _NOT.search(_line(text, each.end()))]
    if not said or _OPEN.search(text.text, said[-1].end()):
        return list(findings)
    seen = text.evidence(said[-1].end() - 1)
    good = min(max(scan.alive, scan.course.done), seen.line or 0)
    return [_told(each, seen, good) for each in findings]


def _line(text: Text, at: int) -> str:
    begin, end = text.text.rfind("\n", 0, at) + 1, text.text.find("\n", at)
    return text.text[begin : end if end > 0 else None][:600]


def _told(finding: Finding, seen: Evidence, good: int) -> Finding:
    """A note, where all lines of the evidence stand before the word and before a sign that a job went well since."""
    lines = [each.line for each in finding.evidence if each.line is not None]
    if finding.severity is Severity.NOTE or not lines or max(lines) >= good:
        return finding
    title = f"{finding.title} (solved since, as the text says, and a run is good after it)"
    return replace(finding, severity=Severity.NOTE, title=title, evidence=(*finding.evidence, seen))
