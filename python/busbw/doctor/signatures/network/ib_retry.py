"""The other side of an RDMA connection never answered."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="ib-retry",
    stage=Stage.NETWORK,
    title=("RDMA packets get no answer from the other node (retry exceeded): fabric, routing, GID or a dead peer"),
    patterns=(
        r"(?<!vendor )synd(?:rome)? 0x15\b",
        r"Fatal error\. Detected \d+ failed devices",
        r"transport retry count\w* exceeded",
        r"Got completion.{0,80}(?:status|error)[= ]\(?12\b",
        r"IBV_WC_RETRY_EXC_ERR",
        r"transport retry counter exceeded",
        r"vendor[_ ]err(?:or)?[ =]*129\b",
        r"retry exceeded",
        r"(?<!RNR_)RETRY_EXC_ERR",
        r"\bstatus[ =:]{1,3}12\b.{0,30}(?:wr_id|vendor|syndrom)",
        r"IBV_WC_(?:RETRY_EXC|RESP_TIMEOUT)_ERR",
        r"response timeout error",
    ),
    unless=("rnr_retry", "rnr retry", "receiver not ready"),
    explains=("ib-flush", "ib-completion-error"),
    confirm=(
        "ib_write_bw between the two hosts named by localGid and remoteGids (-x GID index); ibping, "
        "perfquery, show_gids"
    ),
    cure=(
        "check cable, port and switch between the two; on RoCE set NCCL_IB_GID_INDEX to the RoCE v2 entry of "
        "show_gids and lossless queues (NCCL_IB_TC). Raise NCCL_IB_TIMEOUT=22 on large fabrics; if the peer died, "
        "find out why"
    ),
    source="NCCL src/transport/net_ib.cc; ibv_wc_status 12",
)
