"""Figures that cannot be true are found, and the reason that the figures speak for is named; true ones are let through.

The reasons are those that public threads found: who asked, and what it was, stands beside each.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.cli.main import main
from busbw.expect import machines
from busbw.expect.fabric import Fabric
from busbw.expect.impossible import CONTEXT, ceiling, fabric_of, find, mark_file, marked
from busbw.gate.judge import Result, judge
from busbw.gate.thresholds import parse
from busbw.records import Case, Device, End, Rank, Record, Run, Tool, catalogue, read_record, save_records
from busbw.records.bandwidth import algbw_GBps, bus_factor

H100 = machines.require("dgx-h100")
TCP = Fabric("two hosts over TCP", gpus=1, sm=70, nics=1, nic_Gbps=24.0)
MIB = 1 << 20


def row(index, size, time_us, collective="all_reduce", ranks=8, **changed):
    algbw = algbw_GBps(collective, size, time_us, ranks)
    case = Case("r", index, collective, size, "out_of_place", "measured", time_us, algbw,
                algbw * bus_factor(collective, ranks), ranks=ranks)  # fmt: skip
    return replace(case, **changed)


def record(*cases, ranks=8, hosts=1, name="NVIDIA H100 80GB HBM3", machine=None):
    listed = tuple(Rank(i, f"host{i * hosts // ranks}", device=Device("gpu", i, name)) for i in range(ranks))
    return Record(
        Run("r", None, Tool("busbw"), None, ranks=listed, machine=machine),
        tuple(cases),
        End("r", "completed", len(cases)),
    )


def times(sizes, rate, latency=20.0, **changed):
    """Rows of a link of `rate` GB/s of algorithm bandwidth."""
    return [row(i, size, latency + size / rate / 1e3, **changed) for i, size in enumerate(sizes)]


HEALTHY = times([1 << 10, 1 << 20, 1 << 26, 1 << 30], 274.0)


def reasons(*cases, fabric=H100, **changed):
    return [each.reason.split(":")[0] for each in find(record(*cases, **changed), fabric)]


def test_healthy_runs_are_let_through() -> None:
    assert find(record(*HEALTHY), H100) == []
    assert find(record(*HEALTHY), None) == []


@pytest.mark.parametrize("name", catalogue.names())
def test_no_published_figure_is_called_impossible(name: str) -> None:
    for each in catalogue.load(name):
        assert find(each, fabric_of(each.run)) == []


def test_trees_and_sharp_beyond_the_wire_are_possible() -> None:
    # nccl#1576, nccl-tests#22: trees on two nodes exceed the NICs. nccl-tests#212: 480 GB/s of NVLink SHARP on 8 H100,
    # whose links NCCL counts at 371. Neither is a mistake.
    assert find(record(row(0, 1 << 30, (1 << 30) / 274.3 / 1e3)), H100) == []
    two = times([1 << 30], 750.0 / 1.875, ranks=16)
    assert find(record(*two, ranks=16, hosts=2), H100) == []


def test_a_figure_above_the_links_is_marked_with_the_limit() -> None:
    [found] = find(record(*HEALTHY[:3], row(3, 1 << 30, (1 << 30) / 900 / 1e3)), H100)
    assert found.index == 3
    assert found.limit == (
        "1575 GB/s is more than the 787.5 GB/s that all_reduce on 8 ranks can reach: "
        "the links of one GPU of ndv5 carry 450 GB/s each way"
    )


def test_only_the_launch_was_timed() -> None:
    # nccl#1131, PyTorch forum: time.time() around an asynchronous call.
    flat = [row(i, 1 << (20 + 2 * i), 31.0 + i) for i in range(6)]
    assert set(reasons(*flat)) == {"not synchronised"}


def test_the_root_hands_its_data_over() -> None:
    # nccl-tests#82: broadcast over TCP with a peak of 3 GB/s reports much more while it fits into sockets' buffers.
    small = [row(i, size, size / 11 / 1e3, "broadcast", 2) for i, size in enumerate((65536, 262144))]
    large = row(2, 64 * MIB, 64 * MIB / 2.7 / 1e3, "broadcast", 2)
    found = find(record(*small, large, ranks=2, hosts=2, name="Tesla V100"), TCP)
    assert [each.index for each in found] == [0, 1]
    assert {each.reason.split(":")[0] for each in found} == {"buffered"}


def test_small_messages_come_from_a_cache() -> None:
    cached = row(0, MIB, MIB / 2000 / 1e3, "all_gather")
    assert reasons(cached, *times([256 * MIB], 380.0, collective="all_gather")) == ["cached"]


def test_gigabits_are_no_gigabytes() -> None:
    # nccl-tests#22: 125 is said of a network of 100, in Gbit/s.
    right = row(0, 1 << 30, (1 << 30) / 250 / 1e3)
    wrong = replace(right, algbw_GBps=right.algbw_GBps * 8, busbw_GBps=right.busbw_GBps * 8)
    [found] = find(record(wrong), H100)
    said = "wrong unit or count: the rate is in Gbit/s and not in GB/s"
    assert found.reason == f"{said}, or the rate is the sum over all ranks"
    # Where the time is not told, the excess says it.
    assert reasons(replace(wrong, time_us=None)) == ["wrong unit"]


def test_milliseconds_are_no_microseconds() -> None:
    # nccl#25: 10 MB in 1.6 us, "too good to be true": it was milliseconds, 6 GB/s over PCIe.
    case = row(0, 10_000_000, 1.6, ranks=4)
    [found] = find(record(case, ranks=4, name="Tesla K80"), None)
    assert found.limit.endswith("the links of no GPU carry more than 1800 GB/s each way")
    [found] = find(record(case, ranks=4, name="Tesla K80"), Fabric("4 x K80", 4, sm=37, pcie_GBps=15.75))
    assert found.reason.startswith("wrong unit: milliseconds")


@pytest.mark.parametrize("ratio", [1000.0, 8.0, 4.0, 2.0])
def test_multiples_of_what_links_reach(ratio: float) -> None:
    right = row(0, 1 << 30, (1 << 30) / 420 / 1e3, "all_gather")
    wrong = replace(right, time_us=right.time_us / ratio, algbw_GBps=None, busbw_GBps=None)
    assert find(record(wrong), H100)[0].reason.startswith("wrong ")


def test_a_wrong_bus_factor_is_told_from_its_ratio() -> None:
    # all_gather's rate with the factor of an all-reduce of as many ranks as bytes were multiplied by.
    right = row(0, 1 << 30, (1 << 30) / 420 / 1e3, "all_gather")
    [found] = find(record(replace(right, busbw_GBps=right.algbw_GBps * 1.75)), H100)
    assert found.reason == (
        "wrong bus factor: bus over algorithm bandwidth is 1.75, and all_gather on 8 ranks has 0.875"
    )


def test_less_than_one_flight() -> None:
    [found] = find(record(*HEALTHY[1:], row(3, 8, 0.1)), H100)
    assert found.limit == "0.10 us is less than the 0.3 us of one message's flight"


def test_one_rank_and_parts_of_a_communicator_are_not_judged() -> None:
    # all_reduce_perf -g 1 does nothing in place, in next to no time.
    assert find(record(row(0, 1 << 30, 0.4, ranks=1, busbw_GBps=0.0), ranks=1), H100) == []
    split = row(0, 1 << 30, (1 << 30) / 700 / 1e3, "alltoall", 8)
    assert find(record(split, ranks=16, hosts=2), H100) == []


@pytest.mark.parametrize(
    "collective", ["all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "gather"]
)
def test_a_ceiling_grows_with_the_links(collective: str) -> None:
    for gpus, nodes in ((2, 1), (8, 1), (8, 2), (8, 64), (1, 2)):
        one = ceiling(H100, collective, gpus, nodes).GBps
        two = ceiling(
            replace(H100, nvlink_GBps=2 * H100.nvlink_GBps, nic_Gbps=2 * H100.nic_Gbps), collective, gpus, nodes
        )
        assert 0 < one < two.GBps


def test_the_record_keeps_the_sentence(tmp_path) -> None:
    path = tmp_path / "record.jsonl"
    save_records([record(*HEALTHY[:3], row(3, 1 << 30, (1 << 30) / 900 / 1e3))], path)
    said = mark_file(path)
    kept = read_record(path)
    assert said is not None and said in kept.run.notes
    assert "787.5 GB/s" in kept.cases[3].context[CONTEXT]
    assert CONTEXT not in kept.cases[2].context
    assert mark_file(path) == said
    assert read_record(path).run.notes == kept.run.notes


LIMITS = '[[threshold]]\ncollective = "all_reduce"\nbytes = ["1G"]\nmin_busbw_GBps = 100\n'


def test_a_gate_stops_what_is_impossible(tmp_path, capsys) -> None:
    good, bad = record(*HEALTHY), record(*HEALTHY[:3], row(3, 1 << 30, (1 << 30) / 900 / 1e3))
    assert {check.result for check in judge(good, parse(LIMITS, "test"))} == {Result.PASSED}
    (tmp_path / "limits.toml").write_text(LIMITS)
    codes = []
    for each in (good, bad):
        save_records([each], tmp_path / "run.jsonl")
        codes.append(main(["gate", str(tmp_path / "run.jsonl"), "--thresholds", str(tmp_path / "limits.toml")]))
    assert codes == [0, 1]
    assert "impossible" in capsys.readouterr().out


def test_an_import_marks_and_says_it(tmp_path, capsys) -> None:
    head = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
    rows = "".join(
        f"{size} {size // 4} float sum -1 {us:.2f} {size / us / 1e3:.2f} {size / us / 1e3 * 1.75:.2f} 0 "
        f"{us:.2f} {size / us / 1e3:.2f} {size / us / 1e3 * 1.75:.2f} 0\n"
        for size, us in ((1 << 26, 30.0), (1 << 28, 31.0), (1 << 30, 32.0))
    )
    ranks = "".join(
        f"#  Rank {i} Group  0 Pid 1 on host0 device  {i} [0x0{i}] NVIDIA H100 80GB HBM3\n" for i in range(8)
    )
    (tmp_path / "job.log").write_text(f"# Using devices\n{ranks}#\n{head}{rows}")
    assert main(["import", str(tmp_path / "job.log"), "--output", str(tmp_path / "out.jsonl")]) == 0
    assert "6 figures are impossible" in capsys.readouterr().err
    kept = read_record(tmp_path / "out.jsonl")
    assert all("not synchronised" in case.context[CONTEXT] for case in kept.cases if case.bytes >= 1 << 29)


def test_marking_nothing_changes_nothing() -> None:
    healthy = record(*HEALTHY)
    assert marked(healthy, []) is healthy


@pytest.mark.parametrize(("rate", "name", "impossible"), [
    (3000.0, "NVIDIA H100 80GB HBM3", True), (800.0, "NVIDIA H100 80GB HBM3", False),
    (3000.0, "NVIDIA GB200", True), (1600.0, "NVIDIA GB200", False),
])  # fmt: skip
def test_of_several_nodes_without_named_nics_the_gpus_own_links_bound_it(
    rate: float, name: str, impossible: bool
) -> None:
    wrong = record(row(0, 1 << 30, (1 << 30) * 1.875 / rate / 1e3, ranks=16), ranks=16, hosts=2, name=name)
    found = find(wrong, fabric_of(wrong.run))
    assert len(found) == impossible
    carried = 900 if "GB200" in name else 513
    assert all(f"carry {carried} GB/s each way" in each.limit for each in found), "NVLink, and PCIe where hosts end it"


@pytest.mark.parametrize(("name", "rate", "impossible"), [
    ("NVIDIA GeForce RTX 4090", 86.0, True), ("NVIDIA GeForce RTX 4090", 21.5, False),
    ("NVIDIA A100-PCIE-40GB", 700.0, True), ("NVIDIA A100 80GB PCIe", 228.0, False),
    ("AMD Instinct MI300X", 900.0, True), ("AMD Instinct MI300X", 311.0, False),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 51.0, False),
])  # fmt: skip
def test_boards_whose_bridges_nobody_names_are_bounded_by_all_of_them(name: str, rate: float, impossible: bool) -> None:
    said = record(row(0, 1 << 30, (1 << 30) / rate / 1e3, ranks=2), ranks=2, name=name)
    assert bool(find(said, fabric_of(said.run))) == impossible


def test_one_gpu_a_node_is_bounded_too_and_ranks_that_share_one_are_not() -> None:
    rows = (row(0, 1 << 30, (1 << 30) / 41.0 / 1e3, "broadcast", 2),)
    two = record(*rows, ranks=2, hosts=2, name="Tesla V100-PCIE-16GB")
    assert len(find(two, fabric_of(two.run))) == 1
    shared = tuple(Rank(i, "host0", device=Device("gpu", 0, "Tesla V100-PCIE-16GB")) for i in range(2))
    one = replace(two, run=replace(two.run, ranks=shared))
    assert fabric_of(one.run) is None and find(one, None) == []


def test_no_message_is_over_before_a_processor_sees_another_store() -> None:
    soon = replace(row(0, 8, 0.01), ranks=None)
    bare = Record(Run("r", None, Tool("t"), None), (soon,), End("r", "completed", 1))
    assert len(find(bare, None)) == 1
    assert find(replace(bare, cases=(replace(soon, placement="in_place"),)), None) == []


def bus(collective, rate, ranks=8, size=1 << 30):
    """A row of that bus bandwidth."""
    return row(0, size, size * bus_factor(collective, ranks) / rate / 1e3, collective, ranks)


@pytest.mark.parametrize(
    ("name", "collective", "rate", "ranks", "hosts"),
    [
        ("NVIDIA H800", "all_reduce", 215, 8, 1),  # nccl#1374: NVLink SHARP above links of 200
        ("NVIDIA H20", "all_reduce", 480, 8, 1),  # nccl-tests#312
        ("NVIDIA H800", "all_reduce", 161, 16, 2),  # nccl-tests#153: above NICs of 100
        ("NVIDIA A100-SXM4-80GB", "all_reduce", 192, 16, 2),  # nccl#1576
        ("NVIDIA GB200", "all_reduce", 900, 72, 18),
        ("NVIDIA GB300", "all_reduce", 1400, 72, 18),
        ("NVIDIA B200", "all_reduce", 840, 8, 1),
        ("AMD Instinct MI300X", "all_reduce", 310, 8, 1),
        ("NVIDIA A10G", "all_gather", 22, 4, 1),
    ],
)
def test_fast_and_healthy_figures_are_let_through(name, collective, rate, ranks, hosts) -> None:
    told = record(bus(collective, rate, ranks), ranks=ranks, hosts=hosts, name=name)
    assert find(told, fabric_of(told.run)) == []


@pytest.mark.parametrize(
    ("name", "collective", "rate", "ranks", "hosts"),
    [
        ("NVIDIA A100-SXM4-80GB", "all_reduce", 2 * 230, 8, 1),  # both directions added, as in FlagPerf's pull 548
        ("Tesla V100-SXM2-32GB", "all_reduce", 8 * 120, 8, 1),  # the bytes of all ranks, as in rccl's pull 26
        ("NVIDIA GB200", "all_reduce", 3600, 72, 18),  # both ways
        ("NVIDIA GB200", "all_gather", 950, 72, 18),
        ("NVIDIA A10", "all_gather", 100, 4, 1),  # a board without NVLink
        ("NVIDIA L40S", "all_gather", 50, 4, 1),
        ("NVIDIA GeForce RTX 4090", "all_reduce", 200, 8, 1),
        ("AMD Instinct MI300X", "all_reduce", 4000, 8, 1),
    ],
)
def test_figures_above_the_links_of_a_name_are_marked(name, collective, rate, ranks, hosts) -> None:
    told = record(bus(collective, rate, ranks), ranks=ranks, hosts=hosts, name=name)
    assert len(find(told, fabric_of(told.run))) == 1


def test_a_rate_that_is_a_sum_over_eight_ranks_may_be_in_gbits_too() -> None:
    right = row(0, 1 << 30, (1 << 30) / 70 / 1e3)
    wrong = replace(right, algbw_GBps=right.algbw_GBps * 8, busbw_GBps=right.busbw_GBps * 8)
    told = record(wrong, name="Tesla V100-SXM2-32GB")
    assert "or the rate is the sum over all ranks" in find(told, fabric_of(told.run))[0].reason


def test_a_message_between_hosts_takes_longer_than_one_over_nvlink() -> None:
    # One rank a host: adapters take half a microsecond, NVLink a third of one.
    one = row(0, 8, 0.4, ranks=2)
    assert len(find(record(one, ranks=2, hosts=2), None)) == 1
    assert find(record(one, ranks=2, hosts=1), None) == []


def test_beyond_a_rack_a_gpu_has_more_than_its_nvlinks() -> None:
    for ranks, count in ((72, 1), (144, 0)):
        told = record(bus("all_gather", 930, ranks), ranks=ranks, hosts=ranks // 4, name="NVIDIA GB200")
        assert len(find(told, fabric_of(told.run))) == count


def said(case: Case, **changed) -> str:
    [found] = find(record(case, **changed), H100)
    return found.reason


def test_gib_and_gb_that_are_mixed_are_told() -> None:
    right = row(0, 1 << 30, (1 << 30) / 700 / 1e3, "all_gather")
    for off in (1.024**3, 1.024**-3):
        mixed = replace(right, algbw_GBps=right.algbw_GBps * off, busbw_GBps=right.busbw_GBps * off)
        assert said(mixed) == "wrong unit: GB (1e9 bytes) and GiB (2^30 bytes) are mixed in the size and the rate"
    # 12 % off is no such mixture.
    off = replace(right, algbw_GBps=right.algbw_GBps * 1.12, busbw_GBps=right.busbw_GBps * 1.12)
    assert said(off).startswith("wrong count: size over time gives")


def test_eight_gpus_behind_pcie_at_175_are_told_both_ways() -> None:
    # 175 GB/s of 8 x A10G, whose PCIe carries 31.5.
    case = row(0, 1 << 30, (1 << 30) / 100 / 1e3)
    cloud = record(case, name="NVIDIA A10G")
    [found] = find(cloud, fabric_of(cloud.run))
    assert "is more than the 31.51 GB/s that all_reduce on 8 ranks can reach" in found.limit
    assert found.reason == (
        "wrong unit: Gbit/s were read as GB/s, or the rate was summed over the ranks, or the size of all ranks was "
        "taken where each has a part of it"
    )
    true = record(row(0, 1 << 30, (1 << 30) / 13 / 1e3), name="NVIDIA A10G")
    assert find(true, fabric_of(true.run)) == []


def test_a_sum_over_sixteen_ranks_is_no_sum_of_bits() -> None:
    case = row(0, 1 << 30, (1 << 30) / (31.5 * 12) / 1e3, "all_gather", ranks=16)
    cloud = record(case, ranks=16, name="NVIDIA A10G")
    [found] = find(cloud, fabric_of(cloud.run))
    assert found.reason.startswith("wrong count: the rate was summed over the ranks")


def test_two_ranks_behind_pcie_have_both_directions_added_and_no_sum() -> None:
    cloud = record(row(0, 1 << 30, (1 << 30) / 55 / 1e3, ranks=2), ranks=2, name="NVIDIA A10G")
    [found] = find(cloud, fabric_of(cloud.run))
    assert (
        found.reason.startswith("wrong count: both directions were added up") and "over the ranks" not in found.reason
    )
