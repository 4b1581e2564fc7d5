"""busbw in Release with its tests, with code for the GPUs of this machine."""

from __future__ import annotations

import shutil

from gpu_library.machine import REPOSITORY, output
from gpu_library.program import Command
from gpu_library.session import Result, Session


def configure_argv(build: str, capability: str, ninja: bool) -> tuple[str, ...]:
    """CMake's words; `capability` as nvidia-smi has it, such as 9.0."""
    return (
        *("cmake", "-S", str(REPOSITORY), "-B", build, *(("-G", "Ninja") if ninja else ())),
        *(
            "-DCMAKE_BUILD_TYPE=Release",
            "-DBUSBW_TESTS=ON",
            f"-DBUSBW_CUDA_ARCHITECTURES={capability.replace('.', '')}",
        ),
    )


def stage(session: Session) -> list[Result]:
    """Two steps; the second is left out where the first fails."""
    capabilities = output("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader").splitlines()
    build = str(session.machine.build)
    steps = (
        ("configure", configure_argv(build, capabilities[0] if capabilities else "", bool(shutil.which("ninja")))),
        ("build", ("cmake", "--build", build, "--parallel")),
    )
    results: list[Result] = []
    for label, argv in steps:
        ended = session.run(label, Command(argv, session.environment()))
        results.append({"step": label, "exit": ended.code, "seconds": round(ended.seconds, 1)})
        if ended.code != 0:
            break
    return results
