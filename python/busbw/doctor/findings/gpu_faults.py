"""MIG, ECC and row-remap trouble, and GPUs of different products in one machine."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.topology.gpu_state import GpuState

NAME = "gpu-faults"
_PROOF = Proof(instruction="reset the GPU after the repair and look at `nvidia-smi -q -d ECC,ROW_REMAPPER`")


def examine(facts: Facts) -> Iterator[Finding]:
    for gpu in facts.snapshot.gpus:
        yield from _of(gpu)
    names = sorted({gpu.name for gpu in facts.machine.gpus if gpu.name} if facts.machine else set())
    if len(names) > 1:
        yield Finding(
            NAME, Severity.WARNING, f"GPUs of {len(names)} products in one machine",
            (Evidence(", ".join(names), facts.machine.source if facts.machine else ""),),
            Cost("collectives run at the rate of the slowest"), "use GPUs of one product (CUDA_VISIBLE_DEVICES)",
            Proof(instruction="measure the groups apart"),
        )  # fmt: skip


def _of(gpu: GpuState) -> Iterator[Finding]:
    if gpu.mig:
        yield _finding(
            gpu, Severity.ERROR, "MIG is on: its parts have no NVLinks and no P2P", "MIG mode is enabled",
            "transfers go through host memory, or NCCL refuses", f"nvidia-smi -mig 0 -i {gpu.index}",
        )  # fmt: skip
    if gpu.ecc_uncorrected:
        yield _finding(
            gpu, Severity.ERROR, f"{gpu.ecc_uncorrected} uncorrectable memory errors since the driver was loaded",
            f"volatile uncorrected ECC count is {gpu.ecc_uncorrected}", "wrong results or ended processes",
            "drain the host, reset the GPU, and replace it if they come back",
        )  # fmt: skip
    if gpu.row_remap_failed:
        yield _finding(
            gpu, Severity.ERROR, "a faulty memory row could not be replaced", "row remapping failed",
            "memory errors will come back", "replace the GPU",
        )  # fmt: skip
    elif gpu.row_remap_pending:
        yield _finding(
            gpu, Severity.WARNING, "a faulty memory row waits to be replaced", "row remapping is pending",
            "memory errors until the GPU is reset", f"nvidia-smi --gpu-reset -i {gpu.index} while nothing runs",
        )  # fmt: skip
    elif gpu.rows_remapped_uncorrected:
        yield _finding(
            gpu, Severity.NOTE, f"{gpu.rows_remapped_uncorrected} memory rows were replaced after errors",
            "rows remapped for uncorrectable errors", "none", "watch the number",
        )  # fmt: skip
    if gpu.compute_mode and "prohibited" in gpu.compute_mode.lower():
        yield _finding(
            gpu, Severity.ERROR, "its compute mode forbids computing", f"compute mode {gpu.compute_mode}",
            "no program can use it", f"nvidia-smi -c 0 -i {gpu.index}",
        )  # fmt: skip


def _finding(  # noqa: PLR0913, PLR0917 - the parts of one row, in the order of its columns
    gpu: GpuState, severity: Severity, what: str, fact: str, cost: str, fix: str
) -> Finding:
    where = f"NVML: GPU{gpu.index}"
    return Finding(NAME, severity, f"GPU{gpu.index}: {what}", (Evidence(fact, where),), Cost(cost), fix, _PROOF)
