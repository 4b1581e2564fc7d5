"""A RoCE network that drops packets."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

_PACKETS = (
    r"(?:PortXmitDiscards|port_xmit_discards|(?:port_rcv_|symbol_)errors?|PortRcvErrors|PortRcvErrorCounter"
    r"|SymbolError\w{0,10}|ExcBufOverrunErrors|ExcessiveBufferOverrunErrors|VL15Dropped|out_of_sequence|packet_seq_err"
    r"|local_ack_timeout_err|rnr_nak_retry_err|rx_discards_phy|rx_crc_errors_phy|rx_symbol_err_phy|[rt]x_prio[0-7]_(?:cong_|buf_)?discards?)"
)
_LINKS = r"(?:LinkErrorRecovery|LinkDowned|link_downed|link_error_recovery)\w{0,10}"
_GROWS = (
    r"(?:increas|grow|grew|rising|climb|\d ?(?:->|=>) ?\d|\+[1-9]|\bper (?:second|minute|hour)"
    r"|[1-9] ?/ ?(?:s|sec|min)\b)"
)

SIGNATURE = Signature(
    name="roce-loss",
    stage=Stage.NETWORK,
    title="the RDMA network loses or reorders packets (congestion, no flow control, adaptive routing)",
    patterns=(
        # Counters count since the boot of a machine: a few say nothing, unless the line says how fast they grow.
        rf"{_PACKETS}\W*[1-9]\d{{2,}}",
        rf"{_LINKS}\W*[1-9]\d",
        rf"{_PACKETS}\b.{{0,60}}{_GROWS}",
        rf"{_LINKS}\b.{{0,60}}{_GROWS}",
        # SONiC's table of its PFC watchdog.
        r":\d\s{1,9}stormed\s{1,40}\d+/\d+",
        r"transmit timeout: latency",
        r"OOO RQ is force enabled but",
        r"pause storm|\bPFC\b.{0,60}(?:storm|watchdog.{0,40}(?:detected|triggered|drop))",
        r"\b(?:[Ee]ffective|[Rr]aw|[Ss]ymbol) BER\b.{0,40}(?:exceed|above|high)",
        # mlxlink: what is left behind the correction; a link without errors shows 15E-255.
        r"^(?:Effective|Symbol)(?: Physical)? BER\s{0,40}: [1-9]\d{0,2}E-(?:0?[1-9]|1[01])\b",
        r"^-E- .{0,120}\b(?:BER|errors?|counter)\b",
    ),
    # The sum over all ports of a switch since its start.
    unless=("port all:", "## thresholds:"),
    between_nodes=True,
    confirm=("ethtool -S INTERFACE and /sys/class/infiniband/*/ports/1/hw_counters before and after a run"),
    cure=(
        "make the queue of NCCL_IB_TC lossless (PFC, ECN) on NICs and switches, the same TC and SL on all nodes. Set "
        "NCCL_IB_ADAPTIVE_ROUTING only where the fabric has it, and replace cables with symbol errors"
    ),
    cost="retransmissions cost bandwidth, then time out",
    severity=Severity.WARNING,
    source="mlx5 counters (the kernel's and NVIDIA's documentation)",
)
