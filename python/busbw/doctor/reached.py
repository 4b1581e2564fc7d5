"""Tables that reach what the links of their machine should give."""

from __future__ import annotations

from busbw.analysis.units import format_bytes
from busbw.doctor.expected import Expected
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence
from busbw.expect.expectation import TELLING_BYTES
from busbw.records import Case, Record


def reaches(record: Record, expected: Expected) -> Case | None:
    """The largest case, where each large one has an expectation and the last of each collective is not below it."""
    large = [(record.cases[at], each.busbw_GBps) for at, each in expected.found.items()
             if record.cases[at].bytes >= TELLING_BYTES and record.cases[at].busbw_GBps]  # fmt: skip
    last: dict[str, tuple[Case, float]] = {}
    for case, rate in large:
        if case.collective not in last or case.bytes >= last[case.collective][0].bytes:
            last[case.collective] = case, rate.low
    if not last or any((case.busbw_GBps or 0.0) < low for case, low in last.values()):
        return None
    return max((case for case, _ in last.values()), key=lambda each: each.bytes)


def reached(facts: Facts) -> Evidence | None:
    """The figure of a table, where every table that can be judged reaches what it should; None without one."""
    found = None
    for record, expected in zip(facts.records, facts.expected, strict=True):
        case = reaches(record, expected)
        if case is not None:
            found = found or shown(record, case)
        elif expected.found:
            return None
    return found


def shown(record: Record, case: Case) -> Evidence:
    """A figure of a table as evidence."""
    return Evidence(f"{case.busbw_GBps:.4g} GB/s at {format_bytes(case.bytes)}", f"the record {record.run.run}")
