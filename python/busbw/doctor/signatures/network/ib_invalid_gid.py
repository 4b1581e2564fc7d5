"""A wrong GID or path is refused."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="ib-invalid-gid",
    stage=Stage.NETWORK,
    title=("the RDMA connection is refused as invalid: wrong GID index, subnet, or a mix of InfiniBand and RoCE"),
    patterns=(
        r"non-zero status: 22 .{0,20}ibv_modify_qp",
        r"Error in mlx5dv_devx_obj_modify for INIT2RTR|ibgda_\w{2,4}_init2rtr failed",
        r"ibv_create_ah\(.{0,260}failed: (?:No such|Invalid)",
        r"modify_qp.{0,60}(?:No such device|errno 19)",
        r"ncclIbRoceGetVersionNum",
        r"GID table change",
        r"unknown event type \(18\)",  # the same event, where NCCL has no name for it
        r"^\W{0,4}ibv_modify_qp failed\W{0,4}$",  # NVSHMEM's IBRC, which gives no reason
        r"\bn_gids_found=0\b",  # show_gids
        # 61: the entry of the GID table is empty.
        r"ibv_modify_qp failed with.{0,20}(?:22\b|Invalid argument|61\b|No data available)",
        r"modify_qp.{0,60}(?:Invalid argument|errno 22)",
        r"ibv_query_gid.{0,40}fail",
        r"GID table changed",
        r"No such GID",
        r"\bGID\b.{0,60}(?:is (?:zero|null|empty|not (?:valid|found|set))|: ?(?:::$|0000:0000:0000:0000:0000:0000))",
        r"invalid GID index",
        r"remote FLID configured as zero",
        r"(?:INIT|RTR|RTS) (?:failed|transition).{0,60}Invalid argument",
        r"Failed to modify QP.{0,40}to (?:RTR|RTS)",
    ),
    unless=(
        "errno 110",
        "timed out",
        "next state init",
    ),
    explains=("ibv-call-failed", "nvshmem-init"),
    confirm=(
        "show_gids (or /sys/class/infiniband/*/ports/1/gids) on both nodes: which index is RoCE v2 with an IPv4 address"
    ),
    cure=(
        "unset NCCL_IB_GID_INDEX (NCCL 2.21 and later choose it) or set it to the RoCE v2 entry on all nodes. Give "
        "the interface an address; leave out NICs of another kind by NCCL_IB_HCA"
    ),
    source="NCCL src/misc/ibvwrap.cc; NVSHMEM src/modules/transport/ibgda; errno 22",
)
