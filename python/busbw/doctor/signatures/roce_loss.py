"""A RoCE network that drops packets."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="roce-loss",
    stage=Stage.NETWORK,
    title="the RDMA network loses or reorders packets (congestion, no flow control, adaptive routing)",
    patterns=(
        r"PortXmitDiscards\W*[1-9]",
        r"(?:LinkErrorRecovery|PortRcvErrors|ExcBufOverrunErrors|VL15Dropped)\w*\W*[1-9]",
        r"transmit timeout: latency",
        r"TX timeout detected",
        r"out_of_sequence\b\W*[1-9]\d*",
        r"packet_seq_err\b\W*[1-9]",
        r"local_ack_timeout_err\b\W*[1-9]",
        r"rnr_nak_retry_err\b\W*[1-9]",
        r"rx_discards_phy\b\W*[1-9]",
        r"(?:Symbol|LinkDowned|PortRcv)Error\w*\W*[1-9]",
        r"SymbolErrorCounter\W*[1-9]",
        r"LinkDownedCounter\W*[1-9]",
        r"OOO RQ is force enabled but",
        r"pause storm|\bPFC\b.{0,60}(?:storm|watchdog.{0,40}(?:detected|triggered|drop))",
        r"\b(?:[Ee]ffective|[Rr]aw|[Ss]ymbol) BER\b.{0,40}(?:exceed|above|high)",
        r"^-E- .{0,120}\b(?:BER|errors?|counter)\b",
        r"port_xmit_discards\b\W*[1-9]",
    ),
    between_nodes=True,
    confirm=("ethtool -S INTERFACE and /sys/class/infiniband/*/ports/1/hw_counters before and after a run"),
    cure=(
        "make the queue of NCCL_IB_TC lossless (PFC, ECN) on NICs and switches, the same TC and SL "
        "on all nodes; NCCL_IB_ADAPTIVE_ROUTING only where the fabric has it; replace cables with "
        "symbol errors"
    ),
    cost="retransmissions cost bandwidth, then time out",
    severity=Severity.WARNING,
    source="mlx5 counters (the kernel's and NVIDIA's documentation)",
)
