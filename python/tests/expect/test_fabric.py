"""What fabrics allow: machine types, machines from files, and bus bandwidth by collective and algorithm."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from busbw.base.errors import UserError
from busbw.expect import links, machines
from busbw.expect.bandwidth import Algorithm, algorithms, bus_bandwidth
from busbw.expect.fabric import Fabric, of_machine
from busbw.expect.links import LinkKind, NetKind
from busbw.expect.span import Span, least
from busbw.machine.topology.model import SWITCH, Bridge, Connection, Gpu, Machine, Nic, NvLinks, PathType, PcieLink

SHARED = os.environ.get("BUSBW_SHARED") or Path(__file__).resolve().parents[4] / "shared"
TOPOLOGIES = Path(SHARED) / "topology"
RING = Algorithm.RING


def expect(name, collective="all_reduce", algorithm=RING, gpus=None, nodes=1):
    fabric = machines.require(name)
    return bus_bandwidth(fabric, collective, algorithm, gpus or fabric.gpus, nodes)


def holds(span, value):
    return span.low <= value <= span.high


# Figures that somebody measured; the sources are those of links.py.
@pytest.mark.parametrize(
    ("name", "collective", "gpus", "nodes", "measured"),
    [
        ("ndv4", "all_reduce", 8, 1, 234.15),
        ("ndmv4", "all_gather", 8, 1, 253.59),
        ("ndmv4", "alltoall", 8, 1, 254.69),
        ("nc48v4", "all_reduce", 2, 1, 225.0),
        ("nc96v4", "all_reduce", 4, 1, 30.99),
        ("nc12v3", "all_reduce", 2, 1, 6.88),
        ("h200-x4", "all_reduce", 4, 1, 363.0),
        ("h200-x4", "all_reduce", 2, 1, 332.0),
        ("h200-x4", "reduce_scatter", 4, 1, 328.8),
        ("ndv4", "all_reduce", 8, 2, 187.67),
        ("ndmv4", "all_gather", 8, 2, 186.01),
    ],
)
def test_what_was_measured_at_large_sizes_lies_in_the_expected_range(name, collective, gpus, nodes, measured):
    assert holds(expect(name, collective, gpus=gpus, nodes=nodes), measured)


def test_pairwise_exchange_between_nodes_is_bound_by_each_gpus_share_of_the_nics():
    assert holds(expect("ndmv4", "alltoall", Algorithm.DIRECT, nodes=2), 37.81)


def test_nvlink_sharp_exceeds_the_wire_on_eight_gpus_and_little_on_four():
    eight = expect("ndv5", algorithm=Algorithm.NVLS)
    assert holds(eight, 480.0)
    assert eight.value > machines.require("ndv5").nvlink_GBps
    assert expect("h200-x4", algorithm=Algorithm.NVLS).value < 1.2 * expect("h200-x4").value
    # Published: 681 GB/s on 4 GB300, 843 on 8 B200.
    assert holds(expect("gb300-nvl72", algorithm=Algorithm.NVLS), 681.0)
    assert holds(expect("dgx-b200", algorithm=Algorithm.NVLS), 843.0)


def test_few_channels_bound_a_ring_however_many_links_there_are():
    fabric = replace(machines.require("nc48v4"), channels=4)
    assert holds(bus_bandwidth(fabric, "all_reduce", RING, 2, 1), 57.54)
    hopper = replace(machines.require("h200-x4"), channels=4)
    assert holds(bus_bandwidth(hopper, "all_reduce", RING, 4, 1), 98.0)


def test_two_nodes_are_no_faster_than_one_and_more_are_no_faster_than_two():
    rates = [expect("ndv4", nodes=nodes).value for nodes in (1, 2, 4, 64)]
    assert rates == sorted(rates, reverse=True)


def test_algorithms_are_those_that_nccl_has_for_the_collective():
    hopper, ampere = machines.require("ndv5"), machines.require("ndv4")
    assert algorithms(ampere, "all_reduce", 8, 1, multicast=True) == [RING]
    assert algorithms(ampere, "all_reduce", 8, 2, multicast=True) == [RING, Algorithm.TREE]
    assert Algorithm.NVLS in algorithms(hopper, "all_reduce", 8, 1, multicast=True)
    assert Algorithm.NVLS not in algorithms(hopper, "all_reduce", 8, 1, multicast=False)
    assert algorithms(hopper, "alltoall", 8, 4, multicast=True) == [Algorithm.DIRECT]


def test_a_machine_type_is_found_by_its_vendors_name_and_an_unknown_one_names_the_nearest():
    assert machines.require("Standard_ND96asr_v4") == machines.require("ndv4")
    assert machines.find(None) is None
    with pytest.raises(UserError, match="nearest are Standard_ND96asr_v4"):
        machines.require("Standard_ND96asr_v3")


def test_network_of_a_machine_without_one_is_a_sentence():
    with pytest.raises(UserError, match="--nics"):
        expect("h200-x4", nodes=2)


def gpu(index, target, count):
    return Gpu(index, name="NVIDIA A100-SXM4-80GB", sm=80, nvlinks=(NvLinks(target, count, 3),), pcie=PcieLink(4, 16))


def test_a_machine_with_a_switch_is_one_island():
    nics = tuple(Nic(f"mlx5_{i}", speed_Gbps=200.0, rdma=True, link_layer="InfiniBand", up=True) for i in range(8))
    fabric = of_machine(Machine("test", tuple(gpu(i, SWITCH, 12) for i in range(8)), nics))
    assert (fabric.gpus, fabric.island, fabric.switched, fabric.nics, fabric.nic_Gbps) == (8, 8, True, 8, 200.0)
    assert fabric.nvlink_GBps == 240.0
    assert fabric.link(8) is LinkKind.NVLINK


def test_pairs_of_gpus_are_islands_of_two_and_rings_over_four_cross_the_host():
    gpus = (gpu(0, "1", 12), gpu(1, "0", 12), gpu(2, "3", 12), gpu(3, "2", 12))
    joined = tuple(Connection(f"GPU{a}", f"GPU{b}", PathType.NVLINK, 12) for a, b in ((0, 1), (2, 3)))
    apart = tuple(Connection(f"GPU{a}", f"GPU{b}", PathType.SYS) for a in (0, 1) for b in (2, 3))
    fabric = of_machine(Machine("test", gpus, connections=(*joined, *apart)))
    assert fabric.island == 2
    assert fabric.link(2) is LinkKind.NVLINK
    assert fabric.link(4) is LinkKind.HOST
    assert holds(bus_bandwidth(fabric, "all_reduce", RING, 4, 1), 30.99)


def test_a_nic_that_is_down_or_no_rdma_device_carries_nothing():
    nics = (
        Nic("mlx5_0", speed_Gbps=400.0, rdma=True, link_layer="Ethernet", up=True),
        Nic("mlx5_1", speed_Gbps=400.0, rdma=True, up=False),
        Nic("eth0", speed_Gbps=100.0),
    )
    fabric = of_machine(Machine("test", tuple(gpu(i, SWITCH, 12) for i in range(2)), nics))
    assert (fabric.nics, fabric.net) == (1, NetKind.ROCE)


def test_a_machine_without_gpus_is_refused():
    with pytest.raises(UserError, match="no GPU"):
        of_machine(Machine("topo.xml"))


@pytest.mark.skipif(not TOPOLOGIES.is_dir(), reason="the reference topologies are not here")
def test_the_reference_host_of_four_h200_is_recognised_from_nccls_own_file():
    from busbw.machine.topology.load import load

    fabric = of_machine(load(TOPOLOGIES / "h200-x4-topo.xml").machine)
    assert (fabric.gpus, fabric.sm, fabric.switched) == (4, 90, True)
    assert fabric.nvlink_GBps == pytest.approx(370.8)


def test_gpus_of_which_nothing_is_known_are_no_slow_gpus():
    with pytest.raises(UserError, match="shows 2 GPUs, no NVLinks, and not which GPUs they are"):
        of_machine(Machine("topo.xml", (Gpu(0, pcie=PcieLink(4, 16)), Gpu(1, pcie=PcieLink(4, 16)))))


def test_a_matrix_without_names_is_asked_for_its_gpus_and_never_guessed():
    gpus = tuple(Gpu(i, nvlinks=(NvLinks(SWITCH, 18),)) for i in range(4))
    with pytest.raises(UserError, match="--gpu"):
        of_machine(Machine("matrix.txt", gpus))


def test_gpus_of_amd_are_named_and_refused():
    with pytest.raises(UserError, match="GPUs of AMD"):
        of_machine(Machine("topo.xml", (Gpu(0, name="AMD Instinct MI300X"), Gpu(1, name="AMD Instinct MI300X"))))


def test_a_gpu_with_links_down_slows_the_ring_and_is_expected_whole():
    machine = Machine("test", (gpu(0, SWITCH, 12), gpu(1, SWITCH, 12), gpu(2, SWITCH, 8)))
    assert of_machine(machine).nvlink_GBps == 160.0
    assert of_machine(machine, whole=True).nvlink_GBps == 240.0


def test_ports_of_storage_and_interfaces_carry_no_collective():
    ports = [
        *(Nic(f"mlx5_{i}", speed_Gbps=400.0, rdma=True) for i in range(8)),
        Nic("mlx5_8", speed_Gbps=100.0, rdma=True),
    ]
    fabric = of_machine(
        Machine("test", tuple(gpu(i, SWITCH, 12) for i in range(8)), (*ports, Nic("eth0", speed_Gbps=400.0)))
    )
    assert (fabric.nics, fabric.nic_Gbps) == (8, 400.0)


def test_nics_of_aws_are_efa():
    ports = tuple(Nic(f"rdmap{79 + i}s0", speed_Gbps=100.0, rdma=True) for i in range(32))
    assert of_machine(Machine("test", (gpu(0, SWITCH, 12),), ports)).net is NetKind.EFA


def test_every_share_has_a_source_and_a_range():
    facts = [*links.NVLINK_SHARE.values(), *links.NET_SHARE.values(), *links.CHANNEL_GBPS.values(), links.HOST_SHARE]
    assert all(fact.source and fact.share.low < fact.share.high for fact in facts)
    with pytest.raises(ValueError, match="outside its own range"):
        Span(3, 1, 2)


def test_the_least_of_several_ranges_limits_each_end():
    assert least([Span(5, 1, 9), Span(4, 3, 6)]) == Span(4, 1, 6)


def test_a_fabric_of_which_nothing_is_known_says_so():
    with pytest.raises(UserError, match="neither NVLinks nor PCIe"):
        Fabric("mystery", 4).rate(4)


@pytest.mark.parametrize("name", ["Hygon DCU", "GPU of PCI vendor 0x1ed5"])
def test_gpus_that_nvidia_did_not_make_are_refused_by_their_makers_name(name):
    with pytest.raises(UserError, match=f"GPUs of {name.removeprefix('GPU of ').split()[0]}"):
        of_machine(Machine("topo.xml", (Gpu(0, name=name, sm=90), Gpu(1, name=name, sm=90))))


def with_ports(*rates: float, gdr: bool | None = None, storage: float = 0.0) -> Machine:
    """A GPU with a port beside it for each rate, and perhaps a port beside none."""
    gpus = tuple(replace(gpu(i, SWITCH, 18), sm=90) for i in range(len(rates)))
    nics = [Nic(f"mlx5_{i}", speed_Gbps=rate, rdma=True) for i, rate in enumerate(rates)]
    near = [Connection(f"GPU{i}", f"mlx5_{i}", PathType.PIX) for i in range(len(rates))]
    if storage:
        nics.append(Nic("mlx5_20", speed_Gbps=storage, rdma=True, gdr=gdr))
    return Machine("topo.xml", gpus, tuple(nics), connections=tuple(near))


@pytest.mark.parametrize(
    ("machine", "nics", "rate", "says"),
    [
        (with_ports(400, 400, 400, 400), 4, 400.0, ""),
        (with_ports(400, 200, 400, 400), 4, 200.0, "mlx5_1 (200 Gbit/s), slower than the other ports beside GPUs"),
        (with_ports(180, 180, 180, 400), 4, 180.0, "mlx5_3 (400 Gbit/s) counts as 180 Gbit/s"),
        (with_ports(400, 400, storage=800.0), 2, 400.0, "Left out: mlx5_20 (800 Gbit/s)"),
        (with_ports(400, 400, storage=800.0, gdr=False), 2, 400.0, "Left out: mlx5_20 (800 Gbit/s)"),
    ],
)
def test_ports_of_several_rates_go_at_the_rate_of_the_slowest_beside_a_gpu(machine, nics, rate, says):
    fabric = of_machine(machine)
    assert (fabric.nics, fabric.nic_Gbps) == (nics, rate)
    assert says in " ".join(fabric.net_notes) and bool(says) is bool(fabric.net_notes)


def test_one_card_of_two_rates_does_not_make_the_other_ports_vanish():
    """A card of 100 and 400 Gbit/s beside fifteen ports of 200: they carry most at 200."""
    machine = with_ports(400, *(180.0 for _ in range(7)))
    ports = (*machine.nics, Nic("mlx5_9", speed_Gbps=100.0, rdma=True))
    beside = Connection("GPU0", "mlx5_9", PathType.PIX)
    mixed = replace(machine, nics=ports, connections=(*machine.connections, beside))
    assert (of_machine(mixed).nics, of_machine(mixed).nic_Gbps) == (8, 180.0)
    # Where nothing is known of nearness, it is the rate at which the ports carry most.
    flat = replace(mixed, connections=())
    assert (of_machine(flat).nics, of_machine(flat).nic_Gbps) == (8, 180.0)


def test_a_port_that_fell_back_does_not_lower_what_the_whole_machine_should_reach():
    fabric = of_machine(with_ports(400, 200, 400, 400), whole=True)
    assert (fabric.nics, fabric.nic_Gbps, fabric.net_notes) == (4, 400.0, ())


def test_what_misleads_nccl_is_said_beside_the_figures():
    machine = with_ports(400, 400)
    hidden = replace(machine, gpus=tuple(replace(each, nvlinks=(), nvlinks_to_itself=12) for each in machine.gpus))
    (said,) = of_machine(hidden).notes
    assert said.startswith("NVLinks of GPU0, GPU1 end in the GPU itself") and "do not count these links" in said
    bridged = of_machine(replace(machine, bridges=(Bridge("0000:0d:00.0", PcieLink(1, 1)),)))
    assert "generation 1 x1" in bridged.notes[0] and not bridged.net_notes
    copying = of_machine(replace(machine, nics=tuple(replace(nic, gdr=False) for nic in machine.nics)))
    assert "gdr=0 is marked of" in copying.net_notes[0] and not copying.notes
    assert of_machine(machine).notes == ()


@pytest.mark.parametrize(
    ("name", "gpus", "nics", "gbps", "net"),
    [
        ("BM.GPU.L40S.4", 4, 2, 400.0, NetKind.ROCE),
        ("g6e.48xlarge", 8, 4, 100.0, NetKind.EFA),
        ("BM.GPU.B300.8", 8, 16, 400.0, NetKind.ROCE),
        ("p6e-gb300.36xlarge", 4, 4, 400.0, NetKind.EFA),
        ("perlmutter", 4, 4, 200.0, NetKind.SLINGSHOT),
        ("isambard-ai", 4, 4, 200.0, NetKind.SLINGSHOT),
        ("polaris", 4, 2, 200.0, NetKind.SLINGSHOT),
        ("nc40v5", 2, 0, 0.0, NetKind.INFINIBAND),
    ],
)
def test_machines_have_as_many_gpus_and_ports_as_their_providers_say(name, gpus, nics, gbps, net):
    fabric = machines.require(name)
    assert (fabric.gpus, fabric.nics, fabric.nic_Gbps, fabric.net) == (gpus, nics, gbps, net)
    assert ("no network known" in machines.describe(fabric)) is not bool(nics)
