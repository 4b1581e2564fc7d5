"""A program could not be compiled or linked."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="build-failed",
    stage=Stage.LAUNCH,
    title="a program could not be built: {what}",
    patterns=(
        r"fatal error: (?P<what>\S{1,80}: No such file or directory)",
        r"(?P<what>nvcc fatal +: .{5,100})",
        r"\bld: (?P<what>cannot find -l\w{1,40})",
        r"(?P<what>collect2: error: ld returned \d+)",
        r"\bld: .{1,200}(?P<what>DSO missing from command line)",
        r"(?P<what>[Uu]ndefined reference to .{3,80})",
        r"(?P<what>(?:make|gmake)(?:\[\d+\])?: \*\*\* .{3,120})",
        r"(?P<what>ninja: build stopped.{0,60}|CMake Error at .{3,80}|error: command '\S{1,80}' failed with exit)",
        r"(?P<what>detected CUDA version \(\S{1,12}\) mismatches.{0,80})",
        r"(?P<what>\w\.cuh?\(\d{1,6}\): (?:catastrophic )?error(?: #[\w-]{1,20})?: .{3,100})",
        r"error: #error\W{0,6}(?P<what>unsupported .{3,60}version.{0,60})",
        r"(?P<what>Unsupported gpu architecture '\w{1,20}')",
    ),
    confirm="nvcc --version, mpicc --show, and whether the header or library that is named is on this machine",
    cure=(
        "name where headers and libraries are (CUDA_HOME, NCCL_HOME, MPI=1 MPI_HOME), install their -dev packages. "
        "Use a CUDA that knows the GPU's architecture, and the one that PyTorch was built with"
    ),
    cost="the program is not there, or an old one is used",
    source="GNU make, ld, nvcc, CMake and ninja",
    explains=("python-exception",),
)
