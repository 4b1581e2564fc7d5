"""NICs cannot reach GPU memory."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="gdr-unavailable",
    stage=Stage.SETTING,
    title=("NICs cannot reach GPU memory (GPU Direct RDMA): nvidia_peermem is not loaded and DMA-BUF is not available"),
    patterns=(
        r"^\W{0,3}ERRNO: Bad address",
        r"neither nv_peer_mem.{0,60}detected",
        r"GDR is not enabled",
        r"requires DMABUF support",
        r"ibv_reg_mr_iova2? failed.{0,40}Bad address",
        r"ibv_reg_mr\w* failed.{0,40}(?:Bad address|errno 14)",
        r"reg_dmabuf_mr.{0,60}(?:fail|not supported)",
        r"nv(?:idia)?_peer_?mem.{0,80}(?:not (?:loaded|found)|fail|could not)",
        r"nv(?:idia)?_peer_?mem.{0,80}(?:Invalid argument|Unknown symbol|disagrees)",
        r"Peermem is not supported",
        r"[Ff]ailed to (?:create|register|allocate) \w*MR with GPU memory|\bnvidia_peermem loaded\?",
        r"GPUDirect RDMA.{0,40}(?:not available|unavailable|disabled|not supported)",
        r"modprobe.{0,40}nvidia.peermem",
        r"nvidia_p2p_\w{3,40}\b.{0,80}(?:returned -|fail|error|invalid|Unable)|[Ff]ailed to (?:map|pin) .{0,20}\bBAR1",
        r"nv_(?:mem_)?(?:acquire|get_pages|dma_map|p2p)\w{0,30}\b.{0,80}(?:returned -|fail|[Ee]rror|invalid)",
    ),
    explains=("ibv-call-failed", "memlock", "ib-devices-missing"),
    between_nodes=True,
    confirm="lsmod | grep peermem; grep GDRDMA in the log's channel lines",
    cure=(
        "modprobe nvidia-peermem (after the OFED or rdma-core that it was built with), or use the "
        "open kernel modules with a kernel of 5.12 and later for DMA-BUF"
    ),
    cost="every message takes a detour through host memory",
    severity=Severity.WARNING,
    source="NCCL src/transport/net_ib.cc",
)
