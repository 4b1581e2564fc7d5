"""What a table of one node lost because its NVLink switches did not reduce (NVLS), whatever kept them from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from busbw.analysis.units import format_bytes
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence
from busbw.expect.expectation import TELLING_BYTES, expected, place_of
from busbw.expect.span import Span
from busbw.records import Case, Record


@dataclass(frozen=True, slots=True)
class Loss:
    """The largest size of an all-reduce that switches which reduce would make faster."""

    record: Record
    case: Case
    rate: Span

    @property
    def factor(self) -> float:
        """How many times faster it would be."""
        return self.rate.value / (self.case.busbw_GBps or self.rate.value)

    @property
    def evidence(self) -> Evidence:
        """The figure beside what the switches give."""
        at = format_bytes(self.case.bytes)
        fact = f"{self.case.busbw_GBps:.4g} GB/s at {at}, {self.rate.value:.3g} where the switches reduce"
        return Evidence(fact, f"the record {self.record.run.run}")

    @property
    def cost(self) -> Cost:
        """The factor in words."""
        text = f"{self.factor:.1f} times less all-reduce at large sizes: the NVSwitch does not reduce"
        return Cost(text, self.factor, "from link rates")


def largest_loss(facts: Facts) -> Loss | None:
    """The worst of all tables; None where none lies below what its switches give."""
    return max(_losses(facts), key=lambda each: each.factor, default=None)


def _losses(facts: Facts) -> Iterator[Loss]:
    for record, known in zip(facts.records, facts.expected, strict=True):
        place, fabric = place_of(record.run), known.fabric
        if fabric is None or place is None or place.nodes > 1 or not fabric.multicast:
            continue
        free = replace(record, run=replace(record.run, environment={}))
        large = [
            (case, found.busbw_GBps)
            for at, found in expected(free, fabric).items()
            if (case := record.cases[at]).collective == "all_reduce" and case.bytes >= TELLING_BYTES and case.busbw_GBps
        ]
        if not large:
            continue
        case, rate = max(large, key=lambda each: (each[0].bytes, each[0].placement == "out_of_place"))
        if (case.busbw_GBps or 0.0) < rate.low:
            yield Loss(record, case, rate)
