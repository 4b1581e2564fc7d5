"""The NIC could not read or write its own buffers."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="ib-local-error",
    stage=Stage.NETWORK,
    title=(
        "the NIC cannot access its own buffer (local length or protection error): sizes differ "
        "between ranks, or GPU memory registration is broken"
    ),
    patterns=(
        r"(?<!vendor )syndrome 0x[124]\b",
        r"Got completion.{0,80}(?:status|error)[= ]\(?(?:1|2|4)\b",
        r"IBV_WC_LOC_(?:LEN|PROT|QP_OP)_ERR",
        r"LOC_(?:LEN|PROT)_ERR",
        r"local (?:length|protection|QP operation) error",
        r"\bstatus[ =:]{1,3}(?:1|2|4|7|8)\b.{0,30}(?:wr_id|vendor|syndrom)",
        r"IBV_WC_(?:LOC_\w+|MW_BIND_ERR|BAD_RESP_ERR)",
        r"local (?:length|QP operation|EE context operation|protection|access) error",
        r"memory (?:management operation|bind operation) error",
    ),
    unless=("got probing completion",),
    explains=("ib-flush", "ib-completion-error"),
    confirm=(
        "run with NCCL_NET_GDR_LEVEL=LOC, then with ACS and IOMMU off; compare counts of the ranks "
        "with NCCL_DEBUG_SUBSYS=COLL"
    ),
    cure=(
        "give all ranks the same counts and types; where GDR is at fault: switch ACS and IOMMU off, "
        "reload nvidia_peermem (or NCCL_DMABUF_ENABLE=0), update firmware"
    ),
    source="ibv_wc_status 1, 2, 4",
)
