"""XLA reports an error that no other signature knows."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="xla-error",
    stage=Stage.FAILURE,
    title="XLA reports: {what}",
    patterns=(
        r"XlaRuntimeError: (?P<what>.{5,160})",
        r"JaxRuntimeError: (?P<what>.{5,160})",
        r"\bxla\b.{0,160}(?P<what>(?:INTERNAL|FAILED_PRECONDITION|ABORTED|UNAVAILABLE|DEADLINE_EXCEEDED): .{5,140})",
    ),
    unless=(
        "warning",
        "not a failure",
    ),
    confirm="NCCL_DEBUG=INFO and TF_CPP_MIN_LOG_LEVEL=0 TF_CPP_VMODULE=nccl_collectives=3 on all processes",
    cure=(
        "look for the first error of any process; every process must be started and reach the coordinator; "
        "where NCCL is named, its own warning says why"
    ),
    source="XLA's own words",
    last=True,
)
