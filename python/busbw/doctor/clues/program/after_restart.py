"""A launcher started the ranks anew with fewer of them, and the program does not take another world size."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Severity
from busbw.doctor.shown_texts import Text, named, texts_of

_WAITED, _OWN = "rendezvous-timeout", "python-exception"
_BEAT = "keep-alive heartbeat"
_THROUGH = re.compile(r"Rendezvous complete for workers")
_ANEW = re.compile(r"\brestart_count=[1-9]\d{0,3}\b|will restart worker group|Restarting worker group")
_SIZES = re.compile(
    r"\bglobal_world_sizes?=\[?(?P<a>\d{1,7})\b|\bgroup_world_size=(?P<b>\d{1,7})\b|\bWORLD_SIZE[=:] ?(?P<c>\d{1,7})\b"
)
_REFUSES = re.compile(
    r"^(?P<said>[^\n]{0,40}\b(?:assert\b|raise |\w{3,40}(?:Error|Exception)\b)[^\n]{0,160}"
    r"\b(?:world[_ ]?size|WORLD_SIZE|num[_ ](?:ranks|processes|replicas)|n_?gpus"
    r"|(?:data[- ]parallel|DP|dp) (?:world )?size)\b"
    r"[^\n]{0,200})$",
    re.MULTILINE | re.IGNORECASE,
)
_CURE = (
    "let the program take another number of ranks: no assert on the world size, data split and learning rate worked "
    "out anew. Its checkpoint must load for any number (torch.distributed.checkpoint, or full state on rank 0). "
    "Else ask for a fixed number of nodes (--nnodes=N), and start when all are back. The error of NCCL before it "
    "only says that the other node left"
)


def with_meeting_through(findings: Sequence[Finding], facts: Facts) -> list[Finding]:
    """The findings; a store that was late with a heartbeat before the ranks met again stopped nothing.

    What the program itself failed with behind that meeting stands for itself.
    """
    late = next((each for each in findings if each.name == _WAITED and _was_late(each, facts)), None)
    own = next((each for each in findings if each.name == _OWN), None)
    if late is None or own is None or own.severity is Severity.ERROR:
        return list(findings)
    old, new = f"follows from {_WAITED}: ", f"follows from {_OWN}: "
    if not own.title.startswith(old):
        return list(findings)
    told = []
    for each in findings:
        if each is late:
            title = f"the ranks met afterwards, so that this ended nothing: {each.title}"
            told.append(replace(each, severity=Severity.NOTE, title=title))
        elif each is own:
            cost = Cost("the job fails")
            told.append(replace(each, severity=Severity.ERROR, title=each.title.removeprefix(old), cost=cost))
        else:
            told.append(replace(each, title=each.title.replace(old, new)))
    return told


def _was_late(finding: Finding, facts: Facts) -> bool:
    """Whether heartbeats are all that tells of it, and a rendezvous behind them was complete."""
    lines = [seen for seen in finding.evidence if seen.line]
    if finding.severity is not Severity.ERROR or not lines or not all(_BEAT in seen.fact for seen in lines):
        return False
    last = max(seen.line or 0 for seen in lines)
    return any(
        (text.evidence(found.start()).line or 0) > last
        for text in texts_of(facts)
        for found in _THROUGH.finditer(text.text)
    )


def refuses_other_size(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Behind a restart the program failed by words of its world size."""
    for text in texts:
        anew = _ANEW.search(text.text)
        refuses = _REFUSES.search(text.text, anew.end()) if anew else None
        lines = [seen.line for seen in finding.evidence if seen.where == text.source and seen.line]
        if anew is None or refuses is None or not lines:
            continue
        at = text.evidence(refuses.start())
        if not 0 <= max(lines) - (at.line or 0) <= 40:
            continue
        return _told(finding, text, refuses, at)
    return None


def _told(finding: Finding, text: Text, refuses: re.Match[str], at: Evidence) -> Sharper:
    sizes = list(_SIZES.finditer(text.text, 0, refuses.start()))
    total = next((each for each in reversed(sizes) if each["a"]), sizes[-1] if sizes else None)
    size = f" (world size {total['a'] or total['b'] or total['c']})" if total else ""
    seen = (at, *((text.evidence(total.start()),) if total else ()))
    return Sharper(
        f"the launcher started the ranks anew with another number of them{size}, and the program does not take that "
        f"({named(refuses['said'], 100)}): each restart fails alike; {finding.title}",
        _CURE,
        seen,
    )
