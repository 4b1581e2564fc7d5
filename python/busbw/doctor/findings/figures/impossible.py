"""Figures of a table or record that no link of its machine can carry: the table is wrong; nothing in it is health."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from busbw.analysis.units import format_bytes
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.signature import Stage
from busbw.expect import impossible
from busbw.expect.impossible import Impossible
from busbw.records import Record

NAME = "impossible"
MAX_SHOWN = 6


def examine(facts: Facts) -> Iterator[Finding]:
    for record in facts.records:
        # By the GPUs' names alone: a topology may hide links, and what it hides makes no figure wrong.
        found = impossible.find(record, impossible.fabric_of(record.run))
        if _is_cut(facts):
            found = [each for each in found if not each.reason.startswith("wrong bus factor")]
        if found:
            yield _finding(record, found)


_RANK, _LEFT_OUT = re.compile(r"^\W{0,4}Rank\s{1,4}\d{1,6} Group"), re.compile(r"^[#\s]{0,8}[(\[<]?\s?(?:\.\.\.|…)")


def _is_cut(facts: Facts) -> bool:
    """Whether somebody left ranks out of a table's list: then nobody knows of how many it is."""
    return any(
        _RANK.match(above) and _LEFT_OUT.match(line) for shown in facts.shown for above, line in pairwise(shown.lines)
    )


def _finding(record: Record, found: list[Impossible]) -> Finding:
    worst = max(found, key=lambda each: (each.case.busbw_GBps or 0.0, each.case.bytes))
    figures = "1 figure" if len(found) == 1 else f"{len(found)} figures"
    where = f"the record {record.run.run}"
    return Finding(
        NAME,
        Severity.WARNING,
        f"{figures} of the table cannot be true: {worst.limit}",
        tuple(Evidence(each, where) for each in list(dict.fromkeys(map(_figure, [worst, *found])))[:MAX_SHOWN]),
        Cost("nothing follows from such a table, neither health nor a loss"),
        f"{worst.reason}; then measure anew",
        Proof(instruction="measure the same sizes with nccl-tests or busbw run, and lay both tables side by side"),
        stage=Stage.PROGRAM,
    )


def _figure(each: Impossible) -> str:
    case = each.case
    said = f"{case.busbw_GBps:.4g} GB/s" if case.busbw_GBps else f"{case.time_us or 0.0:.4g} us"
    return f"{said} at {format_bytes(case.bytes)}: {each.reason}"
