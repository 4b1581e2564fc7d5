"""The other NIC refused the access."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="ib-remote-error",
    stage=Stage.NETWORK,
    title=(
        "the remote NIC refused an access (remote access or operation error): GPU memory "
        "registration or PCIe of the peer"
    ),
    patterns=(
        r"(?<!vendor )synd(?:rome)? 0x1[234]\b",
        r"Got completion.{0,80}(?:status|error)[= ]\(?(?:9|10|11)\b",
        r"IBV_WC_REM_\w+_ERR",
        r"remote (?:access|invalid request|operation) error",
        r"REM_(?:ACCESS|OP|INV_REQ)_ERR",
        r"\bstatus[ =:]{1,3}(?:9|10|11)\b.{0,30}(?:wr_id|vendor|syndrom)",
        r"IBV_WC_REM_\w+",
        r"remote (?:invalid request|access|operation|aborted) error|remote invalid RD request",
    ),
    explains=("ib-flush", "ib-completion-error"),
    confirm="dmesg on the peer for mlx5 and IOMMU lines; run with NCCL_NET_GDR_LEVEL=LOC",
    cure=(
        "switch ACS and IOMMU off on the peer, use the same driver, OFED and nvidia_peermem on all "
        "nodes; NCCL_IB_PCI_RELAXED_ORDERING=0 where relaxed ordering is at fault"
    ),
    source="ibv_wc_status 9, 10, 11",
)
