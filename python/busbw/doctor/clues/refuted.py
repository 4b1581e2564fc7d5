"""What the log itself refutes, or what says the same as a finding beside it: no more than a note."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from busbw.doctor.clues.launch.late_pods import came_late
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.shown_texts import Text

_LAST = frozenset({"memlock", "ibv-call-failed", "stands-still", "networks-differ", "network-interface"})
"""Names that tell less of the cause than others that say the same of it."""
_APART = "containers-apart"
_OF_RDMA = frozenset({"libibverbs-missing", "ib-devices-missing", "wrong-interface", "slow-transport"})
"""What is said of a network that ranks of one host have no need of."""
_SCHEDULED = re.compile(r"\bFailedScheduling\b")
_ASSIGNED = re.compile(r"\bdefault-scheduler\b[^\n]{0,20}\bSuccessfully assigned (?P<pod>[\w./-]{3,120}) to\b")


def without_refuted(findings: Sequence[Finding], texts: Sequence[Text]) -> list[Finding]:
    """The findings; of several that say one cause the first alone is loud, and none that the log takes back."""
    loud = [each for each in findings if each.severity is not Severity.NOTE]
    heads: dict[str, Finding] = {}
    for each in sorted(loud, key=lambda one: (one.severity.rank, one.name in _LAST, one.stage)):
        heads.setdefault(each.title, each)
    apart = any(each.name == _APART for each in loud)
    told: list[Finding] = []
    for each in findings:
        head = heads.get(each.title)
        if each.severity is Severity.NOTE or head is None:
            told.append(each)
        elif head.name != each.name:
            told.append(replace(each, severity=Severity.NOTE, title=f"follows from {head.name}: {each.title}"))
        elif each.name in _OF_RDMA and apart:
            told.append(replace(each, severity=Severity.NOTE, title=f"follows from {_APART}: {each.title}"))
        elif _was_scheduled(each, loud, texts):
            told.append(replace(each, severity=Severity.NOTE, title=f"{each.title}; the pod was scheduled later"))
        else:
            told.append(each)
    return told


def _was_scheduled(finding: Finding, loud: Sequence[Finding], texts: Sequence[Text]) -> bool:
    """Whether a pod waited for the scheduler and then got its node, and something else failed."""
    said = [seen for seen in finding.evidence if seen.line]
    others = any(each.name != finding.name and each.severity is Severity.ERROR for each in loud)
    if finding.name == "slurm-resources" and others and said:
        late = [who for who, *_ in came_late(texts)]
        if all(any(who in seen.fact for who in late) for seen in said):
            return True
    if finding.name != "slurm-resources" or not said or not all(_SCHEDULED.search(seen.fact) for seen in said):
        return False
    last = max((seen.line or 0) for seen in said)
    return others and any(
        text.text.count("\n", 0, found.start()) + 1 > last
        for text in texts
        for found in _ASSIGNED.finditer(text.text)
        if text.source == said[-1].where
    )
