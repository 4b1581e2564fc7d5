"""A RoCE network that has no flow control, and loses packets."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def bears_out(groups: Sequence[Mapping[str, str]]) -> bool:
    """Flow control is off, and something was lost: many networks live without it."""
    said = {name for each in groups for name in each}
    return {"off", "lost"} <= said


SIGNATURE = Signature(
    name="roce-lossy",
    stage=Stage.SETTING,
    title="RoCE runs without flow control (PFC) on a network that drops packets: under load RDMA's packets are lost",
    patterns=(
        r"(?P<off>flow control \(PFC\) is off for every priority)",
        r"\b(?P<off>PFC (?:is )?(?:disabled|not enabled|off)\b)",
        r"(?P<lost>Got completion.{0,80}(?:status|error)[= ]\(?12\b|IBV_WC_RETRY_EXC_ERR"
        r"|transport retry count\w* exceeded"
        r"|vendor err(?:or)? 129\b)",
        r"\b(?P<lost>(?:out_of_sequence|packet_seq_err|local_ack_timeout_err|rx_discards_phy|tx_discards_phy|"
        r"roce_adp_retrans|roce_slow_restart)\W{1,4}[1-9]\d{2})",
    ),
    holds=bears_out,
    explains=("ib-retry", "roce-loss"),
    confirm=(
        "mlnx_qos -i INTERFACE; ethtool -S INTERFACE | grep -e prio -e discard; out_of_sequence in hw_counters; the "
        "switch's drops per queue"
    ),
    cure=(
        "make one priority lossless end to end: mlnx_qos --trust dscp --pfc 0,0,0,1,0,0,0,0 on all NICs. Switch PFC "
        "and ECN on for the same priority on all switches, and let the job use its DSCP (NCCL_IB_TC=106 for DSCP 26)"
    ),
    source="NVIDIA's documentation of RoCE (mlnx_qos, ECN, PFC); NCCL_IB_TC",
)
