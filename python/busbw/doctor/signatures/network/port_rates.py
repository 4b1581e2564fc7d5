"""RDMA ports of one host have different rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """The rates, highest first."""
    rates = sorted({int(each["rate"]) for each in groups}, reverse=True)
    return f"RDMA ports of one host have different rates: {', '.join(map(str, rates))} Gbit/s"


SIGNATURE = Signature(
    name="port-rates",
    stage=Stage.NETWORK,
    title="RDMA ports of one host have different rates",
    patterns=(
        r"^\s{0,16}Rate: (?P<rate>\d{1,4})(?: Gb/sec.{0,20})?\s*$",
        r"^\s{0,8}rate:\s{1,8}(?P<rate>\d{1,4}) Gb/sec",
    ),
    cost="a ring over all of them is as slow as the slowest",
    severity=Severity.NOTE,
    confirm="ibstat; mlxlink -d DEVICE: the rate that cable and switch agreed on, and the one that both could do",
    cure=(
        "storage and management ports may be slower: leave them out (NCCL_IB_HCA). A port of the ranks' network that "
        "is slower than its neighbours has a bad cable, transceiver or switch port"
    ),
    source="infiniband-diags: ibstat, ibstatus",
    differs=True,
    tell=tell,
)
