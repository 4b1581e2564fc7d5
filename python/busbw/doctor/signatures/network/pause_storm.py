"""A host, NIC or switch that sends pause frames without end."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="pause-storm",
    stage=Stage.NETWORK,
    title="a pause storm: a NIC or host that cannot take its packets stops the lossless network (PFC)",
    patterns=(
        r"\b[tr]x_pause_storm_(?:warning|error)_events\W{1,6}[1-9]",
        r"\bpause storm\b|\bPFC (?:pause )?storm|\bstorm(?:ed)? (?:was )?detected\b.{0,60}\b(?:PFC|queue|port)",
        r"\bPFC\b.{0,60}(?:watchdog.{0,40}(?:detected|triggered|drop)|deadlock)",
        r":\d\s{1,9}stormed\s{1,40}\d+/\d+",
    ),
    explains=("ib-retry", "roce-loss", "ib-flush", "ib-completion-error", "watchdog-timeout"),
    between_nodes=True,
    confirm="ethtool -S INTERFACE | grep -e pause -e storm on each host twice: whose tx counters grow sends the pauses",
    cure=(
        "find the host whose NIC sends the pauses (tx_pause_storm, tx_prio3_pause) and take it out. Its memory or PCIe "
        "is too slow for its NIC (IOMMU, ATS, narrow link, hung GPU) or its firmware is stuck. Switch on the PFC "
        "watchdog of switches and NICs, and mark packets (ECN) before they pause"
    ),
    cost="all jobs that share the switch slow down, then their transfers time out",
    source="mlx5 counters (ethtool -S); SONiC's PFC watchdog",
)
