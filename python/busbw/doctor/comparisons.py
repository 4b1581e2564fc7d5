"""Runs of one log that differ by a setting on purpose: what it costs is what they were to show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding, Severity
from busbw.doctor.reached import reaches, shown
from busbw.records import Case, Record

FASTER = 1.2
"""By so much a run must be faster than another to show what the other lost: runs of one kind differ by less."""
COMPARED = ("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_ALGO", "NCCL_PROTO", "NCCL_NVLS_ENABLE", "NCCL_IB_DISABLE")
"""What somebody switches from run to run to see what it gives."""


def light_where_compared(finding: Finding, facts: Facts, name: str) -> Finding:
    """The finding about that variable; a note where each run that has it stands beside a better one that has not."""
    mine = [each for each in facts.records if name in each.run.environment] if _is_typed(facts, name) else []
    seen = [_better(facts, each, name) for each in mine]
    good = [each for each in seen if each is not None]
    if finding.severity is Severity.NOTE or not good:
        return finding
    # The best of several runs has none beside it that is better: it is itself what the machine gives.
    best = [each for each, better in zip(mine, seen, strict=True) if better is None]
    if any(_reaching(facts, each) is None for each in best):
        return finding
    return _noted(finding, good[0])


def light_in_comparison(findings: Sequence[Finding], facts: Facts, record: Record) -> list[Finding]:
    """What a run lost is no fault where another one, which differs by such a setting, gives what it should."""
    loud = any(each.severity is not Severity.NOTE for each in findings)
    better = [seen for name in COMPARED if loud and name in record.run.environment and _is_typed(facts, name)
              and (seen := _better(facts, record, name)) is not None]  # fmt: skip
    return [_noted(each, better[0]) for each in findings] if better else list(findings)


def _is_typed(facts: Facts, name: str) -> bool:
    """Whether one log holds all runs, and shows the variable in front of a command: who types it, means it."""
    words = re.compile(rf"^.{{0,400}}?(?:^|\s){name}=\S{{1,40}}\s+(?:-\S{{1,20}} |\S{{0,80}}\w)")
    logs = facts.shown if len(facts.shown) == 1 and not facts.snapshot.live else ()
    return any(f"{name}=" in line and words.match(line) for each in logs for line in each.lines)


def _noted(finding: Finding, seen: Evidence) -> Finding:
    if finding.severity is Severity.NOTE:
        return finding
    title = f"{finding.title} (a run beside it without that gives what it should)"
    return replace(finding, severity=Severity.NOTE, title=title, evidence=(*finding.evidence, seen))


def _better(facts: Facts, mine: Record, name: str) -> Evidence | None:
    """The figure of a run of the same ranks that differs by that variable, gives what it should, and more."""
    for other, case in _others(facts, mine, name):
        rates = [each.busbw_GBps for each in mine.cases if each.busbw_GBps and _key(each) == _key(case)]
        if rates and (case.busbw_GBps or 0.0) > FASTER * max(rates):
            return shown(other, case)
    return None


def _others(facts: Facts, mine: Record, name: str) -> Iterator[tuple[Record, Case]]:
    for other in facts.records:
        differs = other.run.environment.get(name) != mine.run.environment.get(name)
        if other is mine or not differs or _ranks(other) != _ranks(mine):
            continue
        if (case := _reaching(facts, other)) is not None:
            yield other, case


def _reaching(facts: Facts, record: Record) -> Case | None:
    return next(
        (reaches(each, expected) for each, expected in zip(facts.records, facts.expected, strict=True)
         if each is record), None,
    )  # fmt: skip


def _key(case: Case) -> tuple[str, int]:
    return case.collective, case.bytes


def _ranks(record: Record) -> list[tuple[str | None, str | None]]:
    return [(rank.host, rank.device.name if rank.device else None) for rank in record.run.ranks]
