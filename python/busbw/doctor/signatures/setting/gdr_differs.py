"""GPU Direct RDMA that some hosts of a job have and others lack."""

from collections.abc import Mapping, Sequence

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

Groups = Sequence[Mapping[str, str]]


def _lacking(groups: Groups) -> tuple[list[str], list[str]]:
    """Hosts that have it, and hosts that say that they do not for all that they say."""
    have = {each["host"] for each in groups if each.get("state", "").lower() == "enabled" and "host" in each}
    lack = {each["host"] for each in groups if each.get("state", "").lower() == "disabled" and "host" in each}
    return sorted(have), sorted(lack - have)


def tell(groups: Groups) -> str:
    """Which hosts lack it."""
    have, lack = _lacking(groups)
    return f"GPU Direct RDMA is on on {', '.join(have[:4])} and off on {', '.join(lack[:8])}: the slowest host decides"


SIGNATURE = Signature(
    name="gdr-differs",
    stage=Stage.SETTING,
    severity=Severity.WARNING,
    title="GPU Direct RDMA is on on some hosts and off on others",
    patterns=(
        r"(?P<host>[A-Za-z0-9][\w.-]{0,120}):\d{1,10}:\d{1,10} \[\d{1,4}\] NCCL INFO NET/\w{1,20} ?: "
        r"GPU Direct RDMA (?:\(\w+\) )?(?P<state>enabled|disabled) for HCA",
    ),
    confirm="on the hosts that lack it: lsmod | grep nvidia_peermem; NCCL_DEBUG=INFO: GPU Direct RDMA",
    cure=(
        "on the hosts that lack it: modprobe nvidia-peermem (after OFED), or the open kernel modules for DMA-BUF; the "
        "same driver and kernel as on the others"
    ),
    cost="between nodes often half of the bandwidth",
    source="NCCL src/transport/net_ib",
    tell=tell,
    holds=lambda groups: all(_lacking(groups)),
)
