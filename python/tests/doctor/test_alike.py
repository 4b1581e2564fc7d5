"""Findings of many logs that differ in their evidence alone are told once."""

from __future__ import annotations

from dataclasses import replace

from busbw.doctor.alike import MOST_ALIKE, told_once
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity

ONE = Finding(
    "a", Severity.WARNING, "A", (Evidence("x", "f0", 1), Evidence("y", "f0", 2)), Cost("half"), "mend", Proof()
)


def many(count: int) -> list[Finding]:
    return [replace(ONE, evidence=(Evidence(f"x{i}", f"f{i}", i), Evidence("y", f"f{i}", 9))) for i in range(count)]


def test_few_are_told_each_by_itself() -> None:
    assert told_once(many(MOST_ALIKE)) == many(MOST_ALIKE)


def test_many_are_told_once_with_how_many_more() -> None:
    other, louder = replace(ONE, title="B"), replace(ONE, severity=Severity.ERROR)
    first, *rest = told_once([*many(500), other, louder, *many(500)])
    assert rest == [other, louder]
    assert [(each.fact, each.place) for each in first.evidence] == [
        ("x0", "f0:0"),
        ("x1", "f1:1"),
        ("x2", "f2:2"),
        ("997 more like these, the last: x499", "f499:499"),
    ]
    assert replace(first, evidence=ONE.evidence) == ONE
