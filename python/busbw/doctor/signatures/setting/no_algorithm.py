"""The forced algorithm and protocol cannot do this collective."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="no-algorithm",
    stage=Stage.SETTING,
    title="the forced NCCL_ALGO or NCCL_PROTO leaves no way to do this collective",
    patterns=(
        r"no algorithm/protocol available",
        r"No algorithm.{0,20}available for function",
    ),
    confirm="env | grep -e NCCL_ALGO -e NCCL_PROTO",
    cure=(
        "unset NCCL_ALGO and NCCL_PROTO, or limit them to a collective that they know "
        "(NCCL_ALGO=allreduce:tree;allgather:ring)"
    ),
    source="NCCL src/enqueue.cc",
)
