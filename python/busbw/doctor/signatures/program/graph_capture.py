"""CUDA graphs and NCCL calls do not fit together."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="graph-capture",
    stage=Stage.PROGRAM,
    title="a call is not allowed while a CUDA graph is captured",
    patterns=(
        r"NCCL cannot be captured in a graph|not built with CUDA runtime >= 11\.3",
        r"legacy stream depend on a capturing",
        r"(?:not permitted|unsupported) when stream is capturing",
        r"CUDA graph captured",
        r"captured by the same graph",
        r"capture sequence",
        r"cudaErrorStreamCapture\w+",
        r"Cuda failure 90\d\b",
        r"CUDA error: .{0,60}\bcaptur",
        r"graph capture.{0,60}(?:fail|invalid|not )",
        r"being captured by the expected graph",
        r"graph mixing",
        r"cudaErrorStreamCapture\w+|CUDA_ERROR_STREAM_CAPTURE_\w+|operation (?:not permitted"
        r"|would make the legacy stream depend).{0,60}captur",
    ),
    explains=(
        "cuda-not-supported",
        "cuda-call-failed",
    ),
    confirm="run without CUDA graphs (vLLM: --enforce-eager)",
    cure=(
        "warm the communicator up before capturing, capture all calls of a group or none, "
        "NCCL_GRAPH_MIXING_SUPPORT=0 only where no mixing happens"
    ),
    source="CUDA errors 900 to 908; NCCL src/misc/strongstream.cc",
)
