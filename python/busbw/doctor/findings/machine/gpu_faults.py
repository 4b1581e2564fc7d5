"""MIG, ECC and row-remap trouble, and GPUs of different products in one machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.machine.topology.gpu_state import GpuState

NAME = "gpu-faults"
_DESKTOP = re.compile(r"\b(?:GeForce|GTX|TITAN|RTX [2-5]0\d0|Quadro)\b")
"""Cards that people put together as they have them, and know it."""
_DISPLAY = re.compile(r"\bDisplay\b|\bT4\d\d\b|\bT1000\b|\bNVS\b")
"""Cards for a screen, which no job uses."""
_LARGE_MIB, _WINDOW_MIB = 70_000.0, 4096.0


def _has_small_window(gpu: GpuState) -> bool:
    """Boards of so much memory are for servers, whose window holds all of it; those of workstations show 256 MiB."""
    return gpu.bar1_MiB is not None and (gpu.memory_total_MiB or 0.0) > _LARGE_MIB and gpu.bar1_MiB < _WINDOW_MIB


_PROOF = Proof(instruction="reset the GPU after the repair and look at `nvidia-smi -q -d ECC,ROW_REMAPPER`")


@dataclass(frozen=True, slots=True)
class Trouble:
    """One kind of trouble of one GPU; what is said of it may name the fields of `gpu` in braces."""

    shows: Callable[[GpuState], object]
    severity: Severity
    what: str
    fact: str
    cost: str
    fix: str


_TROUBLES = (
    Trouble(
        lambda gpu: gpu.mig,
        Severity.ERROR,
        "MIG is on: its parts have no NVLinks and no P2P",
        fact="MIG mode is enabled",
        cost="transfers go through host memory, or NCCL refuses",
        fix="nvidia-smi -mig 0 -i {gpu.index}",
    ),
    Trouble(
        lambda gpu: gpu.ecc_uncorrected,
        Severity.ERROR,
        "{gpu.ecc_uncorrected} uncorrectable memory errors since the driver was loaded",
        fact="volatile uncorrected ECC count is {gpu.ecc_uncorrected}",
        cost="wrong results or ended processes",
        fix="drain the host, reset the GPU, and replace it if they come back",
    ),
    Trouble(
        lambda gpu: gpu.row_remap_failed,
        Severity.ERROR,
        "a faulty memory row could not be replaced",
        fact="row remapping failed",
        cost="memory errors will come back",
        fix="replace the GPU",
    ),
    Trouble(
        lambda gpu: gpu.row_remap_pending and not gpu.row_remap_failed,
        Severity.WARNING,
        "a faulty memory row waits to be replaced",
        fact="row remapping is pending",
        cost="memory errors until the GPU is reset",
        fix="nvidia-smi --gpu-reset -i {gpu.index} while nothing runs",
    ),
    Trouble(
        lambda gpu: gpu.rows_remapped_uncorrected and not (gpu.row_remap_failed or gpu.row_remap_pending),
        Severity.NOTE,
        "{gpu.rows_remapped_uncorrected} memory rows were replaced after errors",
        fact="rows remapped for uncorrectable errors",
        cost="none",
        fix="watch the number",
    ),
    Trouble(
        _has_small_window,
        Severity.WARNING,
        "its window (BAR1) has {gpu.bar1_MiB:.0f} MiB: NICs cannot reach it",
        fact="BAR1 has {gpu.bar1_MiB:.0f} MiB of {gpu.memory_total_MiB:.0f} MiB",
        cost="GPU Direct RDMA and P2P fail or map little at a time",
        fix="switch on Above 4G Decoding (large BAR, 64-bit MMIO) in the BIOS, boot with pci=realloc; in a VM ask for "
        "a larger MMIO window",
    ),
    Trouble(
        lambda gpu: gpu.compute_mode and "prohibited" in gpu.compute_mode.lower(),
        Severity.ERROR,
        "its compute mode forbids computing",
        fact="compute mode {gpu.compute_mode}",
        cost="no program can use it",
        fix="nvidia-smi -c 0 -i {gpu.index}",
    ),
)


def examine(facts: Facts) -> Iterator[Finding]:
    for gpu in facts.snapshot.gpus:
        yield from _of(gpu, facts.who_says(gpu))
    names = sorted({gpu.name for gpu in facts.machine.gpus if gpu.name} if facts.machine else set())
    names = [name for name in names if not _DISPLAY.search(name)]
    if len(names) > 1:
        yield Finding(
            NAME, Severity.NOTE if all(map(_DESKTOP.search, names)) else Severity.WARNING,
            f"GPUs of {len(names)} products in one machine",
            (Evidence(", ".join(names), facts.machine.source if facts.machine else ""),),
            Cost("collectives run at the rate of the slowest"), "use GPUs of one product (CUDA_VISIBLE_DEVICES)",
            Proof(instruction="measure the groups apart"),
        )  # fmt: skip


def _of(gpu: GpuState, where: str) -> Iterator[Finding]:
    for trouble in _TROUBLES:
        if trouble.shows(gpu):
            yield Finding(
                NAME, trouble.severity, f"GPU{gpu.index}: {trouble.what.format(gpu=gpu)}",
                (Evidence(trouble.fact.format(gpu=gpu), where),), Cost(trouble.cost),
                trouble.fix.format(gpu=gpu), _PROOF,
            )  # fmt: skip
