"""A buffer is registered as a window of symmetric memory while a CUDA graph is captured."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def _holds(groups: Sequence[Mapping[str, str]]) -> bool:
    """Whether a call was refused in a capture, and it is one that registers a window."""
    said = {name for each in groups for name in each}
    return {"capture", "window"} <= said


SIGNATURE = Signature(
    name="window-in-capture",
    stage=Stage.PROGRAM,
    title=(
        "a buffer is registered with NCCL as a window (symmetric memory) while a CUDA graph is captured, where that is "
        "not allowed"
    ),
    patterns=(
        r"(?P<window>dev_runtime|symmetric)\.cc:\d{1,5} NCCL WARN Cuda failure (?P<capture>90\d)\b",
        r"(?P<capture>Cuda failure 90\d)\b",
        r"(?P<capture>when stream is capturing|cudaErrorStreamCapture\w{1,30}|previous error during capture)",
        r"\bin (?P<window>register_comm_window\w{0,12}|ncclCommWindowRegister|ncclCommRegister)\b",
        r"(?P<window>ncclCommWindowRegister|ncclCommRegister)\b.{0,60}(?:fail|error)",
    ),
    holds=_holds,
    explains=("graph-capture", "cuda-call-failed", "cuda-not-supported", "process-crashed", "invalid-argument"),
    confirm="run without CUDA graphs (vLLM and SGLang: eager mode), or without symmetric memory: either one must pass",
    cure=(
        "switch NCCL's symmetric memory off: unset VLLM_USE_NCCL_SYMM_MEM (SGLang: no --enable-symm-mem), or run "
        "without graphs (--enforce-eager, --disable-cuda-graph). In a program of your own register the buffers before "
        "the capture begins; newer releases of the server do so"
    ),
    versions="NCCL 2.27 and later",
    source="NCCL src/dev_runtime.cc (windows); CUDA errors 900 to 908",
)
