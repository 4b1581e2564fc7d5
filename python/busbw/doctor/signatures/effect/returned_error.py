"""A call of NCCL failed, and the log holds only on which way its error came back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage

_RESULTS = {
    "1": "ncclUnhandledCudaError: a call of CUDA failed",
    "2": "ncclSystemError: a call of the system or of a network library failed",
    "3": "ncclInternalError: NCCL met a state that it does not expect, often after the error of another rank",
    "4": "ncclInvalidArgument: the program gave a wrong argument",
    "5": "ncclInvalidUsage: the program or the installation uses NCCL wrongly, such as one GPU for two ranks",
    "6": "ncclRemoteError: another rank failed or its network did",
}
"""By the numbers of ncclResult_t in nccl.h."""


def _tell(groups: Sequence[Mapping[str, str]]) -> str:
    first = groups[0]
    return f"NCCL gave up at {first['where']} ({_RESULTS[first['code']]}); the line that says why is not in this log"


SIGNATURE = Signature(
    name="returned-error",
    stage=Stage.EFFECT,
    title="NCCL gave up at {where}; the line that says why is not in this log",
    tell=_tell,
    patterns=(
        r"NCCL INFO (?:\S{1,60}/)?(?P<where>(?:init|group|enqueue|transport)\.c[cu]:\d{1,6}) -> (?P<code>[1-6])\b",
    ),
    last=True,
    echo=True,
    soft=True,
    confirm="the lines before it, of all ranks: NCCL_DEBUG=INFO, and give the logs of all of them to busbw doctor",
    cure=(
        "look for the first NCCL WARN of any rank, which names the cause. Where no rank has one, run again with "
        "NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=ALL, and see `dmesg` of that host"
    ),
    source="NCCL src/nccl.h.in: ncclResult_t; src/include/checks.h",
)
