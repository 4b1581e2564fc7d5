"""Figures of a case that follow from those that were printed: bandwidths from a time, a time from a bandwidth."""

from __future__ import annotations

from dataclasses import replace

from busbw.records.bandwidth import algbw_GBps, bus_factor, busbw_GBps
from busbw.records.model import Case


def completed(case: Case) -> Case:
    """The case with the bandwidths that follow from its time, or from one of them; what was printed stays.

    Of 0.01 GB/s or 0.00 rounding has left nothing: the time knows more.
    """
    time, alg, bus, ranks = case.time_us, case.algbw_GBps, case.busbw_GBps, case.ranks
    ranges = dict(case.range)
    if ranks and ranks > 0:
        factor = bus_factor(case.collective, ranks)
        rounded = not case.conversion and all(rate < 0.1 for rate in (alg, bus) if rate is not None)
        if time and (rounded or (alg is None and bus is None)):
            alg, bus = (rate(case.collective, case.bytes, time, ranks) for rate in (algbw_GBps, busbw_GBps))
        if factor:
            bus = alg * factor if bus is None and alg is not None else bus
            alg = bus / factor if alg is None and bus is not None else alg
            if "algbw_GBps" in ranges and "busbw_GBps" not in ranges:
                low, high = ranges["algbw_GBps"]
                ranges["busbw_GBps"] = (low * factor, high * factor)
        # One rank sends nothing: its bus bandwidth is no figure, and 0.00 would read as one.
        bus = None if ranks == 1 else bus
    elif time and alg is None and case.collective not in ("hypercube", "barrier"):
        alg = case.bytes / time / 1e3
    if time is None and alg and case.bytes and case.collective not in ("hypercube", "barrier"):
        time = case.bytes / alg / 1e3
    return replace(case, time_us=time, algbw_GBps=alg, busbw_GBps=bus, range=ranges)
