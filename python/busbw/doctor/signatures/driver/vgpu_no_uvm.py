"""A virtual GPU without unified memory, which CUDA needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def _both(groups: Sequence[Mapping[str, str]]) -> bool:
    """A virtual GPU alone is no fault, and the error has other causes on other GPUs."""
    return any("gpu" in each for each in groups) and any("call" in each for each in groups)


SIGNATURE = Signature(
    name="vgpu-no-uvm",
    stage=Stage.DRIVER,
    title="the GPU is a virtual one (vGPU) on which the hypervisor leaves unified memory (UVM) off, which NCCL needs",
    patterns=(
        r"\b(?:GRID|NVIDIA) (?P<gpu>(?:RTX ?)?[A-Z]{0,2}\d{1,4}\w{0,3}-\d{1,3}[CQB])\b",
        r"(?P<gpu>Virtualization Mode {0,40}: {0,3}VGPU)",
        # Where NCCL asks CUDA for the first time; later it is told so of missing P2P too.
        r"(?P<call>\b(?:init|cudawrap)\.cc:\d{1,5} NCCL WARN Cuda failure (?:801 )?'operation not supported')",
    ),
    holds=_both,
    explains=("cuda-not-supported", "cuda-call-failed", "nccl-error"),
    confirm="nvidia-smi -q | grep -i -A2 virtualization; a cudaMallocManaged program fails there with error 801 too",
    cure=(
        "switch unified memory on for the vGPU (VMware: pciPassthru0.cfg.enable_uvm=1 of each vGPU; KVM: enable_uvm of "
        "the mdev), or pass whole GPUs through. NCCL's variables do not help"
    ),
    source="NVIDIA vGPU documentation: unified memory; CUDA error 801",
)
