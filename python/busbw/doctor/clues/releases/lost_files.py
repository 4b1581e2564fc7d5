"""Files of NCCL that are set and not there: without the topology's it goes on, without that of graphs it stops."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Finding, Severity

NAME = "vm-topology"
_LOST = re.compile(r"Could not open XML topology file (?P<path>\S{1,300})")
_GRAPH = "Could not open XML graph file"
_FAILURES = frozenset({"nccl-error", "nccl-last-error", "returned-error", "init-incomplete"})
_GOES_ON = ("rows", "ends", "steps")


def with_lost_files(findings: Sequence[Finding], facts: Facts) -> list[Finding]:
    """The findings; a file of the topology that is missing is a note where the run shows no loss by it."""
    names = {each.name for each in findings}
    # What is told to follow from it failed: then it is no note.
    others = [
        each
        for each in findings
        if each.name != NAME and (each.severity is not Severity.NOTE or each.title.startswith(f"follows from {NAME}"))
    ]
    return [_told(each, facts, names, others) if each.name == NAME else each for each in findings]


def _told(finding: Finding, facts: Facts, names: set[str], others: Sequence[Finding]) -> Finding:
    lines = [seen.fact for seen in finding.evidence if seen.line]
    if finding.severity is Severity.WARNING and any(_GRAPH in each for each in lines) and names & _FAILURES:
        return replace(
            finding,
            severity=Severity.ERROR,
            title=f"{finding.title}: NCCL stops there",
            cost=Cost("the job fails: NCCL makes no communicator without that file"),
        )
    if not lines or not all(map(_LOST.search, lines)) or others or not _went_well(facts):
        return finding
    return replace(
        finding,
        severity=Severity.NOTE,
        title=f"{finding.title}; NCCL found the links by itself, and the run shows no loss by it",
    )


def _went_well(facts: Facts) -> bool:
    """Whether the job went on, on one node or as fast as its machine should."""
    if not any(each.kinds[kind] for each in facts.scans for kind in _GOES_ON):
        return False
    return facts.ran_on_one_node or any(each.found for each in facts.expected)
