"""Every function of NCCL 2.18 to the newest one here is one that our GPU library handles or hands on."""

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
CALLS = LIST.with_name("nccl_calls.txt")
RCCL = {"ncclAllReduceWithBias", "ncclAllToAll", "ncclAllToAllv", "mscclRunAlgo"}
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
        assert len(names) >= 25, f"{folder}: nccl.h is written in a way that this test does not read"
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


def kept() -> dict[str, list[str]]:
    """Types of the parameters of each function that a recording keeps."""
    lines = [line.split(" ", 2) for line in CALLS.read_text().splitlines() if line and not line.startswith("#")]
    return {name: types.split(", ") for name, _, types in lines}


def with_streams(text: str) -> dict[str, list[str]]:
    """Functions of a header that give work to a stream, with the types of their parameters."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    found = {}
    for name, words in re.findall(r"ncclResult_t\s+(nccl[A-Z]\w*)\s*\(([^;]*?)\)\s*;", code):
        if "cudaStream_t" in words:
            types = [re.sub(r"\s*\w+$", "", " ".join(word.split())) for word in words.split(",")]
            found[name] = [each.replace(" *", "*").replace("unsigned int", "unsigned") for each in types]
    return found


def test_each_function_here_that_gives_work_to_a_stream_is_kept_in_a_recording() -> None:
    found = folders()
    if not found:
        pytest.skip("no nccl.h here: install nvidia-nccl-cu13, or name a folder with include/nccl.h in BUSBW_TEST_NCCL")
    for folder in found:
        declares = with_streams((folder / "include" / "nccl.h").read_text())
        assert len(declares) >= 8, f"{folder}: nccl.h is written in a way that this test does not read"
        listed_here = {name: types for name, types in kept().items() if name in declares}
        assert declares == listed_here, f"{folder}: add these to library/record/functions.inc and {CALLS.name}"


@pytest.mark.parametrize("file", ["include/busbw/nccl_abi.h", "library/common/nccl/functions.h"])
def test_what_is_kept_is_declared_by_us_as_nccl_declares_it(file: str) -> None:
    code = (ROOT / file).read_text()
    for name, words in re.findall(r"typedef ncclResult_t (nccl\w+)_t\(([^;]*?)\);", code):
        if name in kept():
            types = [re.sub(r"\s*\w+$", "", " ".join(word.split())) for word in words.split(",")]
            ours = [each.replace("ncclStream_t", "cudaStream_t") for each in types]
            theirs = [each.replace("ncclWaitSignalDesc_t*", "void*") for each in kept()[name]]
            assert ours == theirs, name


def test_the_recorder_keeps_what_is_listed_and_no_other_call_of_nccl() -> None:
    """Each by a call() of functions.inc, and declared by us; RCCL's own are not in NCCL's headers."""
    text = (ROOT / "library" / "record" / "functions.inc").read_text()
    bodies = re.split(r"^BUSBW_EXPORT ", text, flags=re.M)[1:]
    names = {
        match[1]: body for body in bodies if (match := re.match(r"[^(]*BUSBW_NAME\((\w+)\)", body)) and "call(" in body
    }
    recorded = {name for name, body in names.items() if re.search(r"return call\(", body)}
    assert recorded - RCCL == set(kept())
    ours = "".join(
        (ROOT / file).read_text() for file in ("include/busbw/nccl_abi.h", "library/common/nccl/functions.h")
    )
    assert {name for name in kept() if f" {name}_t(" not in ours} == set()
