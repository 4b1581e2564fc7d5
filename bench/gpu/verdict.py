"""Whether two programs' times agree: medians over runs, and the band that counts as agreement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

LARGE = 1 << 20
RELATIVE_BAND = 0.03
ABSOLUTE_BAND_US = 0.3

Samples = Mapping[tuple[int, str], Sequence[float]]


@dataclass(frozen=True)
class Point:
    """One size and placement, in two programs."""

    size: int
    placement: str
    reference_us: float
    ours_us: float
    runs: tuple[int, int]  # of the reference and of ours
    reference_spread_us: float  # between the quartiles of the reference's runs: what agreement can mean at best
    times: tuple[Sequence[float], Sequence[float]]  # of the reference and of ours, a run each

    @property
    def ratio(self) -> float:
        return self.ours_us / self.reference_us if self.reference_us > 0 else float("nan")

    @property
    def difference_us(self) -> float:
        return self.ours_us - self.reference_us

    @property
    def agrees(self) -> bool:
        if self.size >= LARGE:
            return abs(self.ratio - 1) <= RELATIVE_BAND
        return abs(self.difference_us) <= ABSOLUTE_BAND_US


def samples(runs: Iterable[Mapping[str, object]]) -> Samples:
    """Times by (size, placement) over the runs that ended well."""
    found: dict[tuple[int, str], list[float]] = defaultdict(list)
    for run in runs:
        rows = run["rows"]
        if run["exit"] != 0 or not isinstance(rows, list):
            continue
        for row in rows:
            if row["size"] > 0:
                found[row["size"], "out_of_place"].append(row["out_of_place_us"])
                found[row["size"], "in_place"].append(row["in_place_us"])
    return found


def _spread(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[(3 * (len(ordered) - 1)) // 4] - ordered[(len(ordered) - 1) // 4]


def points(reference: Samples, ours: Samples) -> list[Point]:
    return [
        Point(
            size=size,
            placement=placement,
            reference_us=median(reference[size, placement]),
            ours_us=median(ours[size, placement]),
            runs=(len(reference[size, placement]), len(ours[size, placement])),
            reference_spread_us=_spread(reference[size, placement]),
            times=(reference[size, placement], ours[size, placement]),
        )
        for size, placement in sorted(reference.keys() & ours.keys(), key=lambda key: (key[1], key[0]))
    ]
