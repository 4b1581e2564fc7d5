"""NCCL_COMM_ID is not an address."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="invalid-comm-id",
    stage=Stage.SETTING,
    title="NCCL_COMM_ID is not of the form address:port",
    patterns=(
        r"Invalid NCCL_COMM_ID",
        r"No valid <?IPv4",
        r"No valid \[IPv6\]",
        r"should not be called when NCCL_COMM_ID is set",
    ),
    confirm="env | grep NCCL_COMM_ID",
    cure="unset NCCL_COMM_ID, or give host:port of rank 0, the same on every rank",
    source="NCCL src/bootstrap.cc, src/misc/socket.cc",
)
