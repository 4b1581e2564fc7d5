"""RDMA finds no room for its mappings."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="memory-window",
    stage=Stage.SETTING,
    title="the NIC refuses to register memory",
    patterns=(r"ibv_reg_mr\w* failed",),
    unless=(
        "cannot allocate memory",
        "bad address",
    ),
    confirm="ulimit -l; `dmesg | grep -i mlx5`; run once with NCCL_NET_GDR_LEVEL=LOC",
    cure=(
        "raise memlock, load nvidia_peermem; where only GPU memory fails set "
        "NCCL_NET_GDR_LEVEL=LOC, where DMA-BUF fails NCCL_DMABUF_ENABLE=0"
    ),
    source="NCCL src/misc/ibvwrap.cc",
)
