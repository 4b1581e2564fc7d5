"""GPU memory cannot be shared between processes of one host."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="cuda-ipc",
    stage=Stage.SYSTEM,
    title=(
        "processes of one host cannot share GPU memory (CUDA IPC): their containers hide each other or see other GPUs"
    ),
    patterns=(
        r"failed to open ipc mem handle|CUDART error: (?:invalid resource handle|peer access)",
        r"_new_shared_cuda\(",
        r"\bcuda_ipc_\w{2,20}\.c:\d{1,6}\b.{0,160}(?:ERROR|fail)",  # UCX
        r"hipIpc(?:Open|Get)MemHandle",
        r"failed to open CUDA IPC handle",
        r"transport/p2p\.cc:\d+.{0,40}Cuda failure (?:1|101|400|201)\b",
        r"p2p\.cc.{0,60}'(?:invalid device ordinal|invalid resource handle|invalid argument)'",
        r"cudaIpc(?:Open|Get)MemHandle",
        r"cuIpc(?:Open|Get)MemHandle",
        r"Legacy IPC not supported",
        r"failed to peer with device",
        r"UDS: (?:Binding|Sending|Receiving|Socket)",
        r"peer mapping resources exhausted",
        r"mapping of buffer object failed",
        r"Cuda failure (?:205|208|711)\b",
        r"ncclProxyClient(?:GetFd|QueryFd|ConvertFd)\w* call to",
        r"UDS: Cannot (?:bind|connect)",
        r"custom_all_reduce\.cuh?:\d+.{0,20}'(?:invalid (?:argument|resource|device)|resource already)",
        r"pidfd_(?:getfd|open)\b",
        r"\[fd_exchange\]|cuda_fd_xchg_|failed to (?:send|receive) fd\b",
        r"IPC memory creation failed|Failed to create memory for IPC",
        r"\bopen_ipc_(?:memory|handle)\b",
        r"Cannot re-import peer buffer",
        r"cudaErrorMapBufferObjectFailed|CUDA_ERROR_MAP_FAILED|cudaErrorTooManyPeers|peer mapping resources exhausted",
    ),
    unless=(
        "too many open files",
        "peer access is not supported",
    ),
    explains=(
        "gpu-not-visible",
        "invalid-argument",
        "cuda-call-failed",
        "python-exception",
        "mpi-network",
        "kv-transfer",
    ),
    confirm=(
        "run once with NCCL_P2P_DISABLE=1: if it runs, sharing is the fault; compare the "
        "containers' pid and IPC namespaces"
    ),
    cure=(
        "let all ranks of a host share pid and IPC namespaces (--ipc=host --pid=host) and see all GPUs, choosing "
        "theirs by cudaSetDevice instead of one CUDA_VISIBLE_DEVICES each. A host name that repeats over hosts needs "
        "NCCL_HOSTID. Where PyTorch's expandable_segments is on, switch it off, or add the container's capability "
        "SYS_PTRACE"
    ),
    source="NCCL src/transport/p2p.cc, src/misc/ipcsocket.cc",
)
