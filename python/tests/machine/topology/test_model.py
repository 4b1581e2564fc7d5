"""Machines as values: bus ids, rates and pairs."""

from __future__ import annotations

import pytest

from busbw.machine.topology.model import (
    SWITCH,
    Connection,
    Gpu,
    Machine,
    NvLinks,
    PathType,
    normal_bus_id,
    with_generation,
)
from busbw.machine.topology.rates import nccl_nvlink_GBps, pcie_GBps, pcie_generation


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("00000001:00:00.0", "0001:00:00.0"),
        ("0001:00:00.0", "0001:00:00.0"),
        ("65:00.0", "0000:65:00.0"),
        ("0000:00:06", "0000:00:06.0"),
        ("FFFFFFF:FF:FF.0", "fffffff:ff:ff.0"),
        ("not a bus", "not a bus"),
    ],
)
def test_a_bus_id_has_one_form_however_a_tool_wrote_it(written: str, normal: str) -> None:
    assert normal_bus_id(written) == normal


def test_twelve_nvlinks_of_an_a100_carry_300_GBps() -> None:
    gpu = with_generation(Gpu(0, sm=80, nvlinks=(NvLinks("0002:00:00.0", 12),)))
    assert gpu.nvlink_GBps == 300.0


def test_a_gpu_whose_generation_is_unknown_has_no_rate_rather_than_a_guess() -> None:
    assert Gpu(0, nvlinks=(NvLinks(SWITCH, 18),)).nvlink_GBps is None


def test_pcie_4_by_16_carries_31_5_GBps_and_unknown_links_nothing() -> None:
    assert pcie_GBps(4, 16) == pytest.approx(31.5, abs=0.02)
    assert pcie_GBps(4, 0) is None and pcie_GBps(None, 16) is None and pcie_GBps(9, 16) is None
    assert pcie_generation(16.0) == 4 and pcie_generation(7.0) is None


def test_what_nccl_counts_on_per_link_follows_the_compute_capability() -> None:
    assert [nccl_nvlink_GBps(sm) for sm in (60, 70, 80, 86, 89, 90, 103, 50, None)] == [
        18.0, 20.0, 20.0, 12.0, 12.0, 20.6, 40.1, None, None,
    ]  # fmt: skip


def test_a_machine_is_all_nvlink_only_when_every_pair_is() -> None:
    gpus = (Gpu(0), Gpu(1), Gpu(2))
    pairs = [Connection("GPU0", "GPU1", PathType.NVLINK, 12), Connection("GPU2", "GPU0", PathType.NVLINK, 12)]
    assert not Machine("test", gpus=gpus, connections=tuple(pairs)).all_nvlink
    pairs.append(Connection("GPU1", "GPU2", PathType.NVLINK, 12))
    machine = Machine("test", gpus=gpus, connections=tuple(pairs))
    assert machine.all_nvlink
    between = machine.between("GPU0", "GPU2")
    assert between is not None and between.text == "NV12"
