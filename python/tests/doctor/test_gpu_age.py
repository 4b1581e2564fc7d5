"""Code that is missing for an old GPU is in older builds, for a new one in newer builds."""

from __future__ import annotations

import pytest

from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.finding import Severity
from busbw.doctor.reading.snapshot import Snapshot, TextFile

ERROR = (
    "n0:10:20 [0] NCCL WARN enqueue.cc:71 Cuda failure 209 'no kernel image is available for execution on the device'"
)
TORCH = "{} with CUDA capability sm_{} is not compatible with the current PyTorch installation."
SUPPORTS = "The current PyTorch install supports CUDA capabilities sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90."
LISTED = "#  Rank  0 Group  0 Pid    812 on       n0 device  0 [0x04] {}"


def told(*lines: str) -> tuple[str, str]:
    """Title and cure."""
    findings = examine(gather(Snapshot("files", logs=(TextFile("job.log", "\n".join([*lines, ""])),))))
    (found,) = [each for each in findings if each.name == "gpu-too-new" and each.severity is not Severity.NOTE]
    return found.title, found.fix


@pytest.mark.parametrize(
    ("lines", "word", "cure"),
    [
        ([TORCH.format("Tesla K80", 37), SUPPORTS], "Kepler, sm_37", "CUDA 11.8 or before"),
        ([LISTED.format("Tesla K80"), ERROR], "Kepler, sm_37", "CUDA 11.8 or before"),
        ([LISTED.format("Tesla K40m"), ERROR], "Kepler, sm_35", "names sm_35"),
        (
            ["Found GPU0 Tesla K40c which is of cuda capability 3.5.",
             "PyTorch no longer supports this GPU because it is too old."], "Kepler, sm_35", "CUDA 11.8 or before",
        ),
        ([LISTED.format("Tesla M40 24GB"), ERROR], "Maxwell, sm_52", "NCCL up to 2.27"),
        ([TORCH.format("NVIDIA GeForce GTX 1080 Ti", 61), SUPPORTS], "Pascal or Volta, sm_61", "whl/cu126"),
        ([LISTED.format("Tesla V100-SXM2-16GB"), ERROR], "Pascal or Volta, sm_70", "whl/cu126"),
        ([TORCH.format("NVIDIA B200", 100), SUPPORTS], "sm_100", "CUDA 12.8 or later"),
        ([TORCH.format("NVIDIA GB10", 121), SUPPORTS], "sm_121", "12.9 for sm_103 and sm_121"),
        ([LISTED.format("NVIDIA GeForce RTX 5090"), ERROR], "sm_120", "CUDA 12.8 or later"),
        ([LISTED.format("NVIDIA GB300"), ERROR], "sm_103", "CUDA 12.8 or later"),
    ],
)  # fmt: skip
def test_the_cure_points_to_the_builds_that_hold_code_for_the_gpu(lines: list[str], word: str, cure: str) -> None:
    title, fix = told(*lines)
    assert word in title and cure in fix
    assert ("older build and no newer one" in fix) is not ("take a newer build" in fix)


@pytest.mark.parametrize(
    "lines",
    [[ERROR], [LISTED.format("NVIDIA H100 80GB HBM3"), ERROR],
     [LISTED.format("Tesla K80"), LISTED.format("NVIDIA GeForce RTX 5090"), ERROR]],
)  # fmt: skip
def test_a_gpu_of_unknown_age_gets_the_general_cure(lines: list[str]) -> None:
    assert "for this architecture" in told(*lines)[1]
