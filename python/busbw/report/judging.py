"""What of a table is more than noise: every judgement is the comparison's own, made once for each pair of columns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from busbw.analysis.comparison import Comparison, Options, Row, Side, compare
from busbw.analysis.verdict import Verdict
from busbw.base.errors import PackageError, UserError
from busbw.records import Case, Record
from busbw.records.bandwidth import busbw_GBps
from busbw.report.curves import Curve

MOST = 24
"""Columns between which a best is looked for; of more, pairs would take longer than a reader has."""


@dataclass
class Judge:
    """Comparisons of columns, kept: a page asks for the same pair for its table, its plot and its sentence."""

    missing: str = ""
    """Why no comparison can be made at all: the package that is not there."""

    _kept: dict[tuple[int, int, str | None, bool], Comparison | None] = field(default_factory=dict)

    _rows: dict[tuple[int, int, str | None, bool], dict[int, Row]] = field(default_factory=dict)

    _sides: dict[tuple[int, str | None, bool], Side] = field(default_factory=dict)

    def comparison(self, a: Curve, b: Curve, placement: str | None, *, of_times: bool) -> Comparison | None:
        """B against A at the sizes that both have; None where there is none.

        `of_times` sets times of unlike numbers of ranks against each other, as a table of latencies does; without it,
        their bus bandwidths are compared.
        """
        key = (id(a), id(b), placement, of_times)
        if key not in self._kept:
            one, two = (self._side(curve, placement, of_times=of_times) for curve in (a, b))
            try:
                self._kept[key] = compare(one, two, Options(allow_different=True))
            except PackageError as problem:
                self.missing = str(problem)
                self._kept[key] = None
            except UserError:
                self._kept[key] = None
        return self._kept[key]

    def _side(self, curve: Curve, placement: str | None, *, of_times: bool) -> Side:
        key = (id(curve), placement, of_times)
        if key not in self._sides:
            self._sides[key] = _side(curve, placement, of_times=of_times)
        return self._sides[key]

    def rows(self, a: Curve, b: Curve, placement: str | None, *, of_times: bool) -> dict[int, Row]:
        """The same by size."""
        key = (id(a), id(b), placement, of_times)
        if key not in self._rows:
            found = self.comparison(a, b, placement, of_times=of_times)
            self._rows[key] = {row.size: row for row in found.rows} if found else {}
        return self._rows[key]

    def best(self, curves: list[Curve], placement: str | None, size: int, *, of_times: bool) -> list[bool]:
        """Which columns are not slower than any other of their collective here, and faster than one of them."""
        if not 1 < len(curves) <= MOST:
            return [False] * len(curves)
        return [
            self._leads(curve, [each for each in curves if each is not curve], (placement, size), of_times=of_times)
            for curve in curves
        ]

    def _leads(self, curve: Curve, others: list[Curve], at: tuple[str | None, int], *, of_times: bool) -> bool:
        verdicts = []
        for other in others:
            # What one rank copies within itself is no rival of what several send.
            if other.collective == curve.collective and (other.ranks == 1) == (curve.ranks == 1):
                row = self.rows(other, curve, at[0], of_times=of_times).get(at[1])
                if row is not None:
                    verdicts.append(row.judgement.verdict)
        return Verdict.SLOWER not in verdicts and Verdict.FASTER in verdicts


def _side(curve: Curve, placement: str | None, *, of_times: bool) -> Side:
    records = []
    of_run: dict[str, list[Case]] = {}
    for case in curve.cases:
        of_run.setdefault(case.run, []).append(case)
    for record in curve.records:
        own = [case for case in of_run.get(record.run.run, ()) if case.placement == placement]
        records.append(Record(record.run, tuple(_comparable(case, of_times=of_times) for case in own)))
    return Side(curve.name, tuple(record for record in records if record.cases))


def _comparable(case: Case, *, of_times: bool) -> Case:
    """A column of a table is one work already; what is left unlike (type, root) must not decide what is compared.

    Bus bandwidth comes from the time where both were printed: 0.01 GB/s may be 0.005 or 0.015.
    """
    bus = case.busbw_GBps
    if bus is not None and case.time_us and case.ranks and not case.conversion:
        bus = busbw_GBps(case.collective, case.bytes, case.time_us, case.ranks) or bus
    ranks = None if of_times else case.ranks
    return replace(case, ranks=ranks, busbw_GBps=bus, type=None, op=None, root=None)
