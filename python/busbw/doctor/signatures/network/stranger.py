"""Somebody else talks to NCCL's port."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="stranger",
    stage=Stage.NETWORK,
    title=(
        "something that is not this job connected to NCCL's port (a port scanner, or ranks of another job or version)"
    ),
    patterns=(
        r"wrong magic",
        r"(?:didn't|did not) receive a valid magic",
        r"wrong type \d+ != \d+",
        r"magic mismatch",
        r"wrong socket type",
    ),
    confirm="which hosts are in the address that the line names",
    cure=(
        "keep security scanners off the nodes' ports; make sure that all ranks got this job's "
        "unique id (MASTER_ADDR and MASTER_PORT of one job)"
    ),
    source="NCCL src/misc/socket.cc",
)
