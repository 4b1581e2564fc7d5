"""Why a figure is impossible: what public threads about such figures found."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from busbw.analysis.units import format_bytes
from busbw.records import Case
from busbw.records.bandwidth import algbw_GBps, bus_factor

ROUNDED = 1.02
"""Tables have two decimals, clocks and line rates a few parts in a thousand: a figure this little above may be true."""

MIXED = 0.015
"""How near a ratio is to 2^30 over 1e9 where the two are mixed."""

_ROOTED = frozenset({"broadcast", "scatter", "sendrecv"})
"""Whose sender is done when its data is handed over, before anybody has it."""


def derived_GBps(case: Case) -> float | None:
    """Bus bandwidth from size and time."""
    factor = bus_factor(case.collective, case.ranks or 1)
    rate = algbw_GBps(case.collective, case.bytes, case.time_us, case.ranks or 1) if case.time_us else None
    return rate * factor if rate is not None and factor is not None else None


class Peers:
    """The cases of a record by what they share but for the size, in order of it: asked for each case in doubt."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._cases = cases
        self._by_shape: dict[tuple[object, ...], list[Case]] = {}

    def of(self, case: Case) -> list[Case]:
        """At most MOST_PEERS of those measured with a time, the smallest and the largest among them."""
        if not self._by_shape:
            for each in self._cases:
                if each.time_us and each.outcome == "measured":
                    self._by_shape.setdefault(_shape(each), []).append(each)
            for shape, alike in self._by_shape.items():
                alike.sort(key=lambda each: each.bytes)
                step = (len(alike) - 1) / (MOST_PEERS - 1)
                if step > 1:
                    self._by_shape[shape] = [alike[round(at * step)] for at in range(MOST_PEERS)]
        return self._by_shape.get(_shape(case), [])


MOST_PEERS = 256
"""Cases that one in doubt is held against; of more, every so-manyth in order of their sizes."""


def _shape(case: Case) -> tuple[object, ...]:
    return case.collective, case.placement, case.type, case.op, case.root, case.ranks, case.variant


def reason_of(case: Case, peers: Peers, excess: float | None) -> str:
    """What the figures speak for. `excess` is the figure over the limit, where that is the machine's own."""
    return (
        _inconsistent(case) or _flat(case, peers) or _buffered(case, peers) or _multiple(case, excess) or ASK
    )  # fmt: skip


ASK = "check the unit of the time, the count of bytes, and whether the time ends before the data is there"


def _off(value: float, other: float) -> float:
    return abs(value / other - 1)


def _near(value: float, other: float, within: float = 0.06) -> bool:
    return other > 0 and abs(value / other - 1) <= within


def _inconsistent(case: Case) -> str | None:
    """Size, time, algorithm and bus bandwidth of one row that contradict each other."""
    factor = bus_factor(case.collective, case.ranks or 1) or 0.0
    algbw, busbw = case.algbw_GBps or 0.0, case.busbw_GBps or 0.0
    if algbw > 1 and busbw and not _near(busbw, algbw * factor):
        return (f"wrong bus factor: bus over algorithm bandwidth is {busbw / algbw:.3g}, and {case.collective} on "
                f"{case.ranks} ranks has {factor:.3g}")  # fmt: skip
    own = algbw_GBps(case.collective, case.bytes, case.time_us, case.ranks or 1) if case.time_us else None
    if not own or not case.algbw_GBps or max(case.algbw_GBps, own) < 1 or _near(case.algbw_GBps, own):
        return None
    ratio = case.algbw_GBps / own
    if min(_off(ratio, 1.024**3), _off(ratio, 1.024**-3)) <= MIXED:
        return "wrong unit: GB (1e9 bytes) and GiB (2^30 bytes) are mixed in the size and the rate"
    summed = "the rate is the sum over all ranks"
    for times, what in (
        (8.0, "the rate is in Gbit/s and not in GB/s" + (f", or {summed}" if case.ranks == 8 else "")),
        (1 / 8, "the rate is in GB/s where 1/8 was taken"),
        (1e3, "the time or the rate is off by 1000: milliseconds for microseconds, or MB/s for GB/s"),
        (1e-3, "the time is off by 1000: milliseconds where microseconds are meant"),
        (float(case.ranks or 0), summed),
    ):  # fmt: skip
        if _near(ratio, times):
            return f"wrong unit or count: {what}"
    return f"wrong count: size over time gives {own:.4g} GB/s and not {case.algbw_GBps:.4g}"


TOLD = 0.03
"""How near a ratio is to what a wrong unit or count makes of it; averages of other kinds differ by any amount."""

_FACTOR = 1.5
"""A bus factor that is off so much is none of another average or of rounding."""
_EXACT = 1.05
"""The same of a tool that computes both bandwidths from the time that it prints, and of ranks that it lists."""


def contradicts(case: Case, *, exact: bool = False) -> str | None:
    """How a row contradicts itself by a unit, a count or a factor, whatever its links carry; None where it does not.

    Older tools give no factor at all (algorithm and bus bandwidth are the same): that is a definition and no mistake.
    With `exact` the tool says all of it of the same calls, so that any difference is a mistake.
    """
    ranks, algbw, busbw = case.ranks or 1, case.algbw_GBps or 0.0, case.busbw_GBps or 0.0
    own = algbw_GBps(case.collective, case.bytes, case.time_us, ranks) if case.time_us else None
    if own and algbw and max(own, algbw) >= 1:
        known = (8.0, 1 / 8, 1e3, 1e-3, *((float(ranks),) if ranks > 2 else ()))
        off = max(algbw / own, own / algbw)
        if any(_off(algbw / own, times) <= TOLD for times in known) or (exact and off >= _EXACT):
            return f"a rate of {algbw:.4g} GB/s contradicts its size and time, which give {own:.4g} GB/s"
    factor = bus_factor(case.collective, ranks)
    if factor and algbw >= 1 and busbw and _off(busbw, algbw) > TOLD:
        off = busbw / algbw / factor
        if max(off, 1 / off) >= (_EXACT if exact else _FACTOR):
            return f"a bus bandwidth of {busbw:.4g} GB/s contradicts its algorithm bandwidth of {algbw:.4g} GB/s"
    return None


def _flat(case: Case, peers: Peers) -> str | None:
    """Time that does not grow with the size is that of the launch, at the smallest size of such a sweep too."""
    alike = peers.of(case) if case.time_us else []
    smaller = [each.time_us or 0.0 for each in alike if each.bytes * 8 <= case.bytes]
    larger = [each.time_us or 0.0 for each in alike if each.bytes >= case.bytes * 8]
    than = ""
    if smaller and (case.time_us or 0.0) <= 1.3 * median(smaller):
        than = f"{format_bytes(case.bytes)} takes no longer than an eighth of it"
    elif not smaller and larger and median(larger) <= 1.3 * (case.time_us or 0.0):
        than = f"eight times as much and more takes no longer than {format_bytes(case.bytes)}"
    end = "so only the launch was timed; wait for the device before the clock is read"
    return f"not synchronised: {than}, {end}" if than else None


def _buffered(case: Case, peers: Peers) -> str | None:
    """Rates that fall as messages grow, where the wire gives less and less a head start."""
    rate = case.busbw_GBps or derived_GBps(case) or 0.0
    larger = [
        each.busbw_GBps or derived_GBps(each) or 0.0 for each in peers.of(case) if each.bytes >= 4 * case.bytes
    ]  # fmt: skip
    if not larger or min(larger) * 1.5 > rate:
        return None
    if case.collective in _ROOTED:
        return (
            "buffered: larger messages are far slower, so the sender's clock stopped when the data was handed over; "
            "take the slowest rank's time (nccl-tests: -a 3)"
        )
    return (
        "cached: larger messages are far slower, so these came from a cache and not over the link; measure larger ones"
    )


def _multiple(case: Case, excess: float | None) -> str | None:
    """What stands between the figure and a limit of which well-run machines reach half and more."""
    for most, what in (
        (2.0, "wrong count: both directions were added up, elements were taken for twice their bytes, or rates of "
              "ranks that did not measure at the same time were summed"),
        (
            4.0,
            "wrong count: elements were taken for four times their bytes, or directions and elements for twice theirs",
        ),
        (8.0, "wrong unit: Gbit/s were read as GB/s"),
        (float(case.ranks or 0), _SUMMED),
        (1000.0, "wrong unit: milliseconds were read as microseconds, or MB/s as GB/s"),
    ):  # fmt: skip
        if excess is not None and most > 1 and 0.5 * most < excess <= ROUNDED * most:
            # With about as many ranks as a byte has bits both are as likely.
            ranks = case.ranks or 0
            both = most == 8 and 0.5 * ranks < excess <= ROUNDED * ranks
            return f"{what}, or {_SUMMED.removeprefix('wrong count: ')}" if both else what
    return None


_SUMMED = (
    "wrong count: the rate was summed over the ranks, or the size of all ranks was taken where each has a part of it"
)
