"""Runs every examination of the list over the facts; worst findings first."""

from __future__ import annotations

from collections.abc import Iterable

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.findings import FINDINGS
from busbw.doctor.recognise import recognise


def examine(facts: Facts) -> tuple[Finding, ...]:
    """Every finding; within a severity causes before effects, then the dearest first, then in the order of the list."""
    found = [finding for examination in FINDINGS.values() for finding in examination(facts)]
    found += recognise(facts.scans, one_node=facts.ran_on_one_node)
    return tuple(sorted(found, key=lambda each: (each.severity.rank, each.stage, -(each.cost.factor or 0.0))))


def worst(findings: Iterable[Finding]) -> Severity | None:
    """The worst severity; None without findings."""
    return min((each.severity for each in findings), key=lambda each: each.rank, default=None)
