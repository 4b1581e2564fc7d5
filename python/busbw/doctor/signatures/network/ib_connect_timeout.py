"""An RDMA connection could not be made within its time."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="ib-connect-timeout",
    stage=Stage.NETWORK,
    title="the RDMA connection to the peer cannot be made: the NIC finds no way to it (timed out)",
    patterns=(
        r"non-zero status: 110 .{0,20}ibv_modify_qp",
        r"ibv_create_ah\(.{0,260}failed: (?!No such|Invalid)",
        r"ibv_modify_qp failed with.{0,20}(?:110\b|Connection timed out)",
        r"modify_qp.{0,60}(?:timed out|errno 110|No route|Network is unreachable|errno 113|errno 101)",
        r"ibv_create_ah.{0,60}(?:fail|timed out)",
        r"modify(?:ing)? QP.{0,20} to RT[RS]\b.{0,60}(?:timed out|errno:? 110|unreachable|No route)",
        r"RDMA_CM_EVENT_(?:ADDR_ERROR|ROUTE_ERROR|CONNECT_ERROR|UNREACHABLE|ADDR_CHANGE|TIMEWAIT_EXIT)",
        r"\brdma_(?:resolve_\w+|connect|bind_addr|accept)\w*\b.{0,60}(?:No such|fail|error|timed out|annot)",
        r"modify_qp to RT[RS].{0,60}timed out",
        r"Received \d{1,4} times (?:ADDR|ROUTE)_ERROR|Unable to perform rdma_(?:client|server) function",  # perftest
    ),
    explains=("ibv-call-failed",),
    confirm="show_gids; ping -I INTERFACE from each RDMA interface to each of the peer's",
    cure=(
        "on RoCE every NIC must reach its peers' NICs: check routes and ARP for each rail (NCCL_CROSS_NIC=0 for "
        "separate rails). Set NCCL_IB_HCA to the NICs that are connected, and NCCL_IB_GID_INDEX to that of RoCE v2 "
        "(often 3)"
    ),
    source="NCCL src/misc/ibvwrap.cc; errno 110",
)
