"""An error of NCCL without the line that says why."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="nccl-error",
    stage=Stage.FAILURE,
    title="NCCL failed ({what}); the log does not hold the line that says why",
    patterns=(
        r"NCCL error.{0,200}(?P<what>internal error|invalid argument)",
        r"(?P<what>ncclUnhandledCudaError|unhandled cuda error)",
        r"(?P<what>ncclSystemError|unhandled system error)",
        r"(?P<what>ncclInternalError)",
        r"(?P<what>ncclInvalidUsage)",
        r"(?P<what>ncclInvalidArgument)",
        r"Test NCCL failure .{0,60}'(?P<what>[\w ]{3,40})",
        r"NCCL.{0,20}(?P<what>internal error)",
        r"Test CUDA failure .{0,60}'(?P<what>[^']{3,60})",
        r"(?P<what>invalid usage)",
        r"(?P<what>communicator was aborted(?!.{0,200}(?:watchdog|timeout))|Process group has been aborted)",
        r"\bnccl[A-Z]\w+ failed: (?P<what>[\w ]{5,60})",
        r"NCCL operation (?P<what>\w+).{0,80}failed",
        r"\bNcclError\b.{0,20}NCCL_ERROR_\w+: (?P<what>[\w ]{5,60})",
        r"\bNCCL_ERROR: b?'(?P<what>[\w ]{5,60})",
        r"NCCL error\b.{0,120}\b(?:value|code|status)\W{1,3}(?P<what>\d)\b",
    ),
    unless=("nccl warn ",),
    confirm=("run again with NCCL_DEBUG=INFO on all ranks and give the logs of all of them to busbw doctor"),
    cure=("look for the first NCCL WARN of any rank; with `Last error:` empty only NCCL_DEBUG=INFO tells"),
    source="NCCL src/nccl.h.in: ncclResult_t",
)
