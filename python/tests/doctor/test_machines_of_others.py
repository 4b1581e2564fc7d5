"""Matrices and listings as others paste them: healthy machines of many shapes, and those that have a fault."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.doctor.reading.inputs import Inputs, read_inputs
from busbw.doctor.reading.snapshot import Snapshot
from busbw.expect.fabric import of_machine
from busbw.machine.topology.rails import rails
from busbw.machine.topology.smi_matrix import read_matrix

from .cases import with_rates
from .test_findings import found

TAIL = "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"


def matrix(*rows: str, head: str = "\t", tail: str = TAIL) -> str:
    """The matrix of cells without their names, as nvidia-smi sets it."""
    names = "\t".join(f"GPU{i}" for i in range(len(rows)))
    lines = ["\t".join([f"GPU{i}", *row.split(), "0-47", "0", "", "N/A"]) for i, row in enumerate(rows)]
    return f"{head}{names}{tail}\n" + "\n".join(lines) + "\n"


LINKS = "".join(f"\t Link {i}: 14.062 GB/s\n" for i in range(4))
HEALTHY = {
    "a mesh of single and double links": matrix("X NV1 NV1 NV2", "NV1 X NV2 NV1", "NV1 NV2 X NV2", "NV2 NV1 NV2 X"),
    "a bridged pair and a card alone": matrix("X NV4 NODE", "NV4 X NODE", "NODE NODE X"),
    "two bridged pairs": matrix("X NV12 SYS SYS", "NV12 X SYS SYS", "SYS SYS X NV12", "SYS SYS NV12 X"),
    "without what stands before its heading": matrix("X PIX", "PIX X", head=""),
    "underlined": matrix("X NV18", "NV18 X", head="\t\x1b[4m", tail=TAIL + "\x1b[0m"),
    "without the rows of its NICs": "\tGPU0\tNIC0\tNIC1" + TAIL + "\nGPU0\t X \tNODE\tSYS\t0-19\t0\t\tN/A\n",
    "behind a prompt": "$ nvidia-smi topo -m\n" + matrix("X SYS", "SYS X"),
    "behind the links": f"$ nvidia-smi nvlink -s\nGPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-1)\n{LINKS}"
    f"GPU 1: NVIDIA GeForce RTX 3090 (UUID: GPU-2)\n{LINKS}$ nvidia-smi topo -m\n" + matrix("X NV4", "NV4 X"),
}
ILL = {
    "a GPU behind a switch": matrix("X NV18 NV16 NV18", "NV18 X NV16 NV18", "NV16 NV16 X NV16", "NV18 NV18 NV16 X"),
    "a GPU of a mesh without links": matrix("X NV4 NV4 SYS", "NV4 X NV4 SYS", "NV4 NV4 X SYS", "SYS SYS SYS X"),
    "a pair of a mesh": matrix("X NV3 NV4 NV4", "NV3 X NV4 NV4", "NV4 NV4 X NV4", "NV4 NV4 NV4 X"),
    "a mesh of eight": matrix(
        "X NV1 NV2 NV2 NV1 SYS SYS SYS", "NV1 X NV2 NV1 SYS NV2 SYS SYS", "NV2 NV2 X NV1 SYS SYS NV1 SYS",
        "NV2 NV1 NV1 X SYS SYS SYS NV1", "NV1 SYS SYS SYS X NV1 NV2 NV2", "SYS NV2 SYS SYS NV1 X NV2 NV1",
        "SYS SYS NV1 SYS NV2 NV2 X NV1", "SYS SYS SYS NV1 NV2 NV1 NV1 X",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_machine_of_any_shape_is_read_and_has_no_finding(name: str, tmp_path: Path) -> None:
    path = tmp_path / "topology.txt"
    path.write_text(HEALTHY[name])
    snapshot, records = read_inputs(Inputs(files=(str(path),)))
    assert snapshot.machine is not None and snapshot.machine.gpus and not snapshot.logs
    assert [each.name for each in found(snapshot, records=records)] == []
    assert main(["doctor", str(path)]) == 0


@pytest.mark.parametrize("name", ILL)
def test_links_that_are_down_are_told_in_any_shape(name: str, tmp_path: Path) -> None:
    path = tmp_path / "topology.txt"
    path.write_text(ILL[name])
    findings = found(*read_inputs(Inputs(files=(str(path),)))[:1])
    assert {each.name for each in findings} == {"nvlinks-down"}
    assert all("None" not in each.evidence[0].place for each in findings)


def test_rows_of_nics_that_were_cut_off_are_filled_by_those_of_gpus() -> None:
    machine = read_matrix(HEALTHY["without the rows of its NICs"], "x")
    pairs = [machine.between("GPU0", nic.key) for nic in machine.nics]
    assert [pair.text for pair in pairs if pair] == ["NODE", "SYS"]


@pytest.mark.parametrize(
    ("rates", "storage", "named"),
    [((400.0, 400.0), 0.0, False), ((400.0, 200.0), 0.0, True), ((400.0, 400.0), 100.0, False), ((200.0,), 0.0, False)],
)
def test_ports_of_gpus_that_run_slower_than_others_are_told(
    rates: tuple[float, ...], storage: float, named: bool
) -> None:
    machine = with_rates(*rates, storage=storage)
    findings = found(Snapshot("files", machine=machine))
    assert ("port-speeds" in [each.name for each in findings]) is named
    # Where a GPU has no port of its own the host is made so.
    fewer = replace(machine, nics=machine.nics[1:])
    assert "port-speeds" not in [each.name for each in found(Snapshot("files", machine=fewer))]


@pytest.mark.parametrize(
    "rates",
    [(400.0,) * 7 + (200.0,), (200.0,) * 7 + (400.0,), (400.0,) * 4 + (200.0,) * 4, (400.0,) * 6 + (200.0, 800.0)],
)
def test_the_doctor_and_the_prediction_name_the_same_ports_as_slow(rates: tuple[float, ...]) -> None:
    machine = with_rates(*rates)
    told = [each for each in found(Snapshot("files", machine=machine)) if each.name == "port-speeds"]
    named = {evidence.fact.split(":")[0] for each in told for evidence in each.evidence}
    assert named == {nic.name for nic in rails(machine).slow}
    said = " ".join(of_machine(machine).net_notes)
    assert all(name in said for name in named) and ("slower than the other ports" in said) == bool(named)


NVL = "GPU {}: NVIDIA H100 NVL (UUID: GPU-{})\n"


@pytest.mark.parametrize(("second", "names"), [(12, set()), (11, {"nvlinks-down"})])
def test_links_that_wait_for_a_bridge_are_not_down_and_a_board_with_fewer_than_another_has_lost_one(
    second: int, names: set[str], tmp_path: Path
) -> None:
    text = ""
    for gpu, count in enumerate((12, second)):
        text += NVL.format(gpu, gpu) + "".join(
            f"\t Link {link}: {'26.562 GB/s' if link < count else '<inactive>'}\n" for link in range(18)
        )
    path = tmp_path / "links.txt"
    path.write_text(text)
    assert {each.name for each in found(*read_inputs(Inputs(topology=str(path)))[:1])} == names
    # As a log it is often a part of the listing: nothing is accused, and nothing is called healthy.
    assert main(["doctor", str(path)]) == 3


def test_a_part_of_a_listing_of_links_accuses_nobody(tmp_path: Path) -> None:
    path = tmp_path / "links.txt"
    path.write_text("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)\n\t Link 0: 26.562 GB/s\n\t Link 1: 26.562 GB/s\n")
    assert found(*read_inputs(Inputs(topology=str(path)))[:1]) == []
