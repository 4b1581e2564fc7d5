"""A record whose bus bandwidth lies below what its machine's links should deliver."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.analysis.units import format_bytes
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.expect.expectation import TELLING_BYTES, expected, fabric_of
from busbw.records import Record

NAME = "below-expected"


def examine(facts: Facts) -> Iterator[Finding]:
    for record in facts.records:
        fabric = fabric_of(record.run, lambda: facts.snapshot.machine)
        found = expected(record, fabric) if fabric else {}
        telling = [
            (record.cases[i], prediction.busbw_GBps)
            for i, prediction in found.items()
            if record.cases[i].busbw_GBps and record.cases[i].bytes >= TELLING_BYTES
        ]
        for collective in dict.fromkeys(case.collective for case, _ in telling):
            mine = [each for each in telling if each[0].collective == collective]
            case, rate = max(mine, key=lambda each: (each[0].bytes, each[0].placement == "out_of_place"))
            measured = case.busbw_GBps or 0.0
            if measured < rate.low:
                yield _finding(record, collective, measured, (rate.low, rate.value, rate.high), case.bytes)


def _finding(record: Record, collective: str, measured: float, rate: tuple[float, float, float], size: int) -> Finding:
    low, middle, high = rate
    at = format_bytes(size)
    return Finding(
        NAME, Severity.WARNING,
        f"{collective} reached {measured:.3g} GB/s at {at}, {measured / middle:.0%} of what the links should give",
        (Evidence(f"{measured:.4g} GB/s at {at}", f"the record {record.run.run}"),
         Evidence(f"{middle:.3g} GB/s expected ({low:.3g} to {high:.3g})", "busbw predict")),
        Cost(f"{middle / measured:.1f} times less than expected", middle / measured, "expected from link rates"),
        "see the other findings; without one, examine the machine itself: busbw doctor on it",
        Proof(instruction="run again with NCCL_DEBUG=INFO and give log and record to busbw doctor together"),
    )  # fmt: skip
