"""Findings about GPUs, links and processors: each is told where it is so, and as grave as it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.doctor.finding import Severity
from busbw.doctor.reading.snapshot import HostState, ProcessState, Snapshot
from busbw.machine.topology.gpu_state import GpuProcess
from busbw.machine.topology.model import PcieLink
from busbw.records import Device

from .cases import CASES, TABLE_HEAD, healthy, host, log, machine, rail_record, said, state, with_gpu
from .test_findings import found


def test_an_idle_gpu_may_lower_its_pcie_generation_but_not_its_width() -> None:
    slow = healthy(machine=machine(pcie=PcieLink(1, 16, 5, 16)))
    assert {each.severity for each in found(slow, "pcie-link")} == {Severity.NOTE}
    busy = replace(slow, gpus=tuple(state(i, slowdowns=(), pstate=0) for i in range(4)))
    assert {each.severity for each in found(busy, "pcie-link")} == {Severity.WARNING}


def test_one_gpu_with_fewer_links_than_the_others_is_named() -> None:
    made = machine()
    short = replace(made.gpus[1], nvlinks=(replace(made.gpus[1].nvlinks[0], count=12),), nvlinks_down=6)
    [finding] = found(healthy(machine=replace(made, gpus=(made.gpus[0], short, *made.gpus[2:]))), "nvlinks-down")
    assert finding.title == "GPU1 has 12 of 18 NVLinks" and finding.cost.factor == pytest.approx(1.5)


def test_links_that_a_product_has_are_none_that_somebody_counted() -> None:
    record = rail_record()
    odd = replace(record.run.ranks[3], device=Device("gpu", 3, "NVIDIA A100-SXM4-80GB"))
    mixed = replace(record, run=replace(record.run, ranks=(*record.run.ranks[:3], odd, *record.run.ranks[4:])))
    assert found(Snapshot("files"), "nvlinks-down", (mixed,)) == []
    assert len(found(Snapshot("files"), "gpu-faults", (mixed,))) == 1
    made = machine()
    other = replace(made.gpus[1], name="NVIDIA A100-SXM4-80GB", nvlinks=(replace(made.gpus[1].nvlinks[0], count=12),))
    beside = replace(made, gpus=(made.gpus[0], other, *made.gpus[2:]))
    assert found(healthy(machine=beside), "nvlinks-down") == []


def test_acs_and_iommu_matter_only_where_transfers_cross_pcie() -> None:
    for name, changed in (("acs", host(acs_redirects=("x",))), ("iommu", host(iommu="translated"))):
        switched = healthy(machine=machine(rdma=False), host=changed)
        assert [each.severity for each in found(switched, name)] == [Severity.NOTE]


@pytest.mark.parametrize(
    ("cpus", "busy", "expected"),
    [((5,), {}, True), (tuple(range(4)), {}, True), (tuple(range(8)), {}, False), (tuple(range(16)), {"3": 1.0}, False),
     (tuple(range(8)), {str(cpu): 0.99 for cpu in range(5)}, True)],
)  # fmt: skip
def test_processors_are_too_few_by_number_or_by_load(
    cpus: tuple[int, ...], busy: dict[str, float], expected: bool
) -> None:
    snapshot = healthy(processes=(ProcessState(1, "busbw", (), cpus),), host=host(busy_cpus=busy))
    findings = found(snapshot, "cpu-binding")
    assert bool(findings) is expected
    assert all(each.proof.unbind for each in findings)


def test_a_small_machine_binds_nobody() -> None:
    small = healthy(processes=(ProcessState(1, "busbw", (), (0, 1)),), host=HostState(online_cpus=(0, 1)))
    assert found(small, "cpu-binding") == []


def test_a_rank_on_one_processor_is_seen_in_a_log() -> None:
    line = "ncclTopoGetCpuAffinity: Affinity for GPU 0 is empty, ignoring. (GPU affinity =  ; CPU affinity = 5)."
    assert len(found(healthy(logs=(log(said(line)),)), "cpu-binding")) == 1
    assert found(healthy(logs=(log(said(line.replace("= 5)", "= 0-63)"))),)), "cpu-binding") == []


def test_a_hidden_process_is_known_by_load_or_memory_and_an_idle_one_is_a_note() -> None:
    assert "cannot be seen" in found(with_gpu(utilisation_percent=60.0), "gpu-busy")[0].title
    assert found(with_gpu(memory_used_MiB=9000.0), "gpu-busy")[0].severity is Severity.WARNING
    idle = with_gpu(processes=(GpuProcess(5, "dcgm", 300.0),))
    assert [each.severity for each in found(idle, "gpu-busy")] == [Severity.NOTE]


def test_low_clocks_and_power_limits() -> None:
    assert "low clock" in found(with_gpu(application_clock_MHz=1000.0), "gpu-throttled")[0].title
    working = with_gpu(slowdowns=(), utilisation_percent=99.0, sm_clock_MHz=600.0)
    assert any("low clock" in each.title for each in found(working, "gpu-throttled"))
    assert found(with_gpu(power_limit_W=400.0), "gpu-throttled")[0].severity is Severity.NOTE


@pytest.mark.parametrize(
    ("changes", "severity"),
    [({"ecc_uncorrected": 2}, "error"), ({"row_remap_failed": True}, "error"), ({"row_remap_pending": True}, "warning"),
     ({"rows_remapped_uncorrected": 1}, "note"), ({"compute_mode": "Prohibited"}, "error")],
)  # fmt: skip
def test_faults_of_a_gpu(changes: dict[str, object], severity: str) -> None:
    assert [each.severity.value for each in found(with_gpu(**changes), "gpu-faults")] == [severity]


def test_unlike_gpus_are_named() -> None:
    made = machine()
    mixed = replace(made, gpus=(replace(made.gpus[0], name="NVIDIA H100 80GB HBM3"), *made.gpus[1:]))
    assert "2 products" in found(healthy(machine=mixed), "gpu-faults")[0].title


def test_a_table_of_many_ranks_over_one_named_nic_is_never_called_health(tmp_path: Path) -> None:
    rank = "n0:7:8 [0] NCCL INFO "
    init = "comm 0x5 rank 0 nranks 16 cudaDev 0 busId 1a000 commId 0x8d - Init "
    lines = [
        f"{rank}NCCL_IB_HCA set by environment to {{}}", f"{rank}NET/IB : Using [0]mlx5_2:1/IB [RO]; OOB e0:10.0.0.1",
        f"{rank}{init}START", f"{rank}Channel 00/0 : 15[d5000] -> 0[1a000] [receive] via NET/IB/0/GDRDMA",
        f"{rank}{init}COMPLETE", TABLE_HEAD,
        " 1073741824  268435456  float  sum  -1  84031  12.78  23.96  0  84746  12.67  23.76  0",
        "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 23.9",
    ]  # fmt: skip
    path = tmp_path / "job.log"
    for names in ("mlx5_2", "^mlx5_9"):
        path.write_text("\n".join(lines).format(names) + "\n")
        # Without a list of its GPUs no table can be judged, whichever NICs are left.
        assert main(["doctor", str(path)]) == 3
    path.write_text("\n".join(lines[:5]).format("^mlx5_9") + "\n")
    assert main(["doctor", str(path)]) == 0


def test_too_little_shared_memory_is_an_error_where_every_pair_needs_it() -> None:
    [mine] = found(replace(CASES["shared-memory"](), environment={"NCCL_P2P_DISABLE": "1"}), "shared-memory")
    assert mine.severity is Severity.ERROR
