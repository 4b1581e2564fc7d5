"""Outputs of one machine that were saved: each is examined, several are put together, and another machine's refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.finding import Severity
from busbw.doctor.reading import inputs as reading
from busbw.doctor.reading.bundle import write_bundle
from busbw.doctor.reading.inputs import Inputs, read_inputs
from busbw.machine.topology.model import Machine

from .cases import healthy

GPU = """<gpu id="00000000:{bus}:00.0"><product_name>NVIDIA H100 80GB HBM3</product_name>
<pci><pci_gpu_link_info><pcie_gen><max_link_gen>5</max_link_gen><current_link_gen>5</current_link_gen></pcie_gen>
<link_widths><max_link_width>16x</max_link_width><current_link_width>{width}x</current_link_width></link_widths>
</pci_gpu_link_info></pci>
<clocks_event_reasons><clocks_event_reason_hw_thermal_slowdown>{hot}</clocks_event_reason_hw_thermal_slowdown>
</clocks_event_reasons>
<remapped_rows><remapped_row_pending>{pending}</remapped_row_pending></remapped_rows>
<processes><process_info><pid>7</pid><type>C</type><process_name>python</process_name></process_info></processes>
<utilization><gpu_util>99 %</gpu_util></utilization></gpu>"""
WELL = GPU.format(bus="1B", width=16, hot="Not Active", pending="No")
ILL = GPU.format(bus="43", width=8, hot="Active", pending="Yes")
MATRIX = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV18\t0-3\nGPU1\tNV18\t X \t0-3\n"


def query(*gpus: str) -> str:
    return f"<nvidia_smi_log><driver_version>580.95</driver_version>{''.join(gpus)}</nvidia_smi_log>"


def found(folder: Path, *texts: str) -> set[str]:
    names = []
    for index, text in enumerate(texts):
        path = folder / f"{index}.txt"
        path.write_text(text)
        names.append(str(path))
    return {each.name for each in examine(gather(*read_inputs(Inputs(files=tuple(names)))))}


TROUBLE = {"gpu-faults", "gpu-throttled", "pcie-link"}


def test_the_state_of_gpus_in_a_saved_query_is_judged(tmp_path: Path) -> None:
    assert found(tmp_path, query(WELL, ILL)) == TROUBLE


def test_a_clock_that_is_low_under_load_is_told(tmp_path: Path) -> None:
    clocks = "<clocks><sm_clock>345 MHz</sm_clock></clocks><max_clocks><sm_clock>1980 MHz</sm_clock></max_clocks>"
    slow = WELL.replace("<processes>", f"<performance_state>P0</performance_state>{clocks}<processes>")
    assert found(tmp_path, query(slow, WELL)) == {"gpu-throttled"}


def test_the_evidence_names_the_file_that_says_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # a long path would be broken between two lines
    Path("smi.xml").write_text(query(WELL, ILL))
    assert main(["doctor", "smi.xml"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "smi.xml: GPU1: row remapping is pending" in said and "NVML" not in said


def test_a_query_taken_while_a_job_ran_accuses_nobody(tmp_path: Path) -> None:
    assert found(tmp_path, query(WELL, WELL)) == set()


@pytest.mark.parametrize("turned", [False, True])
def test_a_matrix_and_a_query_of_one_machine_are_put_together(turned: bool, tmp_path: Path) -> None:
    texts = (query(WELL, ILL), MATRIX)
    assert found(tmp_path, *(texts[::-1] if turned else texts)) == TROUBLE
    snapshot, _ = read_inputs(Inputs(files=(str(tmp_path / "0.txt"), str(tmp_path / "1.txt"))))
    machine = snapshot.machine
    assert machine is not None and machine.all_nvlink and machine.gpus[1].bus_id == "0000:43:00.0"
    assert machine.gpus[1].pcie.width == 8 and machine.nvlinks_per_gpu == 18


def test_another_machine_is_refused_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = tmp_path / "one.txt", tmp_path / "two.xml"
    one.write_text(MATRIX)
    two.write_text(query(WELL))
    assert main(["doctor", str(one), str(two)]) == 2
    assert "their GPUs are not as many" in capsys.readouterr().err


def test_a_matrix_beside_this_machine_is_no_broken_topology_file(tmp_path: Path) -> None:
    path = tmp_path / "matrix.txt"
    path.write_text(MATRIX)
    with pytest.raises(reading.UserError, match="examine it without --live"):
        read_inputs(Inputs(files=(str(path),)), replace(healthy(), live=True))


def test_a_bundle_without_gpus_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bare.tar.gz"
    write_bundle(replace(healthy(), machine=Machine("this machine"), gpus=()), path)
    assert main(["doctor", str(path)]) == 3
    said = " ".join(capsys.readouterr().out.split())
    assert "(no GPU in it)" in said and "no GPU is in it, so nothing of links" in said


def test_ports_of_different_rates_are_a_note_and_equal_ones_are_none(tmp_path: Path) -> None:
    path, port = tmp_path / "ibstat.txt", "CA 'mlx5_{}'\n\tPort 1:\n\t\tState: Active\n\t\tRate: {}\n"
    path.write_text(port.format(0, 400) + port.format(1, 400))
    assert examine(gather(*read_inputs(Inputs(files=(str(path),))))) == ()
    path.write_text(port.format(0, 400) + port.format(1, 100))
    (found,) = examine(gather(*read_inputs(Inputs(files=(str(path),)))))
    assert found.name == "port-rates" and "400, 100" in found.title and found.severity is Severity.NOTE


LSPCI = """0000:16:01.0 PCI bridge: Intel Corporation Device 352a (rev 04)
	Capabilities: [148 v1] Access Control Services
		ACSCtl:	SrcValid+ TransBlk- ReqRedir{sign} CmpltRedir{sign} UpstreamFwd{sign} EgressCtrl- DirectTrans-
0000:17:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)
"""


@pytest.mark.parametrize(("sign", "code"), [("+", 1), ("-", 0)])
def test_access_control_in_a_saved_listing_is_told(sign: str, code: int, tmp_path: Path) -> None:
    path = tmp_path / "lspci.txt"
    path.write_text(LSPCI.format(sign=sign))
    assert found(tmp_path, LSPCI.format(sign=sign)) == ({"acs"} if code else set())
    assert main(["doctor", str(path)]) == code
