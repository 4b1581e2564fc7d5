"""NCCL could not move from a failed NIC to another one."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="ib-failover",
    stage=Stage.NETWORK,
    title="a NIC failed and NCCL could not move its traffic to another one (RDMA resiliency)",
    patterns=(
        r"p2p_resiliency\w*\.\w{1,2}:\d+ NCCL WARN",
        r"NCCL WARN.{0,10}NET/IB: .{0,60}(?:functional device|replacement QP|probing attempts|Resiliency)",
        r"NCCL WARN.{0,10}NET/IB: .{0,40}(?:failed request|stale CQE|request reposting|alive message)",
        r"NCCL WARN.{0,10}NET/IB: .{0,40}The error is fatal",
    ),
    confirm="the first completion error before it names the NIC; `dmesg | grep mlx5`; ibstat; mlxlink -d DEVICE",
    cure=(
        "repair the link or NIC that failed first; with one NIC per GPU there is nothing to move to, so that "
        "resiliency is best off"
    ),
    versions="NCCL 2.29 and later",
    source="NCCL src/transport/net_ib/p2p_resiliency.cc",
)
