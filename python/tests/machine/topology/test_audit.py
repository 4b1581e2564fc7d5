"""What a hypervisor hides, and the machine put right from lspci and a measurement of pairs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.base.errors import UserError
from busbw.machine.nccl.topology_file import read_topology
from busbw.machine.nccl.topology_writer import write_topology
from busbw.machine.topology.audit import hidden
from busbw.machine.topology.correct import correct
from busbw.machine.topology.lspci import read_lspci
from busbw.machine.topology.model import SWITCH, Bridge, Gpu, Machine, Nic, NvLinks, PathType, PcieLink
from busbw.machine.topology.pairs import read_pairs, refuse_impossible
from busbw.machine.topology.paths import connections
from busbw.machine.topology.smi_matrix import read_matrix

MATRIX = """\
\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV18\tSYS\tSYS\t0-3\t0
GPU1\tNV18\t X \tSYS\tSYS\t4-7\t1
NIC0\tSYS\tSYS\t X \tSYS
NIC1\tSYS\tSYS\tSYS\t X

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_1
"""
LSPCI = "".join(
    f"{bus} {kind}\n\tNUMA node: {numa}\n\tLnkCap:\tPort #0, Speed 32GT/s, Width x16\n"
    for bus, kind, numa in (
        ("0001:00:00.0", "3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB]", 0),
        ("0002:00:00.0", "3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB]", 1),
        ("0101:00:00.0", "Infiniband controller: Mellanox Technologies MT2910 [ConnectX-7]", 0),
        ("0102:00:00.0", "Infiniband controller: Mellanox Technologies MT2910 [ConnectX-7]", 1),
    )
)
PAIRS = """\
# GPU NIC GB/s
GPU0 mlx5_0 48.1
GPU0 mlx5_1 21.0
GPU1 mlx5_0 20.2
GPU1,mlx5_1,48.0 GB/s
0101:00:00.0 mlx5_0 (MT4129 - NA) fw 28.39 port 1 (ACTIVE)
0102:00:00.0 mlx5_1 (MT4129 - NA) fw 28.39 port 1 (ACTIVE)
"""


def matrix() -> Machine:
    return read_matrix(MATRIX, "matrix.txt")


def said(machine: Machine) -> str:
    return "\n".join(each.text for each in hidden(machine))


def whole() -> Machine:
    gpus = tuple(
        Gpu(i, f"000{i + 1}:00:00.0", "NVIDIA H100 80GB HBM3", 90, numa=i, pcie=PcieLink(5, 16),
            bridges=(f"pci{i}", f"000{i + 1}:01:00.0"), nvlinks=(NvLinks(SWITCH, 18),))
        for i in range(2)
    )  # fmt: skip
    nics = tuple(
        Nic(f"mlx5_{i}", f"010{i}:00:00.0", 400.0, rdma=True, numa=i, pcie=PcieLink(5, 16),
            bridges=(f"pci{i}", f"000{i + 1}:01:00.0"))
        for i in range(2)
    )  # fmt: skip
    return Machine("this machine", gpus, nics, connections=connections(gpus, nics))


def test_a_machine_that_shows_everything_hides_nothing() -> None:
    assert hidden(whole()) == ()


def test_a_file_without_a_gpu_says_what_it_lacks_and_makes_no_file() -> None:
    """AWS ships the switches of p5.48xlarge alone: nothing of its GPUs can be said to be in order."""
    switch = b'<pci busid="0000:45:00.0"><pci busid="0000:4f:00.0"/></pci>'
    data = b'<system version="1"><cpu numaid="0">' + switch + b"</cpu></system>"
    bare = read_topology(data, "p5.xml").machine
    assert said(bare).startswith("no GPU, no NIC and no NVLink is shown") and "NCCL_TOPO_DUMP_FILE" in said(bare)
    with pytest.raises(UserError, match="shows no GPU, so there is nothing to put right"):
        correct(bare, (), None)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"nvlinks": (), "nvlinks_to_itself": 18}, "NVLinks of GPU0, GPU1 end in the GPU itself"),
        ({"nvlinks": ()}, "no NVLink is shown of GPU0, GPU1"),
        ({"pcie": PcieLink()}, "the PCIe links of GPU0, GPU1 are not shown"),
        ({"gdr": False}, "gdr=0 is marked of GPU0, GPU1"),
        ({"numa": None}, "the NUMA nodes of GPU0, GPU1 are not shown"),
        ({"bus_id": None}, "the bus ids of GPU0, GPU1 are not shown"),
    ],
)
def test_each_thing_that_is_hidden_is_named(change: dict[str, object], says: str) -> None:
    machine = whole()
    assert says in said(replace(machine, gpus=tuple(replace(gpu, **change) for gpu in machine.gpus)))  # type: ignore[arg-type]


GRACE = """\
\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV18\tNODE\tNODE\t0-71\t0\tN/A
GPU1\tNV18\t X \tNODE\tNODE\t0-71\t0\tN/A
NIC0\tNODE\tNODE\t X \tNODE
NIC1\tNODE\tNODE\tNODE\t X

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_1
"""


@pytest.mark.parametrize("name", ["NVIDIA GB200", "NVIDIA GH200 480GB", "NVIDIA GB300"])
def test_gpus_that_c2c_joins_with_their_processor_are_near_its_nics(name: str) -> None:
    machine = read_matrix(GRACE, "m")
    # Without a name it cannot be told from a machine that hides its switches.
    assert "On GH200, GB200 and GB300 nothing is amiss" in said(machine)
    assert "near any NIC" not in said(replace(machine, gpus=tuple(replace(gpu, name=name) for gpu in machine.gpus)))
    known = said(replace(machine, gpus=tuple(replace(gpu, name="NVIDIA H100") for gpu in machine.gpus)))
    assert "near any NIC" in known and "amiss" not in known
    # NUMA nodes of GPUs' memory exist on Grace alone, and NCCL writes <c2c> into its file.
    assert "near any NIC" not in said(read_matrix(GRACE.replace("\t0\tN/A", "\t0,2-17\tN/A"), "m"))
    data = b'<system version="1"><cpu numaid="0"><pci busid="0008:01:00.0" class="0x030200"><gpu dev="0" sm="100">'
    data += b'<c2c bw="44712" count="1"/></gpu></pci></cpu></system>'
    assert read_topology(data, "t").machine.gpus[0].c2c


def test_one_gpu_with_fewer_links_and_a_hypervisors_bridge_are_named() -> None:
    machine = whole()
    weak = replace(machine.gpus[1], nvlinks=(NvLinks(SWITCH, 16),))
    assert "GPU1 shows fewer NVLinks (16) than others (18)" in said(replace(machine, gpus=(machine.gpus[0], weak)))
    slow = replace(machine, bridges=(Bridge("0000:00:02.0", PcieLink(1, 1)),))
    assert "the bridges 0000:00:02.0 say generation 1 x1" in said(slow)


def test_a_matrix_with_lspci_and_pairs_becomes_a_file_that_nccl_reads() -> None:
    fixed = correct(matrix(), read_lspci(LSPCI, "lspci"), read_pairs(PAIRS, "pairs"))
    file = read_topology(write_topology(fixed.machine).encode(), "corrected")
    assert file.problems == ()
    assert {(gpu.bus_id, gpu.numa, gpu.pcie) for gpu in file.machine.gpus} == {
        ("0001:00:00.0", 0, PcieLink(5, 16)), ("0002:00:00.0", 1, PcieLink(5, 16)),
    }  # fmt: skip
    paths = {(p.a, p.b): p.path for p in file.machine.connections}
    assert paths["GPU0", "mlx5_0"] is paths["GPU1", "mlx5_1"] is PathType.PIX
    assert paths["GPU0", "mlx5_1"] is paths["GPU1", "mlx5_0"] is PathType.SYS
    assert any("mlx5_0 below one switch with GPU0: as measured" in note for note in fixed.notes)


def test_a_measurement_that_does_not_tell_near_from_far_places_nothing() -> None:
    flat = PAIRS.replace("21.0", "47.0").replace("20.2", "47.5")
    fixed = correct(matrix(), read_lspci(LSPCI, "lspci"), read_pairs(flat, "pairs"))
    assert not fixed.machine.bridges and not any("below one switch" in note for note in fixed.notes)


@pytest.mark.parametrize(("pci", "pairs"), [("", ""), (LSPCI, ""), ("", PAIRS)])
def test_without_bus_ids_there_is_no_file(pci: str, pairs: str) -> None:
    with pytest.raises(UserError, match="nothing is invented"):
        correct(matrix(), read_lspci(pci, "l") if pci else (), read_pairs(pairs, "p") if pairs else None)


def test_lspci_of_another_machine_is_refused() -> None:
    with pytest.raises(UserError, match="2 GPUs, lspci 1"):
        correct(matrix(), read_lspci(LSPCI.splitlines()[0], "lspci"), read_pairs(PAIRS, "pairs"))


def hidden_pairs() -> Machine:
    """Four GPUs in two bridged pairs, as Azure's file of NC96ads_A100_v4 draws them."""
    gpus = tuple(
        Gpu(i, f"000{i + 1}:00:00.0", sm=80, numa=i, nvlinks_to_itself=12, pcie=PcieLink(4, 16)) for i in range(4)
    )
    return Machine("ncv4-topo.xml", gpus, connections=connections(gpus, ()))


def test_links_that_a_hypervisor_hid_are_found_by_measuring_pairs() -> None:
    rates = {(a, b): 230.0 if a // 2 == b // 2 else 19.5 for a in range(4) for b in range(a)}
    text = "\n".join(f"GPU{a} GPU{b} {rate}" for (a, b), rate in rates.items())
    fixed = correct(hidden_pairs(), (), read_pairs(text, "pairs"))
    file = read_topology(write_topology(fixed.machine).encode(), "corrected")
    assert file.problems == ()
    joined = {(p.a, p.b): p.text for p in file.machine.connections if p.path is PathType.NVLINK}
    assert joined == {("GPU0", "GPU1"): "NV12", ("GPU2", "GPU3"): "NV12"}


def test_with_a_pair_missing_links_stay_unknown() -> None:
    fixed = correct(hidden_pairs(), (), read_pairs("GPU0 GPU1 230", "pairs"))
    assert not any(gpu.nvlinks for gpu in fixed.machine.gpus)
    assert not fixed.notes and "lacks 5 of 6 pairs of GPUs, such as GPU0 GPU2" in fixed.left[0]
    # What the file no longer says is said, and stays hidden.
    assert "leaves out the NVLinks of GPU0, GPU1, GPU2, GPU3" in fixed.left[1]
    assert "end in the GPU itself" in said(fixed.machine)


def test_where_no_pair_is_faster_links_are_not_dropped_without_a_word() -> None:
    text = "\n".join(f"GPU{a} GPU{b} 18" for a in range(4) for b in range(a))
    fixed = correct(hidden_pairs(), (), read_pairs(text, "pairs"))
    assert "no pair of theirs moves 27 GB/s, as over NVLink (pairs)" in fixed.left[0]
    assert "end in the GPU itself" in said(fixed.machine) and not fixed.notes


@pytest.mark.parametrize(
    ("machine", "text", "says"),
    [
        (
            hidden_pairs(),
            "GPU0 GPU1 1840\nGPU0 GPU2 144",
            "p: GPU0 GPU1 1840 GB/s is more than GPU0 can move .*300 GB/s",
        ),
        (whole(), "GPU0 mlx5_0 400", r"is more than mlx5_0 can move in one direction \(50 GB/s\)"),
        (matrix(), "GPU0 mlx5_0 392", r"mlx5_0 can move in one direction \(121 GB/s\)"),
        (matrix(), "GPU0 GPU1 3600", r"\(900 GB/s\); are those Gbit/s"),
    ],
)
def test_a_rate_above_the_line_rate_is_refused(machine: Machine, text: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        refuse_impossible(read_pairs(text, "p"), machine.gpus, machine.nics)
    refuse_impossible(read_pairs("GPU0 GPU1 230\nGPU0 mlx5_0 48", "p"), machine.gpus, machine.nics)


def test_what_is_shown_is_no_repair() -> None:
    fixed = correct(replace(whole(), gpus=tuple(replace(gpu, gdr=False) for gpu in whole().gpus)), (), None)
    assert fixed.notes == ("gdr=0 is left out of the file: NCCL asks the driver",) and fixed.left == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "holds no measured pair"),
        ("GPU0 mlx5_0", "p:1: no pair"),
        ("GPU0 GPU0 12", "paired with itself"),
        ("GPU0 GPU1 -3", "no pair"),
    ],
)
def test_pairs_that_are_none_are_a_sentence(text: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        read_pairs(text, "p")
