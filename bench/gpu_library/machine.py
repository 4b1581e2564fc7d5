"""What lies where on this machine: our builds, the libraries under comparison, the GPUs."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "python"))

from busbw.base.programs import ask  # noqa: E402


@dataclass(frozen=True)
class Machine:
    """Files and counts that every stage needs. On the host our CPU library stands in for NCCL."""

    build: Path
    ours: Path
    nccl: Path
    mscclpp: Path | None
    nccl_tests: Path | None
    gpus: int
    host: bool = False  # no GPU is meant: everything is tried on the processors
    python: str = sys.executable

    @property
    def engine(self) -> Path:
        return self.build / "bin" / "busbw-engine"

    @property
    def stress(self) -> Path:
        return self.build / "bin" / "busbw_stress"

    @property
    def counts(self) -> tuple[int, ...]:
        """How many GPUs to try: two, and all of them."""
        return tuple(sorted({2, self.gpus}))


def output(*argv: str) -> str:
    """What a small program prints; nothing where it is not there."""
    return ask(argv, 60.0).stdout.strip()


def python_nccl() -> Path | None:
    """The file of the wheel nvidia-nccl in this Python, which PyTorch's wheels load."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        file = Path(folder) / "nccl" / "lib" / "libnccl.so.2"
        if file.is_file():
            return file.resolve()
    return None


def count_gpus() -> int:
    return sum(line.startswith("GPU ") for line in output("nvidia-smi", "-L").splitlines())


def facts(machine: Machine) -> dict[str, str]:
    """What a reader of the page needs to know of the machine, without its folders."""

    def query(field: str) -> list[str]:
        return output("nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader").splitlines()

    gpus = query("name")
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "GPUs": f"{len(gpus)} x {gpus[0]}" if gpus else "none: tried on the processors",
        "driver": next(iter(query("driver_version")), "none"),
        "CUDA compiler": next(reversed(output("nvcc", "--version").splitlines()), "none"),
        "MPI": next(iter(output("mpirun", "--version").splitlines()), "none"),
        "ours": f"{machine.ours.name}, sha256 {_sha256(machine.ours)}",
        "NCCL": f"{machine.nccl.name}, sha256 {_sha256(machine.nccl)}",
        "MSCCL++": f"{machine.mscclpp.name}, sha256 {_sha256(machine.mscclpp)}" if machine.mscclpp else "not given",
        "multicast": "off",
    }


def _sha256(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()[:12]
    except OSError:
        return "?"


def find(gpus: int, host: bool, files: Mapping[str, str], build: Path) -> Machine:
    """The machine as asked for. Raises ValueError with a sentence for what is missing."""
    count = gpus or (2 if host else count_gpus())
    if count < 2:
        raise ValueError(f"{count} GPUs here; collectives need two or more (--host tries everything without)")
    cpu = build / "lib" / "libbusbw_cpu.so"
    nccl = Path(files["nccl"]) if files.get("nccl") else (cpu if host else python_nccl())
    if nccl is None:
        raise ValueError("this Python has no wheel nvidia-nccl; name the library with --nccl")
    ours = Path(files.get("ours") or build / "lib" / "libbusbw_gpu.so")
    tests = os.environ.get("NCCL_TESTS_BIN")
    return Machine(
        build=build,
        ours=ours.resolve(),
        nccl=nccl.resolve(),
        mscclpp=Path(files["mscclpp"]).resolve() if files.get("mscclpp") else None,
        nccl_tests=Path(tests).resolve() if tests else None,
        gpus=count,
        host=host,
    )
