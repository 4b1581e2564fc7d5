"""busbw in Release with its tests, with code for the GPUs of this machine."""

from __future__ import annotations

import shutil

from gpu_library.machine import REPOSITORY, output
from gpu_library.program import Command
from gpu_library.session import Result, Session

LIMIT_S = 400.0
"""Longer than any other run may take: whatever follows needs it."""


def configure_argv(build: str, capability: str, *, ninja: bool, host: bool) -> tuple[str, ...]:
    """CMake's words; `capability` as nvidia-smi has it, such as 9.0."""
    cuda = "-DBUSBW_CUDA=OFF" if host else f"-DBUSBW_CUDA_ARCHITECTURES={capability.replace('.', '')}"
    generator = ("-G", "Ninja") if ninja else ()
    where = ("cmake", "-S", str(REPOSITORY), "-B", build, *generator)
    return (*where, "-DCMAKE_BUILD_TYPE=Release", "-DBUSBW_TESTS=ON", cuda)


def stage(session: Session) -> list[Result]:
    """Two steps; the second is left out where the first fails."""
    machine = session.machine
    capabilities = output("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader").splitlines()
    build = str(machine.build)
    ninja = bool(shutil.which("ninja"))
    steps = (
        ("configure", configure_argv(build, next(iter(capabilities), ""), ninja=ninja, host=machine.host)),
        ("build", ("cmake", "--build", build, "--parallel")),
    )
    results: list[Result] = []
    for label, argv in steps:
        ended = session.patient(LIMIT_S).run(label, Command(argv, session.environment()))
        results.append({"step": label, "exit": ended.code, "seconds": round(ended.seconds, 1)})
        if ended.code != 0:
            break
    return results
