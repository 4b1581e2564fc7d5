"""Where NCCL adds to an error what it mostly comes from."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="nccl-hint",
    stage=Stage.NETWORK,
    severity=Severity.WARNING,
    title="NCCL itself names what its error mostly comes from: {what}",
    patterns=(r"HINT: In many cases this (?:error|issue) (?:occurs (?:when )?|indicates )(?P<what>.{10,140})",),
    confirm="do what NCCL's next line (HINT: To confirm) says, and see whether the error is gone",
    cure=(
        "try what NCCL's hints say, one after the other: NCCL_CROSS_NIC=0, NCCL_IB_GID_INDEX=-1, NCCL_NET_GDR_LEVEL=0, "
        "NCCL_IB_TIMEOUT=22"
    ),
    versions="NCCL 2.29 and later",
    source="NCCL src/transport/net_ib",
)
