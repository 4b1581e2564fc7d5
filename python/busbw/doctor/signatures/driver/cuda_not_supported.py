"""The platform cannot do what NCCL asks of CUDA."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="cuda-not-supported",
    stage=Stage.DRIVER,
    title=(
        "this platform does not support a CUDA operation that NCCL uses (VM, WSL, MIG, vGPU, or a container's limits)"
    ),
    patterns=(
        r"CU_MEM_HANDLE_TYPE_FABRIC",
        r"CUMEM (?:Host )?(?:is )?not supported prior",
        r"Cu failure: operation not (?:supported|permitted)",
        r"cuMem\w+\(.{0,80}operation not (?:supported|permitted)",
        r"Cuda failure (?:801 )?'?operation not supported(?! on global)",
        r"Cuda failure (?:800 )?'?operation not permitted",
        r"CUDA error: operation not (?:supported|permitted)",
        r"CUDA_ERROR_NOT_(?:SUPPORTED|PERMITTED)",
        r"cudaErrorNotSupported",
        # Host memory by cuMem needs NUMA nodes that the container lets it use.
        r"Failed to CUDA host alloc [1-9]|cuMem(?:Create|HostAlloc)\b.{0,40}NUMA node",
    ),
    explains=("invalid-argument",),
    confirm=("run with NCCL_CUMEM_ENABLE=0, NCCL_NVLS_ENABLE=0 and NCCL_P2P_DISABLE=1 in turn: which one runs"),
    cure=(
        "set the one that runs (NCCL_CUMEM_ENABLE=0 or NCCL_CUMEM_HOST_ENABLE=0 first), switch MIG off, give the "
        "container --cap-add SYS_NICE and its NUMA devices. Where host memory cannot be had, look at free memory and "
        "ulimit -l too"
    ),
    source="CUDA errors 800 and 801; NCCL src/misc/cudawrap.cc",
)
