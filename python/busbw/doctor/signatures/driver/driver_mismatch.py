"""The loaded kernel module and the driver's libraries differ."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="driver-mismatch",
    stage=Stage.DRIVER,
    title="the NVIDIA kernel module and the driver's libraries are of different versions",
    patterns=(
        r"NVML/RM version mismatch|LibRmVersionMismatch|LIB_RM_VERSION_MISMATCH",
        r"Driver/library version mismatch",
        r"system has unsupported display driver / cuda driver combination",
        r"Cuda failure 803\b",
        r"API mismatch: the client (?:has the version|'[^']{1,40}' \(pid)",
        r"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        r"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH|system has unsupported display driver / cuda driver combination",
    ),
    explains=("driver-not-loaded", "gpu-not-visible", "slurm-resources"),
    confirm="cat /proc/driver/nvidia/version; nvidia-smi",
    cure=(
        "reboot, or unload and load the nvidia modules, so that both come from one driver; in "
        "containers remove CUDA compatibility libraries"
    ),
    source="CUDA error 803; NVML_ERROR_LIB_RM_VERSION_MISMATCH",
)
