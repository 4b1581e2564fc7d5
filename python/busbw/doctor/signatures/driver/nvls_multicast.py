"""NVLink SHARP (multicast) memory cannot be bound."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="nvls-multicast",
    stage=Stage.DRIVER,
    title=(
        "NVLink multicast (NVLS) cannot be set up: fabric manager, its partition, a container or "
        "confidential computing forbid it"
    ),
    patterns=(
        r"does not support.{0,60}(?:CUDA )?Multicast",
        r"multicast (?:object|team).{0,60}(?:fail|not (?:supported|permitted))",
        r"Failed to bind NVLink SHARP",
        r"NVLS.{0,20}Multicast memory",
        r"nvls\.cc:\d+(?!.{0,200}out of memory).{0,80}(?:fail|Cuda)",
        r"cuMulticast\w+.{0,60}fail",
        r"Multicast (?:support|pointer) requested",
    ),
    explains=(
        "invalid-argument",
        "cuda-not-supported",
    ),
    confirm=(
        "systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A4 Fabric; run once with NCCL_NVLS_ENABLE=0"
    ),
    cure=(
        "restart or update the fabric manager (version of the driver), reset the GPUs; until then NCCL_NVLS_ENABLE=0"
    ),
    versions="NCCL 2.17 and later",
    source="NCCL src/transport/nvls.cc",
)
