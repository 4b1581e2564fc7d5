"""Tables over hosts whose network nobody names: what one port, four ports or the NICs of an NVLink domain carry."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.doctor.finding import Severity
from busbw.doctor.reading.snapshot import Snapshot
from busbw.records import Record

from .cases import rail_record
from .test_findings import found

ONE, FEW, ENOUGH = Severity.WARNING, Severity.NOTE, None


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (rail_record(), ONE),
        (rail_record(60.5), FEW),
        (rail_record(199.0), FEW),
        (rail_record(201.0), ENOUGH),
        (rail_record(gpus=4), ENOUGH),
        (rail_record(hosts=1), ENOUGH),
        (rail_record(14.0, name="NVIDIA A100-SXM4-80GB"), ONE),
        (rail_record(name="NVIDIA A100-SXM4-80GB"), FEW),
        (rail_record(51.0, name="NVIDIA A100-SXM4-80GB"), ENOUGH),
        (rail_record(name="NVIDIA H100 PCIe"), ENOUGH),
    ],
    ids=[
        "one port", "more than a port", "four ports", "more than four", "four GPUs", "one host", "A100: one port",
        "A100: four ports", "A100: more than four", "no SXM",
    ],
)  # fmt: skip
def test_one_port_of_many_is_told_for_large_hosts_alone(record: Record, told: Severity | None) -> None:
    assert [each.severity for each in found(Snapshot("files"), "one-rail", (record,))] == [told] * (told is not None)


@pytest.mark.parametrize(
    ("record", "tells"),
    [
        (rail_record(219.0, 4, "NVIDIA GB200"), True),
        (rail_record(221.0, 4, "NVIDIA GB200"), False),
        (rail_record(430.0, 4, "NVIDIA GB300"), True),
        (rail_record(100.0, 4, "NVIDIA GB200", hosts=18), True),
        (rail_record(100.0, 4, "NVIDIA GB200", hosts=19), False),
        (rail_record(100.0, 4, "NVIDIA GB200", hosts=1), False),
        (rail_record(20.0, 1, "NVIDIA GB200"), False),
        (rail_record(100.0, 4, "NVIDIA H200"), False),
    ],
    ids=["NICs", "more than NICs", "GB300", "a rack", "two racks", "one tray", "one GPU each", "no domain"],
)
def test_hosts_of_one_nvlink_domain_that_talk_by_their_nics_are_told(record: Record, tells: bool) -> None:
    assert bool(found(Snapshot("files"), "nvlink-domain", (record,))) is tells


def test_a_case_that_was_not_measured_says_nothing_of_ports() -> None:
    record = rail_record()
    failed = tuple(replace(each, outcome="failed") for each in record.cases)
    assert found(Snapshot("files"), "one-rail", (replace(record, cases=failed),)) == []


@pytest.mark.parametrize(
    ("record", "collective", "told"),
    [
        (rail_record(1.1), "broadcast", ONE),
        (rail_record(1.1), "sendrecv", ONE),
        (rail_record(30.0), "reduce", FEW),
        (rail_record(340.0), "broadcast", ENOUGH),
        (rail_record(11.5, name="Tesla V100-SXM2-32GB"), "all_reduce", ENOUGH),  # rings over one port of 100 Gb/s
        (rail_record(20.0, name="NVIDIA H20"), "all_reduce", FEW),
        (rail_record(2.2, 1, "NVIDIA GB10"), "all_reduce", FEW),
        (rail_record(20.0, 1, "NVIDIA GB10"), "all_reduce", ENOUGH),
        (rail_record(), "all_reduce", ENOUGH),  # told by its ports
        (rail_record(3.0, name="NVIDIA H100 PCIe"), "all_reduce", ENOUGH),
        (rail_record(2.3, 4, "NVIDIA A100 80GB PCIe", hosts=1), "all_reduce", FEW),
        (rail_record(3.5, 4, "NVIDIA GeForce RTX 3090", hosts=1), "all_reduce", ENOUGH),
    ],
)
def test_a_table_below_the_slowest_machines_with_its_gpus_is_told(
    record: Record, collective: str, told: Severity | None
) -> None:
    record = replace(record, cases=tuple(replace(each, collective=collective) for each in record.cases))
    assert [each.severity for each in found(Snapshot("files"), "far-below", (record,))] == [told] * (told is not None)
