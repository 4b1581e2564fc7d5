"""Processors next to GPUs are read from what machines say, contradictions included, and come out as masks."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busbw.base.errors import UserError
from busbw.launch.affinity import Near, cpu_sets, from_smi, from_sysfs, from_xml, read_file
from busbw.launch.binding import mask
from busbw.machine.topology.cpulist import write_list

SHARED = Path(__file__).resolve().parents[4] / "shared"
REFERENCE = Path(os.environ.get("BUSBW_REFERENCE", SHARED / "reference"))
TOPOLOGY = Path(os.environ.get("BUSBW_TOPOLOGY", SHARED / "topology"))

MATRIX = """\
\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV12\tSYS\t0-3,8\t0\t\tN/A
GPU1\tNV12\t X \tSYS\t4-7\t1\t\tN/A
NIC0\tSYS\tSYS\t X \t\t

Legend:

  X    = Self
"""
XML = """\
<system version="1">
 <cpu numaid="1" affinity="000000f0"><pci busid="0000:05:00.0" class="0x030200"><gpu dev="1"/></pci></cpu>
 <cpu numaid="0" affinity="0000000f"><pci busid="0000:02:00.0" class="0x060400">
  <pci busid="0000:03:00.0" class="0x030200"><gpu dev="0"/></pci></pci></cpu>
</system>
"""


def test_the_matrix_gives_processors_and_nodes_of_memory_of_each_gpu() -> None:
    assert from_smi(MATRIX) == [
        Near(frozenset({0, 1, 2, 3, 8}), frozenset({0})),
        Near(frozenset({4, 5, 6, 7}), frozenset({1})),
    ]


def test_the_xml_gives_them_in_the_order_of_their_bus_ids() -> None:
    near = from_xml(XML.encode(), "topo.xml")
    assert [write_list(each.cpus) for each in near] == ["0-3", "4-7"]


def test_gpus_of_one_place_share_its_processors_in_equal_parts() -> None:
    near = [Near(frozenset(range(24)), frozenset({0}))] * 2 + [Near(frozenset(range(24, 48)), frozenset({1}))]
    assert [write_list(cpus) for cpus in cpu_sets(near, 3, 48)] == ["0-11", "12-23", "24-47"]


def test_gpus_that_are_near_to_nothing_share_everything() -> None:
    assert [write_list(cpus) for cpus in cpu_sets([Near()] * 4, 4, 64)] == ["0-15", "16-31", "32-47", "48-63"]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 16), st.integers(1, 64), st.integers(1, 256))
def test_whatever_a_machine_says_every_rank_gets_a_processor(gpus: int, ranks: int, cpus: int) -> None:
    near = [Near(frozenset({0}), frozenset(range(gpus)))] * gpus
    assert all(cpu_sets(near, ranks, cpus))


@pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference pages are not on this machine")
@pytest.mark.parametrize("gpus", [4, 2])
def test_the_masks_of_azures_ncv4_machines_are_those_of_the_reference_page(gpus: int) -> None:
    page = (REFERENCE / "ncv4-slurm-nccl.md").read_text()
    matrix = next(
        block
        for block in re.findall(r"nvidia-smi topo -m\n(.*?)```", page, re.DOTALL)
        if f"GPU{gpus - 1} " in block and f"GPU{gpus} " not in block
    )
    published = next(each for each in re.findall(r"PIN_MASK='(.*?)'", page) if each.count(",") == gpus - 1)
    node = page[: page.index(f"Gres=gpu:{gpus}")].rindex("CPUTot=")
    total = int(re.match(r"CPUTot=(\d+)", page[node:])[1])  # type: ignore[index]
    assert ",".join(mask(cpus) for cpus in cpu_sets(from_smi(matrix), gpus, total)) == published


@pytest.mark.skipif(not TOPOLOGY.is_dir(), reason="the topology files are not on this machine")
def test_nccls_topology_of_an_nc48v4_gives_the_same_masks_as_its_matrix() -> None:
    near = read_file(TOPOLOGY / "nc48v4-topo.xml")
    assert [mask(cpus) for cpus in cpu_sets(near, 2, 48)] == ["0xffffff", "0xffffff000000"]


@pytest.mark.skipif(not TOPOLOGY.is_dir(), reason="the topology files are not on this machine")
def test_the_eight_gpus_of_an_ndv4_lie_two_by_two_in_the_order_of_their_bus_ids() -> None:
    sets = cpu_sets(read_file(TOPOLOGY / "ndv4-topo.xml"), 8, 96)
    assert [write_list(cpus) for cpus in sets] == [
        *("24-35", "36-47", "0-11", "12-23", "72-83", "84-95", "48-59", "60-71"),
    ]


def test_sysfs_shows_nvidias_gpus_only(tmp_path: Path) -> None:
    for bus, vendor, kind, cpus in (
        ("0001:00:00.0", "0x10de", "0x030200", "0-3"),
        ("0000:00:00.0", "0x10de", "0x068000", "0-3"),
        ("0000:01:00.0", "0x1234", "0x030000", "0-3"),
    ):
        folder = tmp_path / bus
        folder.mkdir()
        for name, text in (("vendor", vendor), ("class", kind), ("local_cpulist", cpus), ("numa_node", "-1")):
            (folder / name).write_text(text + "\n")
    assert from_sysfs(tmp_path) == [Near(frozenset({0, 1, 2, 3}), frozenset())]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('<!DOCTYPE a [<!ENTITY b "c">]><system>&b;</system>', "topo"),
        ("<system>" + "<pci>" * 10000, "topo"),
        ("<system", "topo"),
        ("nothing", "names no GPU"),
    ],
)
def test_what_is_no_topology_is_one_sentence(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "topo"
    path.write_text(text)
    with pytest.raises(UserError, match=why):
        read_file(path)


@given(st.frozensets(st.integers(0, 300), min_size=1))
def test_a_mask_has_a_bit_for_each_processor(cpus: frozenset[int]) -> None:
    assert max(cpus) == int(mask(cpus), 16).bit_length() - 1
    assert int(mask(cpus), 16).bit_count() == len(cpus)
