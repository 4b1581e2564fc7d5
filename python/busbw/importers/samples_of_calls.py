"""Calls of collectives in real jobs, gathered over calls and ranks: one case per collective, size and type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

from busbw.importers.shape import ranks_fit
from busbw.records import Case, Collective
from busbw.records.bandwidth import algbw_GBps, busbw_GBps

MAX_KEYS = 20_000
MAX_SAMPLES = 2_000
"""Times kept of one case and rank; the rest is counted."""
SLOW = 0.10
"""A rank whose median differs by more than this from the median of all ranks is named."""


@dataclass(frozen=True)
class Call:
    """What makes calls comparable with each other."""

    collective: Collective
    bytes: int
    type: str | None
    ranks: int | None
    variant: str | None = None


@dataclass
class _Times:
    by_rank: dict[str, list[float]] = field(default_factory=dict)
    count: int = 0


class Calls:
    """Times in microseconds by call and rank."""

    def __init__(self) -> None:
        self._times: dict[Call, _Times] = {}
        self.left_out = 0

    def add(self, call: Call, rank: str, time_us: float) -> None:
        """One call of one rank."""
        times = self._times.get(call)
        if times is None:
            if len(self._times) >= MAX_KEYS:
                self.left_out += 1
                return
            times = self._times[call] = _Times()
        times.count += 1
        samples = times.by_rank.setdefault(rank, [])
        if len(samples) < MAX_SAMPLES:
            samples.append(time_us)

    def __len__(self) -> int:
        return len(self._times)

    def by_ranks(self) -> Iterator[tuple[int | None, list[Case]]]:
        """The cases by number of ranks: one run each."""
        sizes = dict.fromkeys(call.ranks for call in self._times)
        for ranks in sizes:
            yield ranks, [_case(call, times) for call, times in self._times.items() if call.ranks == ranks]

    def slow_ranks(self) -> list[str]:
        """Sentences on ranks whose times differ from those of the others, the worst of each case."""
        found = []
        for call, times in self._times.items():
            middles = {rank: median(samples) for rank, samples in times.by_rank.items()}
            if len(middles) < 2:
                continue
            middle = median(sorted(middles.values())[: (len(middles) + 1) // 2 * 2 - 1] or [0.0])
            rank, worst = max(middles.items(), key=lambda each: each[1])
            if middle and worst > middle * (1 + SLOW):
                found.append(
                    f"{rank} is {100 * (worst / middle - 1):.0f} % above the median of {len(middles)} ranks: "
                    f"{call.collective} of {call.bytes} bytes takes {worst:.0f} us against {middle:.0f} us"
                )
        return found[:20]


def _case(call: Call, times: _Times) -> Case:
    samples = [sample for each in times.by_rank.values() for sample in each]
    middles = [median(each) for each in times.by_rank.values()]
    time = median(samples)
    algbw = algbw_GBps(call.collective, call.bytes, time, call.ranks) if call.ranks else None
    busbw = busbw_GBps(call.collective, call.bytes, time, call.ranks) if call.ranks else None
    assert call.ranks is None or ranks_fit(call.collective, algbw, busbw, call.ranks)
    return Case(
        run="",
        case=0,
        collective=call.collective,
        bytes=call.bytes,
        placement=None,
        outcome="measured",
        time_us=time,
        algbw_GBps=None if algbw is None else round(algbw, 6),
        busbw_GBps=None if busbw is None else round(busbw, 6),
        type=call.type,
        variant=call.variant,
        iterations=times.count,
        range={"time_us": (min(middles), max(middles))} if len(middles) > 1 else {},
        iterations_us=tuple(tuple(each) for each in times.by_rank.values()) if len(middles) <= 64 else (),
        context={"ranks_reporting": len(middles)},
        conversion="median over calls; bandwidth from size and time",
    )
