"""Every function of NCCL 2.27 to the newest one here is one that our GPU library handles or hands on."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUSBW_BUILD", ROOT / "build"))
LIBRARY = BUILD / "lib" / "libbusbw_gpu.so"
LIST = ROOT / "library" / "tests" / "gpu" / "nccl_functions.txt"
_DECLARED = re.compile(
    r"^[ \t]*(?:NCCL_EXTERN_C )?(?:ncclResult_t|ncclTeam_t|void|int|const char\*)\s+(p?nccl[A-Z]\w*)\s*\(", re.M
)
# Declared by 2.32, and exported by none of its libraries.
_ONLY_DECLARED = {"ncclCftBarrierCreateRequirement"}
# Inside NCCL 2.30: in no header, and gone since.
_INTERNAL = re.compile(
    r"ncclParam(DumpAllFlag|DumpAllFlagKey|EnvPluginGet|IsCacheDisabled|NoCacheStr(Key)?|RegistryInstance)"
)


def listed() -> set[str]:
    return {line.split()[0] for line in LIST.read_text().splitlines() if line and not line.startswith("#")}


def folders() -> list[Path]:
    """Where an NCCL lies, with lib/ and include/ in it: BUSBW_TEST_NCCL, Python's packages, the system."""
    named = [Path(word) for word in os.environ.get("BUSBW_TEST_NCCL", "").split(":") if word]
    packages = [Path(each) / "nvidia" / "nccl" for each in sys.path if each]
    return [folder for folder in (*named, *packages, Path("/usr")) if (folder / "include" / "nccl.h").is_file()]


def declared(folder: Path) -> set[str]:
    files = (folder / "include" / "nccl.h", *sorted((folder / "include" / "nccl_device").glob("host.h")))
    return {name.removeprefix("p") for file in files for name in _DECLARED.findall(file.read_text())}


@pytest.mark.skipif(not LIBRARY.exists(), reason="libbusbw_gpu.so is not built; BUSBW_BUILD names a build folder")
def test_each_function_is_there_by_both_of_its_names() -> None:
    library = ctypes.CDLL(str(LIBRARY))
    missing = {prefix + name for name in listed() for prefix in ("", "p") if not hasattr(library, prefix + name)}
    assert not missing


def test_the_newest_header_here_declares_nothing_that_is_not_listed() -> None:
    found = folders()
    if not found:
        pytest.skip("no nccl.h here: install nvidia-nccl-cu13, or name a folder with include/nccl.h in BUSBW_TEST_NCCL")
    for folder in found:
        names = declared(folder)
        assert len(names) >= 37, f"{folder}: nccl.h is written in a way that this test does not read"
        assert names - listed() - _ONLY_DECLARED == set(), f"{folder}: add these to functions.h and {LIST.name}"


def test_each_nccl_here_exports_nothing_that_is_not_listed() -> None:
    nm = shutil.which("nm")
    libraries = [path for folder in folders() for path in (folder / "lib").glob("**/libnccl.so.2")]
    if not libraries or nm is None:
        pytest.skip("no libnccl.so.2 with its nccl.h here, or no nm")
    for path in libraries:
        lines = subprocess.run([nm, "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
        names = {line.split()[-1] for line in lines.splitlines()}
        ours = {
            name.removeprefix("p") for name in names if re.match(r"p?nccl[A-Z]", name) and not _INTERNAL.fullmatch(name)
        }
        assert len(ours) >= 37
        assert ours - listed() == set(), f"{path}: add these to functions.h and {LIST.name}"
