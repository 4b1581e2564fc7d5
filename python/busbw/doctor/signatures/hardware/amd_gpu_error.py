"""The kernel's driver of AMD GPUs, or its runtime, reports a GPU that hangs or is broken."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="amd-gpu-error",
    stage=Stage.HARDWARE,
    title="an AMD GPU hangs, was reset or reports a hardware error",
    patterns=(
        r"\bHSA exception: ",
        r"amdgpu_job_timedout",
        r"amdgpu\b.{0,120}(?:ring \S{1,40} timeout|GPU reset (?:begin|failed)|uncorrectable|hardware error|wedged)",
        r"amdgpu\b.{0,120}(?:RAS (?:controller|poison)|VRAM is lost|page fault|reset method|in unrecoverable state)",
        r"\bMES (?:failed to respon|might be in unrecoverable)",
        r"amdgpu: (?:qcm fence wait loop timeout|Failed to evict|Failed to quiesce)",
        r"HW Exception by GPU",
        r"HSA_STATUS_ERROR_(?:HARDWARE|EXCEPTION|INVALID_PACKET|ILLEGAL|MEMORY_APERTURE|MEMORY_FAULT)\w*",
        r"Callback: Queue \S{1,40} aborting with error(?!.{0,40}OUT_OF_RESOURCES)",
        r"amdgpu\b.{0,80}(?:bad pages.{0,20}reaches threshold|RAS records.{0,20}exceed\w* threshold)",
        r"uncorrectable hardware errors? ?(?:\(|detected)",
        # rocm-smi and amd-smi head a list of counts by these words, and most counts are 0.
        r"(?<!no )(?<!without )XGMI(?! Error (?:status =|counts? ?: 0\b|status ?: \w{0,20}NO_ERR)|_STATUS_NO_ERR)"
        r"(?:(?! \S{0,20}errors? (?:detected|counts?)? ?: 0\b)[^|\n]){0,80}(?:error|fail|link down)",
        r"amdgpu\b.{0,120}(?:Fatal error during GPU init|hw_init of IP block \S{1,16} failed|device_ip_init failed"
        r"|not done with your previous command|device lost from bus)",
        r"amdgpu: probe of \S{1,20} failed with error|probe with driver amdgpu failed",
        r"hipErrorECCNotCorrectable",
        r"VM_L2_PROTECTION_FAULT|VM_CONTEXT\d+_PROTECTION",
    ),
    confirm="`dmesg | grep -i amdgpu`; rocm-smi --showrasinfo; amd-smi ras; rocminfo",
    cure=(
        "drain the node, reset the GPU (amd-smi reset -G) or reboot. Where the ring times out under one program "
        "alone, suspect its kernels; replace a GPU whose RAS counters grow"
    ),
    source="the Linux kernel: drivers/gpu/drm/amd; ROCr's error codes",
    explains=("illegal-access",),
)
