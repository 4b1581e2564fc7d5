"""The GPU takes no further process."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="gpu-exclusive",
    stage=Stage.DRIVER,
    title="the GPU takes no further process: exclusive compute mode, or another job holds it",
    patterns=(
        r"NVMLError_InUse|NVML_ERROR_IN_USE",
        r"Compute Mode {2,}: Prohibited",
        r"CUDA-capable device\(s\) is/are busy or unavailable",
        r"Cuda failure 46\b",
        r"exclusive-process device in use",
        r"devices? (?:is|are) busy or unavailable",
        r"cudaErrorDevicesUnavailable|CUDA_ERROR_DEVICE_UNAVAILABLE"
        r"|exclusive-thread device already in use|(?:is|are) busy or unavailable",
    ),
    confirm="nvidia-smi --query-gpu=compute_mode --format=csv; nvidia-smi pmon -c 1",
    cure="nvidia-smi -c DEFAULT, end the other process, or give each rank its own GPU",
    source="CUDA error 46",
)
