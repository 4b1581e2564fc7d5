"""Suspend or resume of a communicator's memory failed."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="memory-manager",
    stage=Stage.PROGRAM,
    title="suspend or resume of NCCL's memory failed: {what}",
    patterns=(
        r"NCCL WARN.{0,20}MemManager: (?P<what>.{5,120})",
        r"(?P<what>Memory (?:suspend|resume) not supported.{0,60})",
    ),
    confirm="the calls of ncclCommSuspend and ncclCommResume of all ranks, in their order",
    cure=(
        "suspend and resume on all ranks, with nothing in flight and without splitShare; leave host memory "
        "for the copy; keep NCCL_CUMEM_ENABLE=1"
    ),
    versions="NCCL 2.29 and later",
    source="NCCL src/mem_manager.cc",
)
