"""CUDA's multi-process service stands in the way."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="mps",
    stage=Stage.DRIVER,
    title="CUDA's multi-process service (MPS) is not reachable or failed",
    patterns=(
        r"User did not send valid credentials",
        r"\bMPS\b.{0,60}assuming client exit",
        r"Control +\d+\] .{0,60}(?:fail|denied|unable)",
        r"\bMPS (?:client|server|daemon|control)\b.{0,80}(?:fail|error|not|terminated|unavailable)",
        r"\bthe MPS (?:server|client|control daemon)",
        r"cudaErrorMps\w+|CUDA_ERROR_MPS_\w+",
        r"Cuda failure 80[5-9]\b",
        r"MPS (?:client failed to connect|server is not ready|server has been shut|server is not"
        r"|client terminated)|maximum number of MPS",
    ),
    confirm="ps aux | grep nvidia-cuda-mps; echo $CUDA_MPS_PIPE_DIRECTORY in the job",
    cure=(
        "start it for the job's user (nvidia-cuda-mps-control -d) and give containers its pipe folder, or end it "
        "(echo quit | nvidia-cuda-mps-control) and unset CUDA_MPS_PIPE_DIRECTORY"
    ),
    source="CUDA errors 805 to 809",
    explains=("cuda-call-failed",),
)
