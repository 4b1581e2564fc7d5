"""GPU memory is full."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage

_UNITS = {"bytes": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
TOO_LARGE = "one tensor is larger than all of its memory"
"""Words of the title of a request that no GPU of this size can grant."""
_SIZE = r"\d[\d.]{0,12} (?:[KMGT]iB|bytes)"


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """Who asked for how much of which GPU, as PyTorch tells it of the first one."""
    first = next((each for each in groups if "asked" in each), None)
    if first is None:
        places = dict.fromkeys((each["host"], each["dev"]) for each in groups if "dev" in each and "host" in each)
        on = ", ".join(f"GPU {dev} on {host}" for host, dev in list(places)[:3])
        more = " and others" if len(places) > 3 else ""
        return f"a GPU's memory is full: {on}{more}" if on else "a GPU's memory is full"
    who = f"rank {first['who']}" if "who" in first else "a process"
    asked, free, total = (first.get(name, "") for name in ("asked", "free", "total"))
    title = f"a GPU's memory is full: {who} asked for {asked} of GPU {first.get('gpu', '?')}"
    title += f", of whose {total} are {free} free" if free and total else ""
    if total and _bytes(asked) > _bytes(total):
        title += f": {TOO_LARGE} (a far longer sample or a wrong shape)"
    return title


def _bytes(size: str) -> float:
    number, _, unit = size.partition(" ")
    try:
        return float(number) * _UNITS[unit]
    except (KeyError, ValueError):
        return 0.0


SIGNATURE = Signature(
    name="gpu-memory-full",
    stage=Stage.PROGRAM,
    title="a GPU's memory is full",
    patterns=(
        rf"(?:\[rank(?P<who>\d{{1,7}})\].{{0,200}}?)?Tried to allocate (?P<asked>{_SIZE})\. GPU (?P<gpu>\d{{1,3}}) has "
        rf"a total capacity of (?P<total>{_SIZE}) of which (?P<free>{_SIZE}) is free",
        rf"(?:\[rank(?P<who>\d{{1,7}})\].{{0,200}}?)?Tried to allocate (?P<asked>{_SIZE}) \(GPU (?P<gpu>\d{{1,3}}); "
        rf"(?P<total>{_SIZE}) total capacity; .{{0,80}}?(?P<free>{_SIZE}) free",
        r"(?P<host>[A-Za-z][\w.-]{0,80}):\d{1,8}:\d{1,8} \[(?P<dev>\d{1,3})\] \S{0,60} ?NCCL WARN "
        r"(?:Cuda failure (?:2 )?'out of memory'|Failed to CUDA [mc]alloc)",
        r"OutOfMemoryError: Out of memory allocating [\d,]+ bytes",
        r"OOM when allocating tensor with shape.{0,200}device:GPU",
        r"[Ff]ailed to allocate \d{1,16} bytes on memory \w{1,20} \(of kind GPU_(?:FB|DYNAMIC)_MEM",  # Legate
        r"bad_alloc: out_of_memory\b",
        r"Requested amount of GPU memory \(\d+ bytes\) could not",
        r"\[TRT\].{0,120}Cuda Runtime \(out of memory\)",
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
        r"(?:CUDA|NPU|XPU|HPU|MUSA|MLU) out of memory",
        r"MODULE:PT_DEVMEM Allocation failed",  # Gaudi
        r"Out of memory error on (?:GPU|XPU|NPU) \d{1,3}\. Cannot allocate",  # Paddle
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
        "npu-error",
        "gaudi-error",
        "oneccl-error",
    ),
    later=("illegal-access",),
    confirm="nvidia-smi during the run: which process holds how much",
    cure=(
        "leave NCCL its part (about 0.5 to 2 GiB per GPU and more with many communicators): smaller "
        "batches, PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, fewer channels (NCCL_MAX_CTAS), "
        "smaller NCCL_BUFFSIZE; end other processes"
    ),
    source="CUDA error 2; NCCL src/include/alloc.h",
    tell=tell,
)
