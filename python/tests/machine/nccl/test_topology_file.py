"""Topology files: the machine in them, the faults they may have, and files written for machines."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busbw.base.errors import UserError
from busbw.machine.nccl.topology_file import read_topology
from busbw.machine.nccl.topology_writer import write_topology
from busbw.machine.nccl.values import link_generation
from busbw.machine.topology.model import (
    SWITCH,
    Gpu,
    Machine,
    Nic,
    NumaNode,
    NvLinks,
    PathType,
    PcieLink,
    with_generation,
)
from busbw.machine.topology.names import AMD, is_interface, is_rdma, other_maker
from busbw.machine.topology.paths import connections

from .samples import topology


def test_a_machine_is_read_with_links_places_and_processors() -> None:
    file = read_topology(topology(gpus=4, links=18, sm=90), "t.xml")
    machine = file.machine
    assert file.problems == () and machine.all_nvlink and machine.nvlinks_per_gpu == 18
    gpu = machine.gpus[1]
    assert (gpu.bus_id, gpu.numa, gpu.cpus[:2], gpu.pcie, gpu.nvlink_GBps) == (
        "0002:00:00.0", 1, (8, 9), PcieLink(4, 16), 450.0,
    )  # fmt: skip
    assert file.lines["0002:00:00.0"] == 3


def test_devices_below_one_switch_are_pix_and_gpus_need_no_gpu_element() -> None:
    data = (
        b'<system version="1"><cpu numaid="0"><pci busid="ffff:ff:01.0" class="0x060400">'
        b'<pci busid="0001:00:00.0" class="0x030200"/><pci busid="0101:00:00.0" class="0x020700"/></pci>'
        b'<pci busid="0002:00:00.0" class="0x030200"/></cpu></system>'
    )
    machine = read_topology(data, "t").machine
    assert [(pair.a, pair.b, pair.path) for pair in machine.connections] == [
        ("GPU0", "GPU1", PathType.PHB), ("GPU0", "0101:00:00.0", PathType.PIX), ("GPU1", "0101:00:00.0", PathType.PHB),
    ]  # fmt: skip
    assert machine.nics[0].rdma and read_topology(data, "t").problems == ()


FINE = topology()


@pytest.mark.parametrize(
    ("data", "says", "fatal"),
    [
        (FINE.replace(b"0002:00", b"0001:00"), "stands there twice, first on line 2", True),
        (FINE.replace(b"0002:00:00.0", b"two"), "is no PCI address", True),
        (FINE.replace(b'dev="1"', b'dev="0"'), "two GPUs have dev 0", True),
        (FINE.replace(b'rank="1"', b'rank="0"'), "two GPUs have rank 0", True),
        (FINE.replace(b'numaid="1"', b'numaid="0"'), "NUMA node 0 stands there twice", True),
        (FINE.replace(b'affinity="ff00"', b'affinity="00ff"'), "share processors", False),
        (FINE.replace(b'affinity="ff"', b'affinity="xyz"'), "is no mask of processors", True),
        (FINE.replace(b"16.0 GT/s PCIe", b"fast"), "it counts on PCIe 3", False),
        (FINE.replace(b'count="12"', b'count="9999999999"'), "is not between 1 and 144", True),
        (FINE.replace(b'version="1"', b'version="3"'), "version is not 1", True),
        (b'<system version="1"/>', "no <cpu>", True),
        (FINE.replace(b'gdr="1"', b'gdr="1" note="' + b"x" * 256 + b'"', 1), "longer than the 255 characters", True),
        (FINE.replace(b'gdr="1"', b'gdr="1" ' + b" ".join(b'a%d=""' % i for i in range(13)), 1), "NCCL takes 16", True),
        (b'<system version="1"><cpu numaid="0">' + b"<nic/>" * 641 + b"</cpu></system>", "NCCL takes 640", True),
    ],
)
def test_every_fault_is_named_with_its_line(data: bytes, says: str, fatal: bool) -> None:
    problems = read_topology(data, "t.xml").problems
    assert any(says in each.text and each.line > 0 and each.fatal is fatal for each in problems), problems


def test_links_that_do_not_come_back_are_a_fault() -> None:
    to_switch = b'target="fffffff:ff:ff.0" count="12" tclass="0x068000"'
    data = FINE.replace(to_switch, b'target="0002:00:00.0" count="12"', 1)
    problems = read_topology(data, "t").problems
    assert any("12 NVLinks from 0001:00:00.0 to 0002:00:00.0, 0 back" in each.text for each in problems)


def test_links_that_end_in_their_own_gpu_join_nothing_and_are_named_with_their_line() -> None:
    to_switch = b'target="fffffff:ff:ff.0" count="12" tclass="0x068000"'
    data = FINE.replace(to_switch, b'target="0001:00:00.0" count="12"', 1)
    file = read_topology(data, "t")
    # NCCL reads Azure's file for NC96ads_A100_v4, which has such: it counts on less, and nothing fails.
    (said,) = (each for each in file.problems if "12 NVLinks of 0001:00:00.0 end in 0001:00:00.0 itself" in each.text)
    assert said.slow and not said.fatal and said.line == 2
    assert file.machine.gpus[0].nvlinks_to_itself == 12 and not file.machine.gpus[0].nvlinks
    assert file.machine.connections[0].path is not PathType.NVLINK


def below_a_bridge(bridge: str, gpu: str = "", net: str = 'name="mlx5_0" guid="0x1" gdr="1"') -> bytes:
    return (
        f'<system version="1"><cpu numaid="0"><pci busid="0000:01:00.0" {bridge}>'
        f'<pci busid="0000:02:00.0" class="0x030200" {gpu}/>'
        f'<pci busid="0000:03:00.0" class="0x020000"><nic><net {net}/></nic></pci></pci></cpu></system>'
    ).encode()


VM_BRIDGE = 'class="0x060400" link_speed="2.5 GT/s PCIe" link_width="1"'
FULL_BRIDGE = 'class="0x060400" link_speed="32 GT/s PCIe" link_width="16"'


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (below_a_bridge(VM_BRIDGE), "generation 1 x1: NCCL counts on 0.25 GB/s"),
        (below_a_bridge(FULL_BRIDGE, 'link_speed="2.5 GT/s" link_width="1"'), "the GPU at 0000:02:00.0 has a link"),
        (below_a_bridge(FULL_BRIDGE, net='name="mlx5_0" guid="0x1" gdr="0"'), 'gdr="0" of mlx5_0'),
        (FINE.replace(b'gdr="1"', b'gdr="0"', 1), 'gdr="0" of the GPU at 0001:00:00.0'),
        (FINE.replace(b'count="12"', b'count="10"', 1), "10 NVLinks of 0001:00:00.0 to the switch, others have 12"),
    ],
)
def test_what_makes_nccl_count_on_less_is_named(data: bytes, says: str) -> None:
    assert [each for each in read_topology(data, "t").problems if each.slow and says in each.text]


@pytest.mark.parametrize(
    "data",
    [
        FINE,
        below_a_bridge(FULL_BRIDGE),
        # AWS: NCCL reads a missing class from /sys, and plugins number their devices from 0.
        below_a_bridge('link_speed="16.0 GT/s PCIe" link_width="16"', net='name="rdmap79s0" guid="0" gdr="1"'),
        b'<system version="1"><cpu numaid="0"><pci busid="0000:00:16.0"/><pci busid="0000:00:17.0"/></cpu></system>',
        # AWS writes "PCIe/s"; NCCL compares the beginning.
        below_a_bridge('link_speed="16 GT/s PCIe/s" link_width="16"', 'link_speed="32 GT/s PCIe/s" link_width="16"'),
        # Sockets never have GPU Direct, whatever number a plugin gives them.
        below_a_bridge(FULL_BRIDGE, net='name="eth1" guid="0x2" gdr="0"'),
        # A bridge to a management interface may be as slow as it likes.
        b'<system version="1"><cpu numaid="0"><pci busid="0000:01:00.0" ' + VM_BRIDGE.encode() + b'><pci '
        b'busid="0000:03:00.0" class="0x020000"><nic><net name="eth0" guid="0x0" gdr="0"/></nic></pci></pci>'
        b"</cpu></system>",
    ],
)  # fmt: skip
def test_files_as_providers_ship_them_have_no_fault(data: bytes) -> None:
    assert read_topology(data, "t").problems == ()


@pytest.mark.parametrize(
    ("text", "counted"),
    [("32 GT/s PCIe", 5), ("32.0 GT/s PCIe", 5), ("16 GT/s", 4), ("16.0 GT/s", 3), ("64 GT/s", 3), ("2.5 GT/s", 1),
     ("32 GT/s PCIe/s", 5)],
)  # fmt: skip
def test_a_speed_counts_by_its_beginning_as_in_nccl(text: str, counted: int) -> None:
    assert link_generation(text)[1] == counted


def test_an_interface_is_no_rdma_device_and_efa_is_one() -> None:
    names = ["mlx5_0", "rdmap79s0", "bnxt_re0", "mlx5_ib0", "mlx5_an0", "eth0", "ens1f0", "bond0"]
    assert [name for name in names if is_rdma(name)] == ["mlx5_0", "rdmap79s0", "bnxt_re0", "mlx5_ib0"]
    assert not any(is_rdma(each) or not is_interface(each) for each in ("eth0", "ens1f0", "bond0", "docker0"))
    # Azure's accelerated networking has a GUID as every mlx5 device, and carries sockets all the same.
    for name in ("eth1", "mlx5_an0"):
        (nic,) = read_topology(below_a_bridge(FULL_BRIDGE, net=f'name="{name}" guid="0x2"'), "t").machine.nics
        assert not nic.rdma


def test_gpus_of_amd_are_named() -> None:
    data = FINE.replace(b'sm="80"', b'gcn="942"')
    assert {gpu.name for gpu in read_topology(data, "t").machine.gpus} == {AMD}


@pytest.mark.parametrize(
    ("vendor", "name", "maker"),
    [
        ("0x1002", AMD, "AMD"), ("0x1D94", "Hygon DCU", "Hygon"),
        ("0x1ed5", "GPU of PCI vendor 0x1ed5", "PCI vendor 0x1ed5"), ("0x10de", None, None), ("", None, None),
    ],
)  # fmt: skip
def test_gpus_of_other_makers_are_named_by_their_vendor(vendor: str, name: str | None, maker: str | None) -> None:
    """Hygon's library is made from RCCL and writes gcn too: it is not AMD's for that."""
    data = below_a_bridge(FULL_BRIDGE, f'vendor="{vendor}"').replace(
        b"/><pci", b'><gpu dev="0" sm="90"' + (b' gcn="942"' if name else b"") + b"/></pci><pci"
    )
    (gpu,) = read_topology(data, "t").machine.gpus
    assert (gpu.name, other_maker(gpu.name)) == (name, maker)
    version_2 = read_topology(data.replace(b'version="1"', b'version="2"'), "t")
    assert any("version is not 1" in each.text for each in version_2.problems) is (name is None)


def test_fifteen_thousand_devices_take_seconds_and_not_hours() -> None:
    devices = "".join(f'<pci busid="{i // 250:04x}:{i % 250:02x}:00.0" class="0x060400"/>' for i in range(15_000))
    cpus = "".join(f'<cpu numaid="{i}" affinity="{i + 1:x}"/>' for i in range(15_000))
    started = time.process_time()
    found = read_topology(f'<system version="1"><cpu numaid="0">{devices}</cpu></system>'.encode(), "t")
    assert any("NCCL takes 640" in each.text for each in found.problems)
    with pytest.raises(UserError, match="15000 processors"):
        read_topology(f'<system version="1">{cpus}</system>'.encode(), "t")
    assert time.process_time() - started < 30


def test_nothing_is_invented_when_a_machine_is_written() -> None:
    gpus = (Gpu(0, "0001:00:00.0", sm=90), Gpu(1, "0002:00:00.0"))
    text = write_topology(Machine("m", gpus, (Nic("mlx5_0", "0101:00:00.0", rdma=True),)))
    assert not [word for word in ("gdr", "rank", "arch", "link_speed", "speed=") if word in text]
    with pytest.raises(UserError, match="at which bus its GPUs lie"):
        write_topology(Machine("matrix.txt", (Gpu(0, sm=90),)))


def test_another_root_is_refused() -> None:
    with pytest.raises(UserError, match="the root is <graphs>"):
        read_topology(b"<graphs/>", "t")


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    numa = draw(st.integers(1, 3))
    gpus = tuple(
        with_generation(
            Gpu(
                i, f"{i + 1:04x}:00:00.0", sm=draw(st.sampled_from([70, 80, 90])), rank=i, numa=i % numa,
                cpus=tuple(range(8 * (i % numa), 8 * (i % numa) + 8)),
                pcie=PcieLink(draw(st.sampled_from([None, 4])), 16),
                bridges=(f"cpu{i % numa}", *(["ffff:ff:%02x.0" % (i % numa)] if draw(st.booleans()) else [])),
                nvlinks=(NvLinks(SWITCH, draw(st.integers(1, 18))),), gdr=True,
            )
        )
        for i in range(draw(st.integers(1, 8)))
    )  # fmt: skip
    nics = tuple(
        Nic(f'mlx5_"{i}"', f"01{i:02x}:00:00.0", 200.0, rdma=True, numa=i % numa, bridges=(f"cpu{i % numa}",), gdr=True)
        for i in range(draw(st.integers(0, 3)))
    )
    used = sorted({numa for numa in (*(g.numa for g in gpus), *(n.numa for n in nics)) if numa is not None})
    nodes = tuple(NumaNode(i, tuple(range(8 * i, 8 * i + 8))) for i in used)
    return Machine("made up", gpus, nics, nodes, connections(gpus, nics))


@settings(max_examples=60, deadline=None)
@given(machines())
def test_what_is_written_is_read_back(machine: Machine) -> None:
    file = read_topology(write_topology(machine).encode(), "t")
    assert not [each for each in file.problems if each.fatal]
    assert {(each.index, each.bus_id, each.sm, each.nvlinks, each.numa, each.cpus) for each in file.machine.gpus} == {
        (each.index, each.bus_id, each.sm, each.nvlinks, each.numa, each.cpus) for each in machine.gpus
    }
    assert {(each.name, each.speed_Gbps, each.rdma) for each in file.machine.nics} == {
        (each.name, each.speed_Gbps, each.rdma) for each in machine.nics
    }
    assert {(frozenset((p.a, p.b)), p.text) for p in file.machine.connections} == {
        (frozenset((p.a, p.b)), p.text) for p in machine.connections
    }


def test_absurd_numbers_of_devices_are_refused_and_many_are_quick() -> None:
    with pytest.raises(UserError, match="in one machine"):
        read_topology(many(600), "t")
    started = time.process_time()
    machine = read_topology(many(300), "t").machine
    assert machine.all_nvlink and len(machine.connections) == 300 * 299 // 2
    assert time.process_time() - started < 10


def many(gpus: int) -> bytes:
    """That many GPUs on one switch, a hundred to a processor."""
    one = (
        '<pci busid="{:04x}:00:00.0" class="0x030200"><gpu dev="{}" sm="90" gdr="1">'
        '<nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/></gpu></pci>'
    )
    cpus = [range(low, min(low + 100, gpus)) for low in range(0, gpus, 100)]
    body = "".join(
        f'<cpu numaid="{n}">' + "".join(one.format(i + 1, i) for i in here) + "</cpu>" for n, here in enumerate(cpus)
    )
    return f'<system version="1">{body}</system>'.encode()
