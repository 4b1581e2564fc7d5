"""The kernel's driver of Intel GPUs (i915, xe), or Level Zero, reports a GPU that hangs or is lost."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="intel-gpu-error",
    stage=Stage.HARDWARE,
    title="an Intel GPU hangs, was reset or is lost",
    patterns=(
        r"\b(?:i915|xe) [\da-f:.]{7,16}: .{0,100}"
        r"(?:GPU HANG|Resetting chip|reset failed|Timedout job|wedged|context reset due to GPU hang|CAT error)",
        r"\b(?:UR|ZE|PI|ZE_RESULT|UR_RESULT|PI_RESULT)_ERROR_DEVICE_LOST",
    ),
    confirm="`dmesg | grep -e i915 -e ' xe '`; xpu-smi health -l; xpu-smi diag -d ID -l 1; sycl-ls",
    cure=(
        "drain the node and reset that GPU (xpu-smi config --reset, or reboot). Bring kernel driver, firmware (GuC) "
        "and compute runtime to one release. Where one program alone does it, suspect its kernels: a kernel that runs "
        "longer than the driver's heartbeat allows ends like this too"
    ),
    source="the Linux kernel: drivers/gpu/drm/i915, drivers/gpu/drm/xe; Level Zero's error codes",
    explains=("python-exception", "oneccl-error", "process-crashed"),
)
