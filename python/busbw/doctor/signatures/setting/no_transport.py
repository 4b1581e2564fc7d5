"""No transport is left between two ranks."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="no-transport",
    stage=Stage.SETTING,
    title="no transport is left between two ranks: {what}",
    patterns=(
        r"(?P<what>No transport found for rank \d+\S{0,20} -> rank \d+)",
        r"(?P<what>no transport for .{0,20}peer \d+)",
    ),
    confirm="env | grep -e NCCL_P2P -e NCCL_SHM -e NCCL_NET -e NCCL_IB; the same in /etc/nccl.conf",
    cure=(
        "unset NCCL_P2P_DISABLE and NCCL_SHM_DISABLE, and let the network be found (NCCL_NET, "
        "NCCL_SOCKET_IFNAME): one of P2P, SHM and NET must be left between any two ranks"
    ),
    source="NCCL src/transport.cc",
)
