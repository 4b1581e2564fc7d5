"""The library of RDMA is not in the image."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="libibverbs-missing",
    stage=Stage.SETTING,
    title="libibverbs is not installed or too old here, so that NCCL uses sockets",
    patterns=(
        r"Failed to open libibverbs",
        r"libibverbs\.so\S*: cannot open shared object",
        r"dlvsym failed on ibv_",
        r"libibverbs.{0,40}not found",
        r"IBVERBS_1\.\d+.{0,40}not found",
        r"ibvsymbols\.\w{1,2}:\d+ NCCL WARN dlv?sym failed",
        r"mlx5dvwrap\.\w{1,2}:\d+ NCCL WARN",
        r"NET/IB: Error in mlx5dv_get_data_direct",
    ),
    between_nodes=True,
    confirm="ldconfig -p | grep ibverbs",
    cure=(
        "install rdma-core (libibverbs1, ibverbs-providers) in the image; without RDMA devices "
        "nothing is lost: NCCL_IB_DISABLE=1 says so"
    ),
    cost="between nodes sockets reach a fraction of RDMA's bandwidth",
    severity=Severity.WARNING,
    source="NCCL src/misc/ibvsymbols.cc",
)
