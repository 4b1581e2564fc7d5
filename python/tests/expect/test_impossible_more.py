"""Thirty-one more figures, eighteen of public threads, with what was wrong with each; odd ones were set aside.

Names are those of the threads' repositories with the number; facts and figures alone are theirs. A name without a
number is a mistake of the kind that threads show, on a machine whose healthy figure is published.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_impossible import record, row
from test_impossible_threads import A100, FLAT, GIB, H100, MIB, V100, Told, is_right, said, sweep

from busbw.expect.impossible import find
from busbw.records import Case


def rows(count: int, us: float, collective: str = "all_reduce", ranks: int = 8, **changed: float) -> tuple[Case, ...]:
    """A sweep of a link without latency: each size takes so many times as long as the one before."""
    found = []
    for number in range(count):
        case = row(number, MIB << (2 * number), us * 4**number, collective, ranks)
        rates = {name: getattr(case, name) * factor for name, factor in changed.items()}
        found.append(replace(case, **rates))
    return tuple(found)


MORE = [
    # Rates that the row's own time contradicts, most of them below what links carry.
    Told("nccl#495", A100, 16, 2, (said("all_reduce", 75, 16, rate=8.0),), "Gbit/s"),
    Told("nccl#700", A100, 16, 2, (said("all_reduce", 9.84, 16, rate=8.0),), "Gbit/s"),
    Told("gloo#21", "NVIDIA A10", 2, 2, (said("all_reduce", 0.11, 2, rate=1000.0),), "1000"),
    Told("a sweep in Gbit/s", V100, 8, 1, rows(4, 18.0, algbw_GBps=8.0, busbw_GBps=8.0), "Gbit/s"),
    Told("a sweep in MB/s", "NVIDIA A10", 4, 1, rows(3, 120.0, ranks=4, algbw_GBps=1e3, busbw_GBps=1e3), "1000"),
    Told("seconds over 1000", "NVIDIA GeForce RTX 4090", 4, 1,
         (said("all_reduce", 20, 4, rate=1e-3),), "1000"),
    Told("bits where bytes were", "NVIDIA L40S", 4, 1, (said("all_gather", 24, 4, rate=1 / 8),), "1/8"),
    Told("ucc#223, all ranks", A100, 16, 2, (said("alltoall", 20, 16, rate=16.0),), "sum over all ranks"),
    Told("four ranks added", "NVIDIA A10", 4, 1, (said("all_gather", 6, 4, rate=4.0),), "sum over all ranks"),
    # A factor that is another collective's.
    Told("accelerator-microbenchmarks#20", H100, 8, 1, (said("all_gather", 350, 8, bus=8.0),), "wrong bus factor"),
    Told("nccl-tests#45", V100, 8, 1, (said("all_gather", 100, 8, bus=2.0),), "wrong bus factor"),
    Told("FlagCX#16", A100, 8, 1, (said("alltoall", 180, 8, bus=2.0),), "wrong bus factor"),
    Told("nccl-tests#279", "NVIDIA A10", 8, 1, (said("all_reduce", 14, 8, bus=2.0),), "wrong bus factor"),
    # Too early, and never sent.
    Told("bigscience#64", A100, 8, 1, sweep("all_reduce", 8, *[(8 * s, 60.0 + t) for s, t in FLAT]),
         "not synchronised"),
    Told("all ranks on another clock", V100, 8, 1, sweep("reduce_scatter", 8, *[(4 * s, 50.0) for s, _ in FLAT]),
         "not synchronised"),
    Told("a graph that was captured and not launched", H100, 8, 1,
         sweep("all_gather", 8, *[(16 * s, 2.5) for s, _ in FLAT]),
         "not synchronised"),
    Told("the socket's buffer", "NVIDIA A10", 2, 2,
         sweep("sendrecv", 2, (32768, 0.6), (131072, 1.0), (16 * MIB, 5_600.0)), "buffered"),
    Told("the same rows again and again", "NVIDIA L40S", 2, 1,
         sweep("all_gather", 2, (2 * MIB, 8.0), (256 * MIB, 6_500.0)), "cached"),
    # Directions and elements.
    Told("nccl-tests#149", A100, 8, 1, (said("all_gather", 2 * 235, 8),), "both directions"),
    Told("torchcomms#3941, by NICs", "NVIDIA L40S", 4, 1, (said("alltoall", 1.9 * 31, 4),), "both directions"),
    # Fast, odd or slow, and true.
    Told("nccl-tests#189", A100, 8, 1, (said("all_reduce", 235, 8),)),
    Told("nccl#1054", A100, 8, 1, (said("all_gather", 240, 8),)),
    Told("nccl-tests#331", A100, 2, 1, (said("all_reduce", 72, 2),)),
    Told("nccl-tests#181", V100, 16, 2, (said("alltoall", 3.92, 16),)),
    Told("nccl-tests#293", H100, 8, 1, sweep("all_reduce", 8, (8, 17.08), (1024, 19.97), (8192, 28.66))),
    Told("rates of another average than the time", A100, 8, 1, (said("all_reduce", 200, 8, rate=1.25),)),
    Told("a rate with two decimals", V100, 16, 2,
         (replace(row(0, 65536, 70.2, "all_reduce", 16), algbw_GBps=0.93, busbw_GBps=1.75),)),
    Told("1 GbE", "NVIDIA A10", 2, 2, (said("all_reduce", 0.11, 2),)),
    Told("H200 under NVLink SHARP", "NVIDIA H200", 8, 1, (said("all_reduce", 478, 8, 8 * GIB),)),
    Told("nccl-tests#45, as it was", "NVIDIA A10", 2, 1, (said("all_gather", 12, 2, bus=2.0, rate=0.5),)),
    Told("a broadcast of a pipelined tree", H100, 8, 1, (said("broadcast", 360, 8),)),
]  # fmt: skip


@pytest.mark.parametrize("told", MORE, ids=lambda told: told.thread)
def test_what_is_wrong_with_a_figure_is_named_and_what_can_be_is_let_through(told: Told) -> None:
    assert is_right(told), [each.reason for each in find(record(*told.cases, ranks=told.ranks, hosts=told.hosts,
                                                                name=told.name), None)]  # fmt: skip
