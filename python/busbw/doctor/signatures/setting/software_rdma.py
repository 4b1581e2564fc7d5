"""NCCL uses an RDMA device that is made by software."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="software-rdma",
    stage=Stage.SETTING,
    title="NCCL uses an RDMA device that software makes ({device}) on an ordinary network card: slower than sockets",
    patterns=(r"NCCL INFO NET/IB ?: ?Using \[\d{1,2}\](?P<device>(?:rxe|siw)[\w-]{0,16}):\d",),
    between_nodes=True,
    severity=Severity.WARNING,
    cost="each byte goes through the processors, and NICs reach no GPU memory",
    confirm="rdma link: rxe and siw devices and their network interfaces, and which ports are ACTIVE",
    cure=(
        "leave it out: NCCL_IB_HCA=^rxe,siw on all hosts, or remove it (rdma link delete NAME). Then see why the real "
        "NICs are not used: rdma link must show their ports ACTIVE"
    ),
    source="NCCL src/transport/net_ib.cc; rdma-core: rxe, siw",
)
