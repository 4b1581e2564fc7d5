"""What the numbers of the driver's and of NVSwitches' errors mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.xids import HARMLESS_SXIDS, SXIDS, XIDS

from .test_corpus import loud


@pytest.mark.parametrize(
    "line", ["SXid (PCI:0000:89:00.0): 11012, Non-fatal, Link 3", "Xid (PCI:0000:89:00): 106, test"]
)
def test_what_was_corrected_or_only_tested_is_no_fault(line: str, tmp_path: Path) -> None:
    assert loud(f"[ 1.000000] nvidia-nvswitch3: {line}\n", tmp_path) == []


def test_an_sxid_is_told_with_its_meaning(tmp_path: Path) -> None:
    (found,) = loud(
        "[ 1.000000] nvidia-nvswitch3: SXid (PCI:0000:89:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n", tmp_path
    )
    assert "SXid 20034: a link went down" in found.title
    assert set(SXIDS).isdisjoint(XIDS) and "20001" in HARMLESS_SXIDS.split("|")


def test_every_number_of_the_drivers_header_has_a_meaning() -> None:
    """nverror.h of the open driver counts to 176; 49 to 53 and 55 were never used for errors of GPUs."""
    assert set(range(1, 177)) - set(XIDS) == {49, 50, 51, 52, 53, 55}


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("pynvml.NVMLError_LibRmVersionMismatch: RM has detected an NVML/RM version mismatch.", "driver-mismatch"),
        ("nvmlInit_v2: NVML_ERROR_DRIVER_NOT_LOADED", "driver-not-loaded"),
        ("nvmlDeviceGetHandleByIndex: ERROR_GPU_IS_LOST", "gpu-off-bus"),
        ("pynvml.NVMLError_Unknown: Unknown Error", "nvml-missing"),
        ("NVML_ERROR_NO_PERMISSION", "gpu-permission"),
        ("pynvml.NVMLError_InUse: In use by another client", "gpu-exclusive"),
        ("pynvml.NVMLError_InsufficientPower: Insufficient External Power", "health-check"),
    ],
)
def test_errors_of_nvml_are_known_by_their_names(said: str, name: str, tmp_path: Path) -> None:
    assert [each.name for each in loud(said + "\n", tmp_path)][:1] == [name]
