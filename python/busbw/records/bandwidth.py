"""What size, algorithm bandwidth and bus bandwidth mean for each collective, and how units are converted.

GB is 1e9 bytes everywhere (nccl-tests' definition), GiB is never used for a rate, and Gbps is 1e9 bits per second.

Source: nccl-tests, doc/PERFORMANCE.md, and the `*GetBw` functions of each collective (read at 2.19.6):

- size S is the bytes of the whole payload: the buffer of one rank for all_reduce, broadcast, reduce and sendrecv, and
  ranks x the part of one rank for all_gather, reduce_scatter, alltoall, gather, scatter and hypercube;
- algbw = S / t, but for hypercube, where it is S x (n - 1) / n / t (the own part does not travel);
- busbw = algbw x factor(n): the rate that the slowest link carries when the algorithm is the optimal one without help
  from the network (NVLink SHARP and trees can therefore exceed the wire's rate).
"""

from __future__ import annotations

from busbw.records.model import Collective

GB = 1e9
"""Bytes in the GB of every rate."""


def bus_factor(collective: Collective, ranks: int) -> float | None:
    """Bus bandwidth over algorithm bandwidth; None where the collective moves no payload (barrier)."""
    if ranks < 1:
        raise ValueError(f"a collective needs at least one rank, got {ranks}")
    match collective:
        case "all_reduce":
            return 2 * (ranks - 1) / ranks
        case "all_gather" | "reduce_scatter" | "alltoall" | "alltoallv" | "gather" | "scatter":
            return (ranks - 1) / ranks
        case "broadcast" | "reduce" | "sendrecv" | "hypercube":
            return 1.0
        case "barrier":
            return None


def payload_factor(collective: Collective, ranks: int) -> float:
    """Bytes that count for algbw over the size column: 1, but for hypercube (own part excluded)."""
    return (ranks - 1) / ranks if collective == "hypercube" else 1.0


def algbw_GBps(collective: Collective, size: int, time_us: float, ranks: int) -> float | None:
    """Algorithm bandwidth in GB/s of `size` bytes in `time_us`; None for no elapsed time or a barrier."""
    if time_us <= 0 or collective == "barrier":
        return None
    return size * payload_factor(collective, ranks) / (time_us * 1e-6) / GB


def busbw_GBps(collective: Collective, size: int, time_us: float, ranks: int) -> float | None:
    """Bus bandwidth in GB/s of `size` bytes in `time_us`; None where `algbw_GBps` is."""
    algbw = algbw_GBps(collective, size, time_us, ranks)
    factor = bus_factor(collective, ranks)
    return None if algbw is None or factor is None else algbw * factor


def GBps_from_Gbps(gigabits_per_second: float) -> float:
    """Gigabytes per second from gigabits per second."""
    return gigabits_per_second / 8


def Gbps_from_GBps(gigabytes_per_second: float) -> float:
    """Gigabits per second from gigabytes per second."""
    return gigabytes_per_second * 8
