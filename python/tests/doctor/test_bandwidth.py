"""Tables whose links nobody knows: what is told of them, and that they are not called healthy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.finding import Severity
from busbw.doctor.reading.snapshot import Snapshot
from busbw.doctor.verdict import Outcome, verdict
from busbw.machine.topology.model import PcieLink
from busbw.records import Device, Rank, Record

from .cases import machine, slow_record
from .test_findings import found


def table(rate: float, gpu: str, gpus: int, hosts: int = 1) -> Record:
    """One size at `rate` GB/s on hosts of equally many GPUs."""
    large = slow_record()
    ranks = tuple(Rank(i, f"box{i // gpus}", device=Device("gpu", i % gpus, gpu)) for i in range(gpus * hosts))
    share = len(ranks) / (2 * (len(ranks) - 1))
    case = replace(large.cases[-1], bytes=128 << 20, ranks=len(ranks), algbw_GBps=rate * share, busbw_GBps=rate,
                   time_us=(128 << 20) / (rate * share) / 1e3)  # fmt: skip
    return replace(large, run=replace(large.run, machine=None, ranks=ranks), cases=(case,))


@pytest.mark.parametrize(
    ("rate", "gpus", "hosts", "named"), [(1.4, 2, 1, True), (2.4, 2, 1, False), (1.4, 1, 2, False)]
)
def test_gpus_of_unknown_links_that_are_slower_than_any_slot_for_them_are_named(
    rate: float, gpus: int, hosts: int, named: bool
) -> None:
    record = table(rate, "NVIDIA GeForce RTX 4090", gpus, hosts)
    findings = found(Snapshot("files"), records=(record,))
    assert [each.name for each in findings] == ["below-expected"] * named
    assert all("less than a slot for a GPU gives" in each.title for each in findings)


def test_a_card_known_by_its_name_may_lie_in_a_slot_of_half_of_its_lanes() -> None:
    assert outcome(7.0, "Tesla T4") == (None, Outcome.HEALTHY)
    # In half of its lanes that is no fault: nothing is accused, and nothing is called healthy.
    assert outcome(2.9, "Tesla T4") == (Severity.NOTE, Outcome.UNKNOWN)
    assert outcome(12.0, "NVIDIA GeForce RTX 5090") == (Severity.NOTE, Outcome.UNKNOWN)
    assert outcome(2.2, "Tesla T4") == (Severity.WARNING, Outcome.FOUND)


def outcome(rate: float, gpu: str) -> tuple[Severity | None, Outcome]:
    facts = gather(Snapshot("files"), (table(rate, gpu, 8),))
    findings = examine(facts)
    return next((each.severity for each in findings), None), verdict(facts, findings).outcome


@pytest.mark.parametrize(
    ("gpu", "gpus", "hosts", "why"),
    [
        ("NVIDIA H100 80GB HBM3", 8, 2, "nothing says which NICs the 2 nodes have"),
        ("AMD Instinct MI300X", 8, 1, "nothing here predicts AMD Instinct MI300X"),
        ("NVIDIA RTX A6000", 8, 1, "nothing is known of the links between 8 x NVIDIA RTX A6000"),
        ("NVIDIA H100 80GB HBM3 MIG 3g.40gb", 2, 1, "nothing is known of the links between 2 x NVIDIA H100"),
    ],
)
def test_a_table_that_nothing_is_expected_of_is_not_called_healthy(
    gpu: str, gpus: int, hosts: int, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"#  Rank {i:2} Group  0 Pid {i + 1} on n{i // gpus} device  {i % gpus} [0x{i % gpus + 1:02x}] {gpu}"
             for i in range(gpus * hosts)]  # fmt: skip
    lines += ["#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong"]
    rate = 100 if hosts > 1 else 20
    figures = f"{(1 << 30) / rate / 1e3:.1f} {rate}.00 {2 * rate - 2 * rate / (gpus * hosts):.2f} 0"
    lines += [f"1073741824 268435456 float sum -1 {figures} {figures}"]
    lines += ["# Out of bounds values : 0 OK"]
    path = tmp_path / "job.log"
    path.write_text("\n".join(lines) + "\n")
    assert main(["doctor", str(path)]) == 3
    said = " ".join(capsys.readouterr().out.split())
    assert "verdict: cannot judge" in said and why in said


@pytest.mark.parametrize(
    ("rate", "gpu", "impossible"),
    [
        (175.0, "NVIDIA A10G", True),
        (24.0, "NVIDIA A10G", False),
        (1500.0, "NVIDIA H100 80GB HBM3", True),
        (480.0, "NVIDIA H100 80GB HBM3", False),
        (400.0, "NVIDIA L40S", True),
        (2500.0, "an accelerator that nobody knows", False),
        (4000.0, "an accelerator that nobody knows", True),
    ],
)
def test_a_table_above_what_links_carry_is_told_and_never_called_healthy(
    rate: float, gpu: str, impossible: bool
) -> None:
    facts = gather(Snapshot("files"), (table(rate, gpu, 8),))
    findings = examine(facts)
    assert ("impossible" in [each.name for each in findings if each.severity is not Severity.NOTE]) is impossible
    if impossible:
        assert verdict(facts, findings).outcome is Outcome.FOUND
        assert f"{rate:g} GB/s is more than" in findings[0].title and findings[0].evidence


def test_links_that_a_topology_hides_make_no_figure_impossible() -> None:
    hidden = machine(gpus=2, links=0, pcie=PcieLink(3, 1, 3, 1))
    record = table(228.0, "NVIDIA A100 80GB PCIe", 2)
    assert [each.name for each in found(Snapshot("files", machine=hidden), records=(record,))] == []
