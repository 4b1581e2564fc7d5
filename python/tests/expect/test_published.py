"""Predictions against tables that others published, machine types of 2026, and NCCL's choice of protocols."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from busbw.base.errors import UserError
from busbw.expect import machines
from busbw.expect.links import NetKind
from busbw.expect.model import predict
from busbw.expect.protocols import Inside, aws_tree_bytes, chosen, ll_between_us, mid_on_ampere_us, round_bytes
from busbw.expect.published import page, read, score
from busbw.expect.question import Prediction, Question
from busbw.expect.terms import general

TABLES = Path(__file__).parent / "published.toml"
POINTS = read(TABLES.read_text(encoding="utf-8"), "published.toml")


def ask(name: str, size: int, collective: str = "all_reduce", nodes: int = 1, gpus: int | None = None) -> Prediction:
    fabric = machines.require(name)
    question = Question(collective, size, gpus or fabric.gpus, nodes)  # type: ignore[arg-type]
    return predict(question, fabric, general(fabric.sm))


def test_tables_that_were_fitted_lie_in_range_and_close() -> None:
    found = score([point for point in POINTS if not point.held_out])
    assert found.points >= 575 and found.inside / found.points >= 0.88
    assert found.width <= 1.4
    assert all(error <= limit for (_, _, error), limit in zip(found.errors, (0.12, 0.08, 0.05), strict=True))


def test_tables_that_were_held_out_lie_in_range_and_close() -> None:
    found = score([point for point in POINTS if point.held_out])
    assert found.points >= 396 and found.inside / found.points >= 0.85
    assert found.width <= 1.4
    assert all(error <= limit for (_, _, error), limit in zip(found.errors, (0.12, 0.08, 0.05), strict=True))


def test_the_page_is_what_the_tool_prints() -> None:
    kept = Path(__file__).resolve().parents[3] / "docs" / "results" / "predictions-others.md"
    assert kept.read_text(encoding="utf-8") == page(POINTS)


def test_eight_hopper_gpus_take_a_ring_of_ll_to_1_mib_and_nvls_from_2_mib_on() -> None:
    # Said of 8 H100 in github.com/NVIDIA/nccl-tests/issues/309, from NCCL's own log.
    for size in (8, 1 << 10, 1 << 16, 1 << 20):
        assert chosen(Inside("all_reduce", size, 8, 90, 370.8), nvls=True) == ("ring", "LL"), size
    for size in (2 << 20, 1 << 24, 1 << 33):
        assert chosen(Inside("all_reduce", size, 8, 90, 370.8), nvls=True) == ("NVLS", "Simple"), size
    assert [ask("ndv5", size).algorithm.value for size in (1 << 20, 2 << 20)] == ["ring", "NVLS"]


def test_nvlink_sharp_takes_larger_pieces_as_messages_grow() -> None:
    # By NCCL's own constants: 16 channels, a piece for each GPU, 16 to 128 KiB each.
    one, two = ([round_bytes(size << 20, 8, nodes) >> 20 for size in (2, 16, 64, 512, 4096)] for nodes in (1, 2))
    assert one == [2, 4, 8, 8, 16] and two == [4, 8, 16, 16, 16]
    # Published of 8 H200 and of 2 x 8 H100.
    for machine, nodes, size, measured in (("ndh200v5", 1, 16, 134.0), ("ndv5", 2, 8, 163.0), ("ndv5", 2, 4, 94.0)):
        time = ask(machine, size << 20, nodes=nodes).time_us
        assert time.low <= measured <= time.high, (machine, size)


def test_slingshot_gives_what_its_sites_say() -> None:
    # CSCS's reference of 2 x 4 GH200, and a study on Polaris.
    for machine, collective, measured in (("alps", "all_reduce", 150.0), ("alps", "sendrecv", 24.0),
                                          ("polaris", "all_gather", 35.76)):  # fmt: skip
        rate = ask(machine, 1 << 30, collective, nodes=2).busbw_GBps
        assert rate.low <= measured <= rate.high, (machine, collective)
    # Short messages take longer than over InfiniBand.
    slow, fast = ask("alps", 1 << 10, nodes=2).time_us, ask("ndv5", 1 << 10, nodes=2).time_us
    assert slow.value > fast.value


def test_no_piece_makes_a_larger_message_faster() -> None:
    for machine in ("ndv5", "p5", "oci-h100", "ndh200v5"):
        for nodes in (1, 2):
            times = [ask(machine, size << 18, nodes=nodes).time_us.value for size in range(1, 64)]
            assert all(late > 0.999 * early for early, late in pairwise(times)), (machine, nodes)


def test_eight_a100_take_ll128_between_ll_and_simple() -> None:
    # NCCL's estimate of 8 A100; LL's share of a ring ends where the time of LL128 is less.
    starts = [
        mid_on_ampere_us(Inside("all_reduce", size, 8, 80, machines.require("ndv4").counted_GBps()))
        for size in (64 << 10, 16 << 20, 8 << 30)
    ]
    assert starts[0] is None and starts[2] is None
    assert starts[1] == pytest.approx(14.0 + 14 * 1.9)
    for measured in (225.5, 260.2, 276.6):  # published of three machines, 16 MiB
        time = ask("ndmv4", 16 << 20).time_us
        assert time.low <= measured <= time.high


def test_a_chain_of_one_way_leaves_ll_after_its_first_hop() -> None:
    for collective in ("broadcast", "reduce"):
        assert ask("ndv4", 1 << 20, collective).protocol == "long"
    assert ask("ndv4", 1 << 20).protocol == "short"


def test_ll_between_nodes_of_a100_moves_no_more_than_nccl_counts_on() -> None:
    assert ll_between_us(22_500_000, 2) == pytest.approx(2000) and ll_between_us(19_000_000, 8) == pytest.approx(2000)
    less, more = (ask("ndv4", size, nodes=2).time_us.value for size in (128 << 10, 256 << 10))
    assert more - less == pytest.approx(ll_between_us(128 << 10, 2))


def test_a_ring_over_many_nodes_starts_later_with_each_of_them() -> None:
    times = [ask("p5", 64 << 20, "all_gather", nodes).time_us.value for nodes in (2, 4, 8, 16, 32)]
    assert times == sorted(times) and times[-1] > 2300  # published: 2690
    step = (
        ask("p5", 1 << 26, "all_gather", 32).time_us.value - ask("p5", 1 << 26, "all_gather", 16).time_us.value
    ) / 16
    assert 60 < step < 90  # seven steps over NVLink and one over EFA
    assert ask("p5", 64 << 20, "all_gather", 2).time_us.value == pytest.approx(310, rel=0.3)


def test_efa_and_tcpxo_have_latencies_of_their_own() -> None:
    times = [ask(name, 8192, nodes=2).time_us.value for name in ("ndv5", "p5", "a3-mega")]
    assert times == sorted(times) and times[1] > 2 * times[0] and times[2] > 1.5 * times[1]
    assert times[1] == pytest.approx(79, rel=0.15)  # published of p5


def test_hosts_of_an_nvlink_domain_are_one_node_and_racks_are_more() -> None:
    tray, rack = ask("gb200-nvl72", 8 << 30), ask("gb200-nvl72", 8 << 30, nodes=18)
    assert rack.busbw_GBps.value > 1.2 * tray.busbw_GBps.value
    assert rack.busbw_GBps.low <= 846 <= rack.busbw_GBps.high  # published of one rack
    two = ask("gb200-nvl72", 8 << 30, nodes=36)
    assert two.question.nodes == 2 and two.busbw_GBps.value <= rack.busbw_GBps.value


def test_a_healthy_b200_is_no_finding() -> None:
    for size, measured in ((1 << 30, 729.0), (8 << 30, 839.8), (1 << 26, 419.5)):
        rate = ask("dgx-b200", size).busbw_GBps
        assert rate.low <= measured <= rate.high


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("p5.48xlarge", "p5"), ("p4d.24xlarge", "p4d"), ("p6-b200.48xlarge", "p6-b200"), ("a3-megagpu-8g", "a3-mega"),
        ("a4-highgpu-8g", "a4"), ("BM.GPU.H100.8", "oci-h100"), ("BM.GPU.GB200.4", "oci-gb200"),
        ("Standard_ND96isr_H200_v5", "ndh200v5"), ("Standard_NC80adis_H100_v5", "nc40v5"),
        ("Standard_ND128isr_NDR_GB200_v6", "gb200-nvl72"), ("dgx-gb300", "gb300-nvl72"),
        ("ND H100 v5", "ndv5"), ("nd_gb200_v6", "gb200-nvl72"), ("NC H100 v5", "nc40v5"), ("DGX H200", "ndh200v5"),
        ("p4de", "p4d"), ("p5en", "p5e"), ("A3 Ultra", "a3-ultra"), ("a4x max", "a4x-max"),
        ("bm.gpu.gb300.4", "oci-gb300"),
    ],
)  # fmt: skip
def test_a_machine_is_known_by_its_providers_name(alias: str, name: str) -> None:
    assert machines.require(alias) == machines.require(name)


@pytest.mark.parametrize(
    ("name", "told", "untold"),
    [
        ("h200", "ndh200v5", "h20?"), ("B200", "dgx-b200", "known are"), ("8xh100", "ndv5", "h200"),
        ("hgx-h100-4", "ndv5", "hgx-a100-4"), ("NVIDIA H100 80GB HBM3", "a3-mega", "mean"),
        ("nvl72", "gb300-nvl72", "mean"),
        ("p7e-gb300.36xlarge", "gb300-nvl72", "gb200"), ("gh200", "--list", "h200-x4"), ("rubin", "--list", "mean"),
        ("ndh100v5x", "ndv5", "known are"), ("a3-meag", "a3-mega?", "--list"),
    ],
)  # fmt: skip
def test_an_unknown_machine_is_refused_with_the_nearest_names_and_never_with_another_number(
    name: str, told: str, untold: str
) -> None:
    with pytest.raises(UserError) as refused:
        machines.require(name)
    said = str(refused.value)
    assert told in said and untold not in said.replace(repr(name), ""), said


def test_trees_over_more_than_two_racks_carry_half_of_those_over_two() -> None:
    two, three = (ask("gb200-nvl72", 16 << 30, nodes=nodes).busbw_GBps.value for nodes in (36, 54))
    assert 0.4 < three / two < 0.6
    many = ask("gb200-nvl72", 16 << 30, nodes=360).busbw_GBps
    assert many.low <= 405 <= many.high  # published of 20 racks


def test_hosts_in_other_domains_speak_over_the_network() -> None:
    fabric = machines.require("a4x-max")
    near, far = (
        predict(Question("all_gather", 1 << 30, 4, 2), replace(fabric, domain=domain), general(fabric.sm))
        for domain in (72, 4)
    )
    assert far.question.nodes == 2 and near.question.nodes == 1
    assert near.busbw_GBps.value > 1.5 * far.busbw_GBps.value
    assert far.time_us.low <= 2633 <= far.time_us.high  # published


def test_an_all_gather_over_hosts_of_a_domain_is_a_ring() -> None:
    for size in (1 << 10, 1 << 26, 1 << 33):
        assert ask("gb200-nvl72", size, "all_gather", 2).algorithm.value == "ring"


def test_gpus_of_a_cube_mesh_reach_three_of_their_peers_by_a_detour() -> None:
    rate = ask("ndv2", 8 << 30, "alltoall").busbw_GBps
    assert rate.low < 16 and 70 < rate.high < 80  # through the host; through GPUs between
    assert ask("ndv2", 8 << 30, "sendrecv").busbw_GBps.high < 25  # one single link
    assert ask("ndv2", 8 << 30).busbw_GBps.value > 110
    quad = ask("ndv2", 8 << 30, "alltoall", gpus=4).busbw_GBps
    assert quad.value > 110 and ask("dgx-2", 8 << 30, "alltoall", gpus=8).busbw_GBps.value > 110


@pytest.mark.parametrize("name", machines.names())
def test_every_machine_type_has_a_figure_for_each_collective(name: str) -> None:
    fabric = machines.require(name)
    for collective in ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast"):
        for nodes in [each for each in ((1, 2) if fabric.nics else (1,)) if each * fabric.gpus > 1]:
            times = [ask(name, size, collective, nodes).time_us for size in (8, 1 << 16, 1 << 20, 1 << 26, 1 << 30)]
            assert [each.value for each in times] == sorted(each.value for each in times), (name, collective, nodes)
            assert all(0 < each.low <= each.value <= each.high for each in times)


def test_networks_are_those_that_providers_name() -> None:
    kinds = {name: machines.require(name).net for name in machines.names()}
    assert kinds["p5"] is kinds["p4d"] is kinds["p6-b200"] is NetKind.EFA
    assert kinds["a3-mega"] is NetKind.TCPXO and kinds["a4"] is kinds["oci-h100"] is NetKind.ROCE
    assert kinds["ndv5"] is NetKind.INFINIBAND and kinds["a3-high"] is NetKind.TCPX


def test_one_process_launches_on_its_gpus_one_after_the_other() -> None:
    for machine, collective, least in (
        ("ndv5", "all_gather", 40.0), ("ndv5", "alltoall", 58.4), ("ndv4", "all_reduce", 30.4),
        ("ndv4", "alltoall", 88.0),
    ):  # fmt: skip
        fabric = machines.require(machine)
        small, large = (
            [
                predict(Question(collective, size, 8, driven=driven), fabric, general(fabric.sm)).time_us  # type: ignore[arg-type]
                for driven in (1, 8)
            ]
            for size in (1024, 1 << 30)
        )
        assert small[0].value < least < small[1].value < least + small[0].value
        assert small[1].low < small[1].value < small[1].high
        assert large[1].value == pytest.approx(large[0].value, rel=0.01)


def test_a_call_as_long_as_its_launches_waits_for_them_in_part() -> None:
    # Published of 8 A100, one process and eight: 103 and 88 us for 4 MiB; 74 and 38 us for 1 MiB.
    fabric = machines.require("ndv4")
    one, eight = (
        predict(Question("all_reduce", 1 << 20, 8, driven=driven), fabric, general(80)).time_us for driven in (8, 1)
    )
    assert max(eight.value, 34.4) * 1.2 < one.value < eight.value + 34.4


def test_p5_takes_trees_of_ll128_as_far_as_the_plugin_of_aws_says() -> None:
    assert [aws_tree_bytes(ranks) >> 20 for ranks in (16, 32, 64, 128, 256, 4096)] == [30, 36, 112, 288, 288, 384]
    assert 36 << 20 < aws_tree_bytes(48) < 112 << 20
    for nodes, size, measured in ((16, 64 << 20, 1412.0), (16, 256 << 20, 3590.0), (32, 256 << 20, 3840.0)):
        time = ask("p5", size, nodes=nodes).time_us
        assert time.low <= measured <= time.high, (nodes, size)  # published; 8 nodes were fitted
    below, above = (ask("p5", size, nodes=16).busbw_GBps.value for size in (288 << 20, 289 << 20))
    assert above > 1.2 * below


def test_racks_are_chains_of_their_gpus_and_efa_is_slowest_from_a100() -> None:
    racks = ask("oci-gb200", 1024, nodes=32).time_us
    assert racks.low <= 197 <= racks.high  # published of two racks
    times = [ask(name, 256, nodes=2).time_us.value for name in ("p6-b200", "p5", "p4d")]
    assert times == sorted(times) and times[2] > 2 * times[1]


def test_older_tcpxo_lies_in_the_range_and_other_networks_stay_narrow() -> None:
    wide, narrow = (ask(name, 1024, "all_gather", nodes=2).time_us for name in ("a3-mega", "a3-ultra"))
    assert wide.low <= 85 and wide.high >= 236 and narrow.high / narrow.low < 1.4


def test_four_hopper_gpus_get_less_of_nvlink_sharp_than_eight() -> None:
    # Each takes the message from the switch and its own part of it besides: 1 + 1/4 of it against 1 + 1/8.
    four, eight = (ask("ndv5", 8 << 30, gpus=gpus).time_us.value for gpus in (4, 8))
    assert four / eight == pytest.approx(1.25 / 1.125, rel=0.01)
    assert four == pytest.approx(35281, rel=0.03)  # published of 4 H100
    assert ask("h200-x4", 1 << 30).time_us.value == pytest.approx(4532, rel=0.03)  # published of 4 H200


def test_rings_over_infiniband_fill_as_nccl_chooses_and_others_as_their_tuner_does() -> None:
    for collective, size, measured in (
        ("all_gather", 4, 139.6), ("all_gather", 16, 201.2), ("reduce_scatter", 64, 489.2),
        ("reduce_scatter", 256, 1013.8),
    ):  # fmt: skip
        time = ask("dgx-b200", size << 20, collective, nodes=2).time_us
        assert time.low <= measured <= time.high, (collective, size)  # published of 2 x 8 B200
    tuned, own = (ask(name, 64 << 20, "all_gather", nodes=2).time_us.value for name in ("a4", "dgx-b200"))
    assert own > 1.4 * tuned


def test_one_or_two_gpus_a_node_get_two_channels_of_each_nic_over_roce() -> None:
    for name, gpus, collective, measured in (
        ("a3-ultra", 1, "all_gather", 131130), ("a3-ultra", 1, "all_reduce", 269388), ("a4", 2, "all_gather", 95074),
    ):  # fmt: skip
        time = ask(name, 8 << 30, collective, nodes=2, gpus=gpus).time_us
        assert time.value == pytest.approx(measured, rel=0.05), (name, gpus)  # published
    # Where two NICs of half the rate serve a GPU, channels do not bound them: one GPU of DGX Spark.
    assert ask("dgx-spark", 16 << 30, "all_gather", nodes=2).time_us.value == pytest.approx(374108, rel=0.03)


def test_one_process_hides_less_of_its_launches_on_a100() -> None:
    fabric = machines.require("ndv4")
    time = predict(Question("all_reduce", 1 << 20, 8, driven=8), fabric, general(80)).time_us
    for measured in (52.8, 66.3, 75.5, 77.2):  # published of four machines
        assert time.low <= measured <= time.high, measured


def test_h800_has_the_nvlinks_of_its_data_sheet() -> None:
    assert machines.require("h800") == machines.require("HGX H800")
    time = ask("hgx-h800", 1 << 30, "broadcast").time_us
    assert time.low <= 6520 <= time.high  # published
    assert ask("hgx-h800", 1 << 30).time_us.value > 2 * ask("ndv5", 1 << 30).time_us.value


def test_bridges_of_h200_nvl_join_four_gpus_and_eight_go_over_pcie() -> None:
    fabric = machines.require("H200 NVL")
    assert (fabric.island, fabric.multicast) == (4, False)
    four, eight = (ask("h200-nvl", 1 << 30, gpus=gpus).busbw_GBps for gpus in (4, 8))
    assert eight.high < 0.25 * four.low


def test_amd_is_refused_by_name() -> None:
    with pytest.raises(UserError, match="GPUs of AMD"):
        machines.require("mi300x")


def test_fewer_nics_than_gpus_are_slower() -> None:
    fabric = machines.require("ndv5")
    half = replace(fabric, nics=4)
    slow, fast = (
        predict(Question("all_reduce", 8 << 30, 8, 4), each, general(90)).busbw_GBps.value for each in (half, fabric)
    )
    assert slow == pytest.approx(fast / 2, rel=0.1)


def test_a_table_that_is_none_is_a_sentence() -> None:
    table = '[[table]]\nsource = "x"\nmachine = "p5"\n'
    for rest in ('rows = "1K"', 'collective = "all_reduce"\ngpus = 8\nnodes = 1\nheld_out = true\nrows = "1K"'):
        with pytest.raises(UserError, match="cannot be read"):
            read(f"{table}{rest}\n", "t")
    with pytest.raises(UserError, match="cannot be read"):
        read("[[table]]\nmachine = 5\n", "t")
