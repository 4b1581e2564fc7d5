"""Tables that show what a machine gives: those that reach what its links should, and those compared on purpose."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.analysis.units import format_bytes
from busbw.doctor.expected import Expected
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence
from busbw.expect.expectation import TELLING_BYTES
from busbw.records import Case, Record

FASTER = 1.2
"""By so much a run must be faster than another to show what the other lost: runs of one kind differ by less."""


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


def free_of(facts: Facts, name: str) -> Evidence | None:
    """A run without that variable, or with another value of it, that is good or faster beside one that has it.

    Who measures both in one log compares on purpose. Ranks, hosts and GPUs must be those of the run with it.
    """
    with_it = [each for each in facts.records if name in each.run.environment]
    return next((seen for each in with_it if (seen := better_than(facts, each, name)) is not None), None)


def better_than(facts: Facts, mine: Record, name: str) -> Evidence | None:
    """The figure of a run of the same ranks that differs by that variable and is better, where it is all it can be."""
    for other, case in _others(facts, mine, name):
        rates = [each.busbw_GBps for each in mine.cases if each.busbw_GBps and _key(each) == _key(case)]
        if rates and (case.busbw_GBps or 0.0) > FASTER * max(rates):
            return shown(other, case)
    return None


def _others(facts: Facts, mine: Record, name: str) -> Iterator[tuple[Record, Case]]:
    for other, expected in zip(facts.records, facts.expected, strict=True):
        differs = other.run.environment.get(name) != mine.run.environment.get(name)
        if other is mine or not differs or _ranks(other) != _ranks(mine):
            continue
        if (case := reaches(other, expected)) is not None:
            yield other, case


def _key(case: Case) -> tuple[str, int]:
    return case.collective, case.bytes


def _ranks(record: Record) -> list[tuple[str | None, str | None]]:
    return [(rank.host, rank.device.name if rank.device else None) for rank in record.run.ranks]
