"""A GPU that something else uses: processes, load, or memory that is taken."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.reading.snapshot import SAVED
from busbw.machine.topology.gpu_state import GpuState

NAME = "gpu-busy"
LOAD_PERCENT = 5.0
MEMORY_MIB = 2048.0  # the driver itself keeps several hundred


def examine(facts: Facts) -> Iterator[Finding]:
    if facts.snapshot.source == SAVED:
        return  # who saved the output may have run his job then
    for gpu in facts.snapshot.gpus:
        computing = [each for each in gpu.processes if each.compute]
        loaded = (gpu.utilisation_percent or 0) > LOAD_PERCENT
        # Inside a container the driver hides processes of others, but not their load and memory.
        taken = (gpu.memory_used_MiB or 0) > MEMORY_MIB
        if not (computing or loaded or taken):
            continue
        harmful = loaded or taken or any((each.memory_MiB or 0) > MEMORY_MIB for each in computing)
        yield Finding(
            NAME,
            Severity.WARNING if harmful else Severity.NOTE,
            f"GPU{gpu.index} is in use by {_names(gpu) if computing else 'a process that cannot be seen from here'}",
            tuple(_evidence(gpu, facts.who_says(gpu))),
            Cost("kernels take turns, and all ranks wait for the slowest" if harmful else "none while it is idle"),
            "end that process, or leave the GPU out (CUDA_VISIBLE_DEVICES)",
            Proof(instruction="measure again once the GPU is free"),
        )  # fmt: skip


def _evidence(gpu: GpuState, where: str) -> Iterator[Evidence]:
    for each in [each for each in gpu.processes if each.compute][:8]:
        memory = f", {each.memory_MiB:.0f} MiB" if each.memory_MiB is not None else ""
        yield Evidence(f"pid {each.pid} ({each.name or 'unknown'}){memory}", where)
    if gpu.utilisation_percent is not None:
        yield Evidence(f"{gpu.utilisation_percent:.0f} % of the time a kernel ran", where)
    if gpu.memory_used_MiB is not None:
        yield Evidence(f"{gpu.memory_used_MiB:.0f} MiB of memory in use", where)


def _names(gpu: GpuState) -> str:
    computing = [each for each in gpu.processes if each.compute]
    names = ", ".join(f"{each.name or 'a process'} (pid {each.pid})" for each in computing[:3])
    return names + (f" and {len(computing) - 3} more" if len(computing) > 3 else "")
