"""The GPU library on aarch64 (Grace), where it passes calls on in assembly: cross-built, run by an emulator."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUSBW_BUILD", ROOT / "build")) / "aarch64"
COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
TARGETS = (
    "busbw_gpu", "busbw_with", "busbw_with_shim", "busbw_test_nccl_user", "busbw_test_opener", "busbw_test_nccl_plugin",
)  # fmt: skip
NEEDED = (COMPILER, EMULATOR, "cmake", "ninja")
_missing = [program for program in NEEDED if shutil.which(program) is None]

pytestmark = [
    pytest.mark.skipif(
        bool(_missing),
        reason=f"{', '.join(_missing)} missing (Debian: apt-get install g++-aarch64-linux-gnu qemu-user)",
    ),
    pytest.mark.skipif(
        not os.environ.get("CI") and not BUILD.exists(), reason="a cross build takes minutes: CI does it, and CI=1"
    ),
]


@pytest.fixture(scope="module")
def built() -> Path:
    configure = [
        "cmake", "-S", ROOT, "-B", BUILD, "-G", "Ninja", "-DCMAKE_SYSTEM_NAME=Linux",
        "-DCMAKE_SYSTEM_PROCESSOR=aarch64", f"-DCMAKE_CXX_COMPILER={COMPILER}", "-DBUSBW_CUDA=OFF", "-DBUSBW_TESTS=ON",
        # What is written in assembly is the same in each, and this one is built in half of the time.
        "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0", "-DCMAKE_UNITY_BUILD=ON",
    ]  # fmt: skip
    for command in (configure, ["ninja", "-C", BUILD, *TARGETS]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return BUILD


def emulate(program: Path, *words: str | Path, **variables: str | Path) -> subprocess.CompletedProcess[str]:
    given = [word for name, value in variables.items() for word in ("-E", f"{name}={value}")]
    command = [EMULATOR, "-L", "/usr/aarch64-linux-gnu", "-E", "BUSBW_GPU=0", *given, program, *words]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, check=False)


def test_every_call_goes_through_a_preloaded_library_with_every_argument(built: Path) -> None:
    user = built / "bin" / "busbw_test_nccl_user"
    alone = emulate(user)
    assert (alone.returncode, alone.stdout) == (0, "version 22809, busbw in front: no\n"), alone.stderr
    done = emulate(user, LD_PRELOAD=built / "lib" / "libbusbw_gpu.so")
    assert (done.returncode, done.stdout) == (0, "version 22809, busbw in front: yes\n"), done.stderr


def test_every_call_goes_through_an_opened_library(built: Path) -> None:
    nccl = built / "lib" / "fake_nccl" / "libnccl.so.2"
    user = built / "bin" / "busbw_test_nccl_user"
    done = emulate(user, built / "lib" / "libbusbw_gpu.so", BUSBW_REAL_NCCL=nccl)
    assert (done.returncode, done.stdout) == (0, "version 22809, busbw in front: yes\n"), done.stderr


@pytest.mark.parametrize(
    ("how", "what"), [("local", "fake_nccl/libnccl.so.2"), ("plugin", "libbusbw_test_nccl_plugin.so")]
)
def test_the_auditor_brings_the_library_in_front(built: Path, how: str, what: str) -> None:
    library = built / "lib"
    done = emulate(
        built / "bin" / "busbw_test_opener", how, library / what,
        LD_AUDIT=library / "libbusbw_with.so", BUSBW_WITH_FRONT=library / "libbusbw_gpu.so",
        BUSBW_WITH_SHIM=library / "busbw_with" / "libnccl.so.2",
    )  # fmt: skip
    assert done.stdout == "version 22809, calls go to libbusbw_gpu.so, ncclCommGrow absent\n", done.stderr
