"""Forty figures of public threads, each with what was wrong with it (or nothing), and what is said of it.

Names are those of the threads' repositories with the number; facts and figures alone are theirs. Figures of others'
machines that a thread names without a number are those of a healthy one. Odd ones were set aside at first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from test_impossible import H100 as DGX_H100
from test_impossible import record, row

from busbw.expect.impossible import ceiling, fabric_of, find
from busbw.records import Case
from busbw.records.bandwidth import bus_factor

GIB, MIB = 1 << 30, 1 << 20
H100, V100, A100 = "NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-32GB", "NVIDIA A100-SXM4-80GB"


@dataclass(frozen=True)
class Told:
    """`busbw` as it was told; what the time column says follows from it unless `time_of` is another rate."""

    thread: str
    name: str
    ranks: int
    hosts: int
    cases: tuple[Case, ...]
    why: str = ""
    """Words of the reason; "" for a figure that can be."""


def said(collective: str, busbw: float, ranks: int, size: int = GIB, *, timed: float | None = 0.0, bus: float = 1.0,
         rate: float = 1.0) -> Case:  # fmt: skip
    """A row of that bus bandwidth; `timed`: the true one, which the time is of (None: no time); `rate` and `bus` are
    factors of algorithm and bus bandwidth over what they are."""
    true = busbw if timed == 0.0 else (timed or busbw)
    time_us = size * (bus_factor(collective, ranks) or 1) / true / 1e3  # type: ignore[arg-type]
    case = row(0, size, time_us, collective, ranks)
    case = replace(case, algbw_GBps=case.algbw_GBps * rate, busbw_GBps=case.busbw_GBps * rate * bus)
    return replace(case, time_us=None) if timed is None else case


def sweep(collective: str, ranks: int, *rows: tuple[int, float]) -> tuple[Case, ...]:
    """Sizes and their times."""
    return tuple(replace(row(i, size, us, collective, ranks), case=i) for i, (size, us) in enumerate(rows))


FLAT = tuple((1 << (20 + 2 * i), 31.0 + i) for i in range(6))
THREADS = [
    # Time and rate of one row are of different units.
    Told("nccl#25", "Tesla K80", 4, 1, (said("all_reduce", 6000, 4, 10_000_000),), "milliseconds"),
    Told("rccl#26", V100, 8, 1, (said("all_reduce", 120, 8, rate=8.0),), "sum over all ranks"),
    Told("nccl-tests#22", V100, 16, 2, (said("all_reduce", 15, 16, rate=80.0),), "wrong"),
    Told("superbenchmark#369", A100, 16, 2, (said("all_reduce", 180, 16, rate=1000.0),), "1000"),
    Told("DeepSpeed#2040", A100, 8, 1, (said("all_reduce", 230, 8, rate=8.0),), "Gbit/s"),
    Told("torchcomms#142", H100, 8, 1, (said("all_gather", 440, 8, rate=1.024**3),), "GiB"),
    Told("torchcomms#196", H100, 8, 1, (said("all_gather", 445, 8, rate=1.024**3),), "GiB"),
    Told("nccl-tests#59", A100, 16, 2, (said("alltoall", 25, 16, rate=16.0),), "sum over all ranks"),
    Told("rccl#26, eight ranks without a time", V100, 8, 1, (said("all_reduce", 8 * 120, 8, timed=None),), "wrong"),
    Told("bigscience 135 Gbps", V100, 8, 2, (said("all_reduce", 16.9, 8, rate=8.0),), "Gbit/s"),
    # A wrong factor.
    Told("FlagPerf#548", A100, 8, 1, (said("all_reduce", 230, 8, bus=2.0),), "wrong bus factor"),
    Told("nccl-tests#238", H100, 8, 1, (said("all_reduce", 480, 8, bus=1.75),), "wrong bus factor"),
    Told("nccl-tests#130", A100, 16, 2, (said("alltoall", 24, 16, bus=30.0),), "wrong bus factor"),
    Told("all-gather by the part of one rank", H100, 8, 1, (said("all_gather", 360, 8, bus=8.0),), "wrong bus factor"),
    Told("nccl-tests#159", H100, 8, 1, (said("broadcast", 350, 8, bus=1.75),), "wrong bus factor"),
    Told("DeepSpeed#2120", A100, 8, 1, (said("reduce_scatter", 230, 8, bus=2.0),), "wrong bus factor"),
    # The clock was read too early, or in each rank at another moment.
    Told("nccl#1131", H100, 8, 1, sweep("all_reduce", 8, *FLAT), "not synchronised"),
    Told("mlx-benchmark#21", "NVIDIA GeForce RTX 4090", 2, 1,
         sweep("all_gather", 2, *[(s, 20.0) for s, _ in FLAT]), "not synchronised"),
    Told("torchrec#4066", A100, 8, 1, sweep("alltoall", 8, *[(s, 44 + t / 9) for s, t in FLAT]), "not synchronised"),
    Told("warp-rnnt#9", V100, 4, 1, sweep("all_reduce", 4, *[(4 * s, 26.0) for s, _ in FLAT]), "not synchronised"),
    Told("torchcomms#3941", "NVIDIA A10", 8, 1, (said("sendrecv", 1.96 * 31.5, 8),), "at the same time"),
    Told("pytorch#59433", "Tesla V100-PCIE-16GB", 4, 1, (said("all_reduce", 143.5 * 1.5, 4),), "check"),
    # What never left the sender or its cache.
    Told("nccl-tests#82", "Tesla V100-PCIE-16GB", 2, 2,
         sweep("broadcast", 2, (65536, 0.9), (262144, 3.0), (64 * MIB, 24_855.0)), "buffered"),
    Told("gloo over one host", "NVIDIA A10", 2, 1,
         sweep("all_gather", 2, (MIB, 6.0), (64 * MIB, 1_800.0)), "cached"),
    Told("pytorch#131739", H100, 8, 1, (row(0, 8, 0.12),), "check"),
    Told("nccl-tests#68, a tenth of its time", V100, 4, 1, (row(0, 8, 0.25, ranks=4),), "check"),
    # Both directions, or elements for bytes.
    Told("both ways of NVLink 4", H100, 8, 1, (said("all_gather", 2 * 360, 8),), "both directions"),
    Told("both ways of PCIe 4", "NVIDIA A10", 4, 1, (said("all_gather", 2 * 25, 4),), "both directions"),
    Told("floats for bytes, NVLink 3", A100, 8, 1, (said("all_gather", 4 * 230, 8),), "four times"),
    Told("floats for bytes, NVLink 2", V100, 8, 1, (said("all_gather", 4 * 120, 8),), "four times"),
    # Fast, asked about, and true.
    Told("nccl-tests#212", H100, 8, 1, (said("all_reduce", 480, 8),)),
    Told("nccl-tests#312", "NVIDIA H20", 8, 1, (said("all_reduce", 480, 8),)),
    Told("nccl-tests#251", "Tesla V100-SXM2-16GB", 4, 1, (said("all_reduce", 41.55, 4),)),
    Told("nccl#1576", A100, 16, 2, (said("all_reduce", 192, 16),)),
    Told("nccl-tests#196", "NVIDIA H100 PCIe", 16, 2, (said("all_reduce", 20, 16),)),
    Told("nccl-tests#119", A100, 16, 2, (said("all_reduce", 96.67, 16, 133169160),)),
    Told("nccl#1218", H100, 256, 32, (said("all_reduce", 340, 256),)),
    Told("nccl-tests#267", H100, 48, 6, (said("alltoall", 58, 48),)),
    Told("nccl-tests#68", V100, 4, 1, (row(0, 8, 9.4, ranks=4),)),
    Told("nccl-tests#232", H100, 2, 2, (said("all_reduce", 50, 2, 16 << 30),)),
]  # fmt: skip
MISSED = frozenset({"nccl#25"})
"""Its board has no entry, so that it is told to check the unit of the time and no more."""


def found_of(told: Told) -> list[str]:
    listed = record(*told.cases, ranks=told.ranks, hosts=told.hosts, name=told.name)
    return [each.reason for each in find(listed, fabric_of(listed.run))]


def is_right(told: Told) -> bool:
    reasons = found_of(told)
    return bool(reasons) == bool(told.why) and all(told.why in reason for reason in reasons)


@pytest.mark.parametrize("told", THREADS, ids=lambda told: told.thread)
def test_a_figure_of_a_thread_is_explained_as_the_thread_explains_it(told: Told) -> None:
    assert is_right(told) == (told.thread not in MISSED), found_of(told)


def test_there_are_forty_of_them_and_half_were_set_aside() -> None:
    assert len(THREADS) == len({told.thread for told in THREADS}) == 40


@pytest.mark.parametrize(
    ("collective", "nodes", "share"),
    [("alltoall", 2, 15 / 8 / 8), ("alltoall", 4, 31 / 24 / 8), ("all_gather", 2, 15 / 16 * 2),
     ("reduce_scatter", 4, 31 / 32 * 4 / 3), ("all_reduce", 2, 15 / 8), ("gather", 2, 15 / 8), ("broadcast", 2, 1.0)],
)  # fmt: skip
def test_the_adapters_of_a_node_bound_what_must_leave_it(collective: str, nodes: int, share: float) -> None:
    # nccl-tests#130: of an all-to-all over N nodes (N - 1) / N leaves its node, for each GPU over its own adapter.
    few = replace(DGX_H100, nics=2, nic_Gbps=200.0)
    assert ceiling(few, collective, 8, nodes).GBps == pytest.approx(50.0 * share)
