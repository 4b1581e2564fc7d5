"""PyTorch's distributed package reports an error that no other signature knows."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="torch-distributed-error",
    stage=Stage.FAILURE,
    title="PyTorch's distributed package reports: {what}",
    patterns=(
        r"torch\.distributed\.(?P<what>Dist\w*Error: .{4,140})",
        r"c10::Dist\w*Error.{0,20}(?P<what>.{0,120})",
        r"\[E\S{0,6} ?[\d:. ]{0,24}(?:ProcessGroup\w+|TCPStore|socket|NCCLUtils)\.\wpp:\d+\] (?P<what>.{5,140})",
    ),
    unless=(
        "warning",
        "has not been destroyed",
        "was not called",
        "is deprecated",
    ),
    confirm="TORCH_DISTRIBUTED_DEBUG=DETAIL and TORCH_CPP_LOG_LEVEL=INFO, the logs of all ranks",
    cure="look for the first error of any rank by time; world size, backend and device must agree on all ranks",
    source="torch/csrc/distributed/c10d",
    last=True,
)
