"""Findings that many logs of one job give alike are told once, with how many more give them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from busbw.doctor.finding import Evidence, Finding

MOST_ALIKE = 4
"""So many findings that differ in their evidence alone are told each by itself."""
_SHOWN = 3


def told_once(findings: Iterable[Finding]) -> list[Finding]:
    """The findings in their order; of many that differ in their evidence alone the first, with that of two more."""
    groups = list[list[Finding]]()
    known = dict[str, list[Finding]]()
    for each in findings:
        # Settings to prove by are mappings, which have no hash.
        key = repr(replace(each, evidence=()))
        if key not in known:
            known[key] = []
            groups.append(known[key])
        known[key].append(each)
    return [one for group in groups for one in (group if len(group) <= MOST_ALIKE else [_joined(group)])]


def _joined(group: list[Finding]) -> Finding:
    shown = [seen for each in group[:_SHOWN] for seen in each.evidence[:1]]
    last = group[-1].evidence[0] if group[-1].evidence else Evidence("", "", None)
    more = Evidence(f"{len(group) - len(shown)} more like these, the last: {last.fact}", last.where, last.line)
    return replace(group[0], evidence=(*shown, more))
