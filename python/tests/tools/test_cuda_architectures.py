"""Which GPUs kernels are built for, where the answer is this machine's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("said", "code", "architectures"),
    [
        ("9.0\\n8.0\\n9.0\\n10.0\\n", 0, "80;90;100"),
        ("12.0\\n", 0, "120"),
        ("[N/A]\\n", 0, ""),
        ("NVIDIA-SMI 9.0 has failed\\n", 9, ""),
    ],
)
def test_kernels_are_built_for_the_gpus_that_the_driver_shows(
    said: str, code: int, architectures: str, tmp_path: Path
) -> None:
    beside = Path(sys.executable).parent / "cmake"
    cmake = str(beside) if beside.exists() else shutil.which("cmake")
    if cmake is None:
        pytest.skip("no CMake")
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\nprintf '{said}'\nexit {code}\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    script = tmp_path / "ask.cmake"
    script.write_text(
        f'include("{ROOT}/cmake/Cuda.cmake")\nbusbw_architectures_here(found)\nmessage("found <${{found}}>")\n'
    )
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    told = subprocess.run(
        [cmake, "-P", script], env=environment, capture_output=True, text=True, timeout=60, check=True
    ).stderr
    assert f"found <{architectures}>" in told


@pytest.mark.parametrize(("said", "wanted"), [("GPU 0: one\\nGPU 1: two\\n", "ON"), ("", "OFF")])
def test_kernels_are_off_where_the_driver_shows_no_gpu(said: str, wanted: str, tmp_path: Path) -> None:
    """A demo on a machine without GPUs then builds the engine and its library, and nothing that takes minutes."""
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\nprintf '{said}'\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BUSBW_CUDA")}
    environment["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    words = f'. {ROOT}/tools/common.sh; ROOT={tmp_path}; cuda_arguments demo; echo "${{CUDA[*]}}"'
    told = subprocess.run(
        ["bash", "-ec", words], env=environment, capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert told.split()[:2] == [f"-DBUSBW_CUDA={wanted}", "-DBUSBW_CUDA_ARCHITECTURES=here"]
