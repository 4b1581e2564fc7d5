"""Ranks that exchange different sizes."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="message-truncated",
    stage=Stage.PROGRAM,
    title=(
        "ranks send and receive different sizes: their calls do not belong together (count, type or order differ), or "
        "their NCCL variables differ"
    ),
    patterns=(
        r"Message truncated",
        r"collective mismatch error",
        r"posted incorrect receive info",
    ),
    confirm=("NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL on all ranks: compare opCount, count and datatype line by line"),
    cure=(
        "give all ranks the same order of collectives and counts. Set NCCL_PROTO, NCCL_ALGO, NCCL_BUFFSIZE and the "
        "like on all ranks alike, or on none; one NCCL version and network plugin everywhere. Two communicators must "
        "not be used at once without order"
    ),
    source="NCCL src/misc/socket.cc, src/transport/net_ib.cc",
)
