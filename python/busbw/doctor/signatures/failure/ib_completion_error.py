"""Any other RDMA error."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="ib-completion-error",
    stage=Stage.FAILURE,
    title="an RDMA transfer failed",
    patterns=(
        r"Got completion (?:from peer .{0,80} )?with (?:error|status)",
        r"Got CQE with error",
        r"dump(?:_cqe| error cqe)",
        r"mlx5:.{0,60}got completion with error",
        r"Unsupported completion status",
        r"ibv_poll_cq.{0,40}fail",
        r"IBV_WC_(?:FATAL|GENERAL|\w+ABORT\w*)_ERR",
        r"Completion with error at (?:client|server)",
        r"\bFailed status \d+: wr_id",
        # Frames of UCX's stack, where its message is cut off.
        r"\buct_ib_\w{0,40}completion_with_err",
    ),
    confirm="ibv_wc_status of the number that follows; `dmesg | grep mlx5` on both nodes",
    cure=("test the pair of hosts by ib_write_bw; check cables and ports; run with NCCL_IB_DISABLE=1 to be sure"),
    source="NCCL src/transport/net_ib.cc",
)
