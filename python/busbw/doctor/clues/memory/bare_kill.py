"""A clue of a process that was killed where no line speaks of memory: that it ran out is likely, and not sure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text

_KILLED = re.compile(
    r"exitcode\W{1,4}-9\b|\bSIGKILL\b|\bsignal:? 9\b"
    r"|\b(?:status|code)\b\W{0,3}(?:of |with )?\W{0,3}(?:-9|\b137|\b247)\b",
    re.IGNORECASE,
)
_OF_MEMORY = re.compile(
    r"oom|out[- ]of[- ]memory|memory|bad_alloc|killed process|malloc|calloc|alloc\w{0,8} (?:host|pinned)|Errno 12"
    r"|MEMLIMIT|\bvmem\b|\bKilled\b|maxrss",
    re.IGNORECASE,
)
_TITLE = "the host ran out of memory: a process was killed or could not allocate"


_EXITS = "] exits with return code ="
"""How DeepSpeed's launcher goes on behind the whole command of a rank."""


def _said(seen: Evidence, texts: Sequence[Text]) -> str:
    """The line; of one that DeepSpeed ends with the code, whose command evidence may cut off, its end alone."""
    whole = next((text.text for text in texts if text.source == seen.where and _EXITS in text.text), "")
    line = "".join(whole.split("\n")[seen.line - 1 : seen.line]) if whole and seen.line else ""
    return line[line.index(_EXITS) :] if _EXITS in line else seen.fact


def killed_by_whom(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """All that is known is the signal."""
    lines = [_said(seen, texts) for seen in finding.evidence if seen.line]
    if not finding.title.startswith(_TITLE) or not lines:
        return None
    if any(_OF_MEMORY.search(line) or not _KILLED.search(line) for line in lines):
        return None
    return Sharper(
        "a process was killed (SIGKILL, 9), most often as the host's memory, or that of its container or job, ran out: "
        f"who killed it is not in this log{finding.title[len(_TITLE) :]}",
        "dmesg -T | grep -i -E 'killed process|oom' on its host tells it; for a job sacct -j JOB -o MaxRSS,State, for "
        f"a pod kubectl describe pod. Where it was memory: {finding.fix}. Else somebody, the scheduler or a watchdog "
        "ended it",
    )
