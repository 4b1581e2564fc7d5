"""The kernel modules of the NVIDIA driver are not of the kind that the GPU needs."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="driver-flavour",
    stage=Stage.DRIVER,
    title="these GPUs need NVIDIA's open kernel modules, and the closed ones are installed",
    patterns=(
        r"requires use of the NVIDIA open kernel modules",
        r"(?:requires?|needs?) (?:use of )?the (?:NVIDIA )?open(?:-source)? (?:GPU )?kernel modules?",
        r"open (?:GPU )?kernel modules? (?:is|are) required",
        r"not supported by (?:the )?(?:closed|proprietary) (?:NVIDIA )?kernel modules?",
    ),
    explains=("driver-not-loaded", "gpu-not-visible", "fabric-manager", "nvml-missing", "probe-failed", "imex"),
    confirm="modinfo nvidia | grep license: the open modules say Dual MIT/GPL, the closed ones NVIDIA",
    cure=(
        "install the open modules of the same release (nvidia-open, nvidia-driver-NNN-server-open, or "
        "--kernel-module-type=open of the .run file) in place of the closed ones, and reboot; then start the fabric "
        "manager"
    ),
    source="the NVIDIA driver's words (NVRM)",
)
