"""Times out of records, and what they come to: medians and how far runs lie apart."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Sample:
    """One time of one size and placement, in microseconds per call."""

    bytes: int
    placement: str
    us: float
    wrong: float | None = None
    algorithm: str | None = None


@dataclass(frozen=True)
class Figure:
    """What several samples of one thing come to."""

    us: float
    spread_us: float  # between the quartiles
    samples: int
    wrong: float = 0.0
    algorithm: str | None = None
    times: tuple[float, ...] = field(default=(), compare=False, repr=False)


def read_samples(record: Path) -> list[Sample]:
    """The measured cases of a record. A line that was cut off, or no file at all, is nothing."""
    try:
        lines = record.read_text(errors="replace").splitlines()
    except OSError:
        return []
    return [sample for sample in map(_sample, lines) if sample]


def _sample(line: str) -> Sample | None:
    try:
        case: Any = json.loads(line)
    except ValueError:
        return None
    if not isinstance(case, dict) or case.get("kind") != "case" or case.get("outcome") != "measured":
        return None
    size, us, placement = case.get("bytes"), case.get("time_us"), case.get("placement")
    if not isinstance(size, int) or not isinstance(us, int | float) or not isinstance(placement, str) or us <= 0:
        return None
    wrong, algorithm = case.get("wrong"), case.get("algorithm")
    return Sample(
        bytes=size,
        placement=placement,
        us=float(us),
        wrong=float(wrong) if isinstance(wrong, int | float) else None,
        algorithm=algorithm if isinstance(algorithm, str) else None,
    )


def quartile_distance(values: Sequence[float]) -> float:
    """How far the middle half lies apart; of fewer than four values, all of them."""
    ordered = sorted(values)
    if len(ordered) < 4:
        return ordered[-1] - ordered[0]
    return ordered[(3 * (len(ordered) - 1)) // 4] - ordered[(len(ordered) - 1) // 4]


def summarise(samples: Iterable[Sample], placement: str = "out_of_place") -> dict[int, Figure]:
    """Figures by size."""
    by_size: dict[int, list[Sample]] = defaultdict(list)
    for sample in samples:
        if sample.placement == placement:
            by_size[sample.bytes].append(sample)
    return {size: _figure(found) for size, found in sorted(by_size.items())}


def _figure(found: Sequence[Sample]) -> Figure:
    times = [sample.us for sample in found]
    named = {sample.algorithm for sample in found if sample.algorithm}
    return Figure(
        us=median(times),
        spread_us=quartile_distance(times),
        samples=len(times),
        wrong=max((sample.wrong or 0.0 for sample in found), default=0.0),
        algorithm="; ".join(sorted(named)) or None,
        times=tuple(times),
    )


def plain(sample: Sample) -> dict[str, Any]:
    """As results.json keeps it; what is empty is left out."""
    kept: dict[str, Any] = {"bytes": sample.bytes, "placement": sample.placement, "us": round(sample.us, 3)}
    if sample.wrong:
        kept["wrong"] = sample.wrong
    if sample.algorithm:
        kept["algorithm"] = sample.algorithm
    return kept


def from_plain(kept: Mapping[str, Any]) -> Sample:
    return Sample(kept["bytes"], kept["placement"], kept["us"], kept.get("wrong"), kept.get("algorithm"))


# Traffic per size: what algbw is multiplied by to be compared with a link's rate (nccl-tests, doc/PERFORMANCE.md).
def bus_factor(collective: str, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth."""
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return 1.0 if collective == "broadcast" else (ranks - 1) / ranks


def busbw_GBps(collective: str, ranks: int, size: int, us: float) -> float:
    """Bus bandwidth in 1e9 bytes per second."""
    return bus_factor(collective, ranks) * size / us / 1e3
