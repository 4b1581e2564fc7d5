"""Any other error of CUDA."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="cuda-call-failed",
    stage=Stage.FAILURE,
    title="a call of CUDA failed: {what}",
    patterns=(
        r"(?P<what>Loaded runtime CuDNN library: [\d.]+ but source was compiled with: [\d.]+)",
        r"(?P<what>(?:CUDART? error|CUDA error)\b.{0,40}invalid (?:resource handle|argument))",
        r"\(error code (?P<what>[\w -]{4,60})\)",
        r"HIP failure (?:\d+ )?'(?P<what>[^']{2,80})",
        r"HIP error: (?P<what>[\w -]{4,80})",
        r"(?P<what>CU(?:BLAS|DNN|SPARSE|SOLVER|FFT)_STATUS_(?!ALLOC)\w+)",
        r"CUDA driver error: (?P<what>[\w -]{4,80})",
        r"(?P<what>hipError[A-Z]\w+)",
        r"Cuda failure (?:\d+ )?'(?P<what>[^']{2,80})",
        r"CUDA error: (?P<what>[\w -]{4,80})",
        r"Test CUDA failure .{0,60}'(?P<what>[^']{3,60})",
        r"Cu(?:da)? (?:failure|error).{0,60}[:'] ?(?P<what>[\w -]{4,60})",
        r"(?P<what>CUDA_ERROR_\w+)",
        r"(?P<what>cudaError[A-Z]\w+)",
        r"(?P<what>Failed to (?:create|set) CUDA (?:context|device)(?: (?:on device )?\d+)?)",
        r"cudaHostUnregister after setup failure failed: (?P<what>.{3,60})",
        r"failed to restore CUDA stream capture mode: (?P<what>.{3,60})",
        r"NCCL WARN (?P<what>Retrieve CUDA.{3,40})",
    ),
    explains=("nccl-error",),
    confirm="`dmesg | grep -i xid` on that host; CUDA_LAUNCH_BLOCKING=1; dcgmi diag -r 2",
    cure=(
        "an earlier error of a kernel shows up here too: look at the first error of that rank; "
        "where the GPU itself fails, reset it"
    ),
    source="NCCL src/include/checks.h; CUDA's error codes",
)
