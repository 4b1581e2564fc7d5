"""A kernel of an expert-parallel exchange (DeepEP) waits in vain for a peer, and then stops itself."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="ep-timeout",
    stage=Stage.NETWORK,
    title="a kernel that sends tokens to experts (DeepEP) waited in vain for another rank, and stopped itself",
    patterns=(
        r"DeepEP (?:error|timeout|\w.{0,60} timeout)\b",
        r"timeout check failed|timeout for (?:dispatch|combine)",
    ),
    explains=("illegal-access", "cuda-call-failed", "watchdog-timeout", "nccl-error"),
    confirm="which source rank the lines of several ranks name; py-spy dump --pid PID there; NVSHMEM_DEBUG=INFO",
    cure=(
        "look at the rank that is waited for: its first error, or another number of calls than its peers. Where all "
        "run, test its RDMA and NVLink (NVSHMEM's own tests), and update DeepEP and NVSHMEM together"
    ),
    source="DeepEP csrc/kernels (timeouts, which end in a trap: CUDA error 719)",
)
