"""GPU memory is full."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="gpu-memory-full",
    stage=Stage.PROGRAM,
    title="a GPU's memory is full",
    patterns=(
        r"OutOfMemoryError: Out of memory allocating [\d,]+ bytes",
        r"NVML_SUCCESS == r.{0,20}INTERNAL ASSERT FAILED",
        r"RESOURCE_EXHAUSTED: (?:Out of memory|Failed to allocate)",
        r"ran out of memory trying to allocate",
        r"Free memory on device .{0,80}is less than desired",
        r"No available memory for the cache blocks",
        r"(?:larger than|exceeds) the (?:maximum number of tokens that can be stored in|available) KV cache",
        r"HIP out of memory",
        r"Test CUDA failure .{0,80}'out of memory'",
        r"memory capacity is unbalanced|GPUs? may be occupied by other processes",
        r"hipErrorOutOfMemory",
        r"Not enough memory\. Please try to increase --mem-fraction",
        r"CUDA out of memory",
        r"Cuda failure (?:2 )?'out of memory'",
        r"torch\S{0,6}OutOfMemoryError",
        r"CUDA_ERROR_OUT_OF_MEMORY",
        r"Failed to CUDA (?:m|c)alloc",
        r"CUDA error: out of memory",
        r"cudaMalloc.{0,60}out of memory",
        r"CUBLAS_STATUS_ALLOC_FAILED",
        r"cudaErrorMemoryAllocation",
        r"HSA_STATUS_ERROR_OUT_OF_RESOURCES",
        r"non-zero status: 2 cu(?:MemCreate|MemAlloc|daMalloc)\w* failed",  # NVSHMEM's heap; CUDA_ERROR_OUT_OF_MEMORY
    ),
    unless=("on host:", "cudahostalloc", "cudamallochost", "cudahostregister"),
    explains=(
        "nvls-multicast",
        "gpu-exception",
        "nccl-error",
        "nvshmem-init",
    ),
    later=("illegal-access",),
    confirm="nvidia-smi during the run: which process holds how much",
    cure=(
        "leave NCCL its part (about 0.5 to 2 GiB per GPU and more with many communicators): smaller "
        "batches, PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, fewer channels (NCCL_MAX_CTAS), "
        "smaller NCCL_BUFFSIZE; end other processes"
    ),
    source="CUDA error 2; NCCL src/include/alloc.h",
)
