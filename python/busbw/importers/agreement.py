"""Rows that contradict themselves: their size over time is not their bandwidth, or their ratio not the run's.

What a tool prints follows from size, time and ranks, so a row where it does not was edited, cut or read wrongly. Such a
row is told and left out; a table whose ratio of bandwidths its collective cannot have is not imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from busbw.records import Case, Collective

TIME_ROOM = 0.3
"""Of the bandwidth that size over time gives: times may be medians where bandwidths are means."""
EXACT_ROOM = 0.05
"""The same of a tool that computes bandwidths from the very time that it prints."""
BUS_ROOM = 0.1
"""Of bus over algorithm bandwidth, which is one number for all rows of a run."""
LEAST_GBPS = 0.2
"""Smaller bandwidths are printed with too few digits to say anything."""
MAX_TOLD = 5

_LEAST: dict[str, float] = {
    "all_reduce": 1.0, "all_gather": 0.5, "reduce_scatter": 0.5, "alltoall": 0.5, "alltoallv": 0.5, "gather": 0.5,
    "scatter": 0.5,
}  # fmt: skip
"""Bus over algorithm bandwidth on two ranks; on more it is less than twice as much, and 1 for the other collectives."""


@dataclass(frozen=True)
class Agreement:
    """The cases that agree, what is told of the others, and whether the run as a whole cannot be."""

    kept: list[Case]
    told: list[str]
    refused: str | None = None


def agreeing(cases: Sequence[Case], *, room: float = TIME_ROOM) -> Agreement:
    """The cases of one run without those that contradict themselves; times may be off by `room`."""
    by_collective: dict[Collective, list[Case]] = {}
    for case in cases:
        by_collective.setdefault(case.collective, []).append(case)
    gone: set[int] = set()
    told: list[str] = []
    for collective, each in by_collective.items():
        over_time = list(map(_time_ratio, each))
        scale = _scale(over_time, room)
        by_time = [_time_contradicts(case, ratio, scale, room) for case, ratio in zip(each, over_time, strict=True)]
        bus = list(map(_bus_ratio, each))
        # What the other rows have is told by those whose time is right.
        usual = _usual([ratio for ratio, why in zip(bus, by_time, strict=True) if why is None], BUS_ROOM)
        if usual is not None and not _possible(collective, usual):
            return Agreement([], [], _impossible(collective, usual, swapped=_swapped(over_time, usual)))
        for case, of_time, of_bus in zip(each, by_time, bus, strict=True):
            why = of_time or _bus_contradicts(case, of_bus, usual)
            if why:
                gone.add(id(case))
                told.append(f"the row of {case.bytes:,} bytes contradicts itself: {why}; it was left out")
    if len(told) > MAX_TOLD:
        told[MAX_TOLD:] = [f"{len(told) - MAX_TOLD} further rows contradict themselves and were left out"]
    return Agreement([case for case in cases if id(case) not in gone] if gone else list(cases), told)


def _usual(ratios: Sequence[tuple[float, float] | None], precise: float) -> float | None:
    """The median of the ratios that are printed precisely."""
    found = [each[0] for each in ratios if each is not None and each[1] < precise]
    return median(found) if found else None


def _possible(collective: Collective, ratio: float) -> bool:
    least = _LEAST.get(collective)
    low, high = (1.0, 1.0) if least is None else (least, 2 * least)
    return low * (1 - BUS_ROOM) <= ratio <= high * (1 + BUS_ROOM)


def _scale(ratios: Sequence[tuple[float, float] | None], room: float) -> float | None:
    """What size over time is multiplied by to give the bandwidth: of a tool that computes it from that time, 1.

    Where that fits no row of such a tool, all of them have another unit, or a payload of their own.
    """
    if room == EXACT_ROOM and any(each is not None and each[1] < room and _within(each, 1.0, room) for each in ratios):
        return 1.0
    return _usual(ratios, room / 2)


def _swapped(over_time: Sequence[tuple[float, float] | None], ratio: float) -> bool:
    """Whether it is the bus bandwidth that size over time gives, so that its column stands in the other's place."""
    usual = _usual(over_time, TIME_ROOM / 2)
    return usual is not None and abs(usual * ratio - 1) < EXACT_ROOM < abs(usual - 1)


def _impossible(collective: Collective, ratio: float, *, swapped: bool) -> str:
    least = _LEAST.get(collective)
    allowed = "1" if least is None else f"{least:g} to {2 * least:g}"
    if swapped:
        return (
            "the columns algbw and busbw contradict each other and the time in all rows, as if they were swapped: "
            "size over time is what stands under busbw; nothing was imported"
        )
    return (
        f"bandwidths and collective contradict each other: bus over algorithm bandwidth is {ratio:.3g}, and "
        f"{collective} has {allowed}: name the collective with --collective, or check the columns; nothing was imported"
    )


def _slack(value: float) -> float:
    """Relative, of half the last digit that the shortest form of a figure has."""
    shown = repr(value)
    digits = len(shown.partition(".")[2].rstrip("0")) if "e" not in shown else 6
    return 0.5 * 10.0**-digits / value


def _bus_ratio(case: Case) -> tuple[float, float] | None:
    """(bus over algorithm bandwidth, its slack); None where nothing says it."""
    algbw, busbw = case.algbw_GBps, case.busbw_GBps
    if not algbw or not busbw or min(algbw, busbw) < LEAST_GBPS:
        return None
    return busbw / algbw, _slack(algbw) + _slack(busbw)


def _time_ratio(case: Case) -> tuple[float, float] | None:
    """(the bandwidth that is printed over size by time, its slack)."""
    rate, time = case.algbw_GBps, case.time_us
    if not rate or not time or time <= 0 or rate < LEAST_GBPS or not case.bytes:
        return None
    return rate * time * 1000 / case.bytes, _slack(rate) + _slack(time)


def _within(ratio: tuple[float, float], usual: float, room: float) -> bool:
    least = (1 - room) * (1 - min(ratio[1], 0.9))
    return least < ratio[0] / usual < 1 / least


def _time_contradicts(case: Case, ratio: tuple[float, float] | None, scale: float | None, room: float) -> str | None:
    if ratio is None or scale is None or _within(ratio, scale, room):
        return None
    rate = case.bytes / (case.time_us or 1.0) / 1000
    return f"size over time is {rate:.4g} GB/s, and its algorithm bandwidth {case.algbw_GBps:.4g} GB/s"


def _bus_contradicts(case: Case, ratio: tuple[float, float] | None, usual: float | None) -> str | None:
    if ratio is None or usual is None or _within(ratio, usual, BUS_ROOM):
        return None
    return (
        f"its bus bandwidth of {case.busbw_GBps:.4g} GB/s is {ratio[0]:.3g} times its algorithm bandwidth, "
        f"and {usual:.3g} times in the other rows"
    )
