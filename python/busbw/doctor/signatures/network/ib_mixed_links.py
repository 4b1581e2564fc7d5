"""NICs of different kinds or subnets are paired."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="ib-mixed-links",
    stage=Stage.NETWORK,
    title="ranks pair NICs that cannot talk: InfiniBand with RoCE, or different speeds or subnets",
    patterns=(
        r"NET/IB.{0,20}Attempted to (?:connect|merge) ",
        r"device is incompatible with the local",
        r"different link_layer",
        r"NET/IB.{0,60}different subnets",
    ),
    confirm="ibv_devinfo | grep -e hca_id -e link_layer on every node",
    cure=(
        "name NICs of one kind with NCCL_IB_HCA (the storage NIC out), the same on all nodes; "
        "NCCL_NET_MERGE_LEVEL=LOC against merged ports"
    ),
    source="NCCL src/transport/net_ib.cc",
)
